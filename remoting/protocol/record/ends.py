"""Where the next record and its unit go, and how both are written.

The order is what recovery relies on: the record, then the unit of the queue (a unit without its
record must never be found, nor one of a half message), and only then the new end of both.
"""

from __future__ import annotations

from typing import Any

from ..leaves import KeyEntries, leaf
from ..message.properties import MAX_PROPERTIES_BYTES
from ..message.sys_flag import UNQUEUED
from .encode import record_of, with_hosts
from .entry import entry_head
from .layout import QUEUE_UNIT, RecordHead, record_overhead


@leaf
class LogEnd:
    """The end of a commit log: ``buffer[position:limit]`` is where the next record goes, with space
    for a blank behind."""

    __slots__ = (
        "base", "buffer", "head", "index", "last_store_timestamp", "limit", "max_body",
        "max_record", "position", "store_host", "term",
    )  # fmt: skip

    def __init__(self) -> None:
        self.buffer: Any = b""
        self.base: int = 0
        """Offset of ``buffer`` in the log."""
        self.position: int = 0
        self.limit: int = 0
        self.last_store_timestamp: int = 0
        """Of the last record; 0 when there is none."""
        self.store_host: bytes = bytes(8)
        """The packed address that goes into every record."""
        self.max_body: int = 0
        self.max_record: int = 0
        """Bytes; what is longer is not taken."""
        self.head: int = 0
        """48: every record gets the head of an entry in front, as in a DLedger log; 0: none."""
        self.index: int = 0
        """With heads: of the next entry."""
        self.term: int = 0
        """With heads: that goes into them."""


@leaf
class QueueEnd:
    """The end of a consume queue: ``buffer[position:limit]`` is where the next units go; of no
    length while it is not mapped."""

    __slots__ = ("buffer", "limit", "max_offset", "position", "queue_id", "topic_field")

    def __init__(self) -> None:
        self.buffer: Any = b""
        self.position: int = 0
        self.limit: int = 0
        self.max_offset: int = 0
        """Number of the next message."""
        self.queue_id: int = 0
        self.topic_field: bytes = b""
        """The topic as a record has it, with its length in front."""


@leaf
def put_record(
    log: LogEnd,
    queue: QueueEnd,
    keys: KeyEntries | None,
    body: bytes | memoryview,
    properties: bytes,
    flag: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    reconsume_times: int,
    prepared_transaction_offset: int,
    tags_code: int,
    /,
) -> tuple[int, int, int] | None:
    """(Its fields stand by position: compiled, it is a call into C.)

    Write a record and its unit, move both ends, and tell the index of its keys (``None``: there
    is no index): where it lies, its number in the queue, and its size.

    ``None``: nothing is written, because it is too long or there is no space. Prepared and rolled
    back messages get no number (0) and no unit. The bits for IPv6 in ``sys_flag`` are set by the
    hosts, which are packed. Nothing is kept of the buffers. Compiled, the first 8 bytes of the
    record come last, then those of its head: a kill on the way leaves a whole record or none.
    Raises ValueError for hosts of other lengths, and where a limit lies behind its buffer's end.
    """
    sys_flag = with_hosts(sys_flag, born_host, log.store_host)
    numbered = not sys_flag & UNQUEUED
    size = record_overhead(sys_flag) - 1 + len(queue.topic_field) + len(body) + len(properties)
    if (
        len(body) > log.max_body
        or len(properties) > MAX_PROPERTIES_BYTES
        or size > log.max_record
        or log.head + size > log.limit - log.position
        or (numbered and queue.limit - queue.position < QUEUE_UNIT.size)
    ):
        return None
    phy_offset = log.base + log.position + log.head
    queue_offset = queue.max_offset if numbered else 0
    if numbered:
        check_room(queue.buffer, queue.position, QUEUE_UNIT.size)
    head = RecordHead(
        0, 0, 0, queue.queue_id, flag, queue_offset, phy_offset, sys_flag, born_timestamp,
        born_host, store_timestamp, log.store_host, reconsume_times, prepared_transaction_offset, 0,
    )  # fmt: skip
    record = record_of(head, body, queue.topic_field, properties)
    if log.head:
        record = entry_head(log.index, log.term, phy_offset - log.head, size) + record
    write_at(log.buffer, log.position, record)
    log.index += bool(log.head)
    if numbered:
        write_at(queue.buffer, queue.position, QUEUE_UNIT.pack(phy_offset, size, tags_code))
        queue.position += QUEUE_UNIT.size
        queue.max_offset += 1
    log.position += len(record)
    log.last_store_timestamp = store_timestamp
    if keys is not None:
        keys.add(queue.topic_field[1:].decode(), properties, phy_offset, store_timestamp, sys_flag)
    return phy_offset, queue_offset, size


def check_room(buffer: Any, position: int, size: int) -> None:
    """Raises ValueError where there is none."""
    if not 0 <= position <= len(buffer) - size:
        raise ValueError("no room for the record or its unit")


def write_at(buffer: Any, position: int, data: bytes) -> None:
    """Raises ValueError where it does not fit."""
    check_room(buffer, position, len(data))
    buffer[position : position + len(data)] = data
