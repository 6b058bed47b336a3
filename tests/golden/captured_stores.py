"""Stores that the original wrote, what it says of them, and their messages put once more."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import tags_code_of
from aiorocketmq.remoting.protocol.record import MessageExt
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutMessage
from tests.stored import StoreDirectory

from ..golden_files import golden_lines, unpack_golden
from ..store.world import open_store


class Golden(NamedTuple):
    name: str
    commit_log_file: int
    store_host: bytes
    role: str = "master"

    @property
    def archive(self) -> str:
        return f"store-{self.name}-{self.role}"

    def dump(self) -> list[dict[str, Any]]:
        return lines_of(f"store-{self.name}-{self.role}.dump")

    def manifest(self) -> list[dict[str, Any]]:
        return lines_of(f"store-{self.name}.manifest")

    def extract(self, tmp_path: Path) -> Path:
        unpack_golden(self.archive, tmp_path)
        return tmp_path / self.role

    def open(self, root: Path) -> MessageStore:
        return open_store(
            root,
            store_host=self.store_host,
            mapped_file_size_commit_log=self.commit_log_file,
            mapped_file_size_consume_queue=2000,
            max_hash_slot_num=100,
            max_index_num=400,
        )


GOLDEN = [
    Golden("clean", 65536, pack_host("127.0.0.1", 27811)),
    Golden("sigkill", 1 << 20, pack_host("127.0.0.1", 27811)),
    Golden("ipv6", 65536, pack_host("::1", 27811)),
    Golden("clean", 65536, pack_host("127.0.0.1", 27811), role="slave"),
]
all_stores = pytest.mark.parametrize(
    "golden", GOLDEN, ids=lambda golden: f"{golden.name}-{golden.role}"
)


@functools.cache
def lines_of(name: str) -> list[dict[str, Any]]:
    return list(golden_lines(name))


def queue_units(root: Path) -> list[tuple[str, int, str, list[list[int]]]]:
    return [
        (file.topic, file.queue_id, file.path.name, [list(unit) for unit in file.units])
        for file in StoreDirectory(root).queue_files()
    ]


def dumped_units(dump: list[dict[str, Any]]) -> list[tuple[str, int, str, list[list[int]]]]:
    return sorted(
        (line["topic"], line["queueId"], line["file"], line["entries_qoff_phy_size_tag"])
        for line in dump
        if line["type"] == "cq"
    )


def put_of(message: MessageExt, tags_code: int | None = None) -> PutMessage:
    """It once more, from its fields."""
    head = message.head
    return PutMessage(
        message.topic,
        head.queue_id,
        message.stored_body,
        message.raw_properties,
        born_host=head.born_host,
        born_timestamp=head.born_timestamp,
        store_timestamp=head.store_timestamp,
        tags_code=tags_code or tags_code_of(message.raw_properties),
        flag=head.flag,
        sys_flag=head.sys_flag,
        reconsume_times=head.reconsume_times,
        prepared_transaction_offset=head.prepared_transaction_offset,
    )
