"""A store in a temporary folder, small files, a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import encode_properties, tags_code_of
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.store.disk.disk import Disk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import GetMessageStatus, PutResult, PutStatus
from aiorocketmq.store.queues.consume_queue_ext import ExtUnit
from tests.stored import decode_messages

from ..sim import ManualClock

STORE_HOST = pack_host("127.0.0.1", 10911)
BORN_HOST = pack_host("10.1.2.3", 40000)
NOW = 1_700_000_000_000


def config_of(root: Path, **changes: Any) -> MessageStoreConfig:
    """Files so small that a few dozen messages fill several."""
    small = {"mapped_file_size_commit_log": 8192, "mapped_file_size_consume_queue": 200}
    settings: dict[str, Any] = small | {"max_hash_slot_num": 10, "max_index_num": 40} | changes
    return MessageStoreConfig(store_path_root_dir=str(root), **settings)


def open_store(
    root: Path, disk: Disk | None = None, store_host: bytes = STORE_HOST, **changes: Any
) -> MessageStore:
    return MessageStore.open(
        config_of(root, **changes), ManualClock(), store_host=store_host, disk=disk
    )


def put(
    store: MessageStore, topic: str = "T", queue_id: int = 0, body: bytes = b"body", **fields: Any
) -> PutResult:
    """Put a message; ``properties`` may be a dict."""
    properties = fields.pop("properties", b"")
    encoded = encode_properties(properties) if isinstance(properties, dict) else properties
    usual = {"born_host": BORN_HOST, "born_timestamp": NOW - 5, "store_timestamp": NOW}
    settings: dict[str, Any] = usual | fields
    return store.put_message(
        PutMessage(topic, queue_id, body, encoded, tags_code=tags_code_of(encoded), **settings)
    )


def put_ok(
    store: MessageStore, topic: str = "T", queue_id: int = 0, body: bytes = b"body", **fields: Any
) -> PutResult:
    result = put(store, topic, queue_id, body, **fields)
    assert result.status is PutStatus.PUT_OK, result
    return result


def messages_of(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[MessageExt]:
    """Everything that pulls bring from a queue, from its first message to its last, also behind
    damage that a replica waits at."""
    reader = store._reader
    as_before = reader.follows, reader.awaited
    reader.follows, reader.awaited = lambda: False, dict
    messages: list[MessageExt] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset)
        if result.status is GetMessageStatus.FOUND:
            messages += decode_messages(result.body, check_crc=True)
        assert result.next_begin_offset > offset, result
        offset = result.next_begin_offset
    reader.follows, reader.awaited = as_before
    return messages


def bodies_of(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in messages_of(store, topic, queue_id)]


class Filter:
    """What is asked for messages one by one (``RecordFilter``)."""

    def __init__(
        self,
        accepts: Callable[[Any, int, int], bool] = lambda *_: True,
        accepts_ext: Callable[[ExtUnit], bool] | None = None,
        scan_limit: int = 800,
    ) -> None:
        self.accepts = accepts
        self.accepts_ext = accepts_ext
        self.scan_limit = scan_limit


def crash(store: MessageStore) -> None:
    """End without a word, as SIGKILL would: the pages that were written stay, nothing is synced or
    noted."""
    store._close_files()


def folder_contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
