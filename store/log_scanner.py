"""Reading the commit log record by record, and finding the way behind damaged places."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ..remoting.protocol.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC,
    MIN_RECORD_SIZE,
    RecordError,
    body_crc,
    decode_record,
    head_struct,
    size_and_magic,
)
from .commit_log import CommitLog
from .mapped_file import MappedFile

__all__ = ["DispatchRequest", "LogScanner"]

_MAGIC_BYTES: Final = struct.pack(">I", MAGIC)
_PHY_OFFSET: Final = struct.Struct(">q")


class DispatchRequest(msgspec.Struct, frozen=True, gc=False):
    """What consume queues and (later) the index want to know of a record (class DispatchRequest)."""

    topic: str
    queue_id: int
    phy_offset: int
    size: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes


class LogScanner:
    """Reads records of the commit log in order and tells where the intact ones end."""

    def __init__(self, commit_log: CommitLog, *, check_crc: bool = True) -> None:
        self._files: Final = commit_log.files
        self._check_crc: Final = check_crc
        self.end = commit_log.files.start
        """Behind the last intact record, after the scan."""
        self.damaged: list[tuple[int, int]] = []
        self._last_timestamp = 0

    def scan(self, start: int) -> Iterator[DispatchRequest]:
        """Every intact record from ``start`` on."""
        self.end = offset = start
        while (file := self._files.find(offset)) is not None:
            yield from self._scan_file(file, offset - file.start)
            following = file.end
            if self.end < following and self._blank_size(file, self.end - file.start) is None:
                intact = self._next_intact(self.end)
                if intact is None:
                    return
                self.damaged.append((self.end, intact))
                following = intact
            self.end = offset = following

    def _scan_file(self, file: MappedFile, position: int) -> Iterator[DispatchRequest]:
        """Records up to the first thing that is none; ``end`` tells where that is."""
        data, base, check_crc = file.map, file.start, self._check_crc
        topics: dict[bytes, str] = {}
        last = file.size - MIN_RECORD_SIZE
        while position <= last:
            head = head_struct(data[position + 39])
            if position + head.size > file.size:
                break
            (
                size, magic, crc, queue_id, _flag, queue_offset, phy_offset, sys_flag, _born, _born_host, store_timestamp,
                _store_host, _reconsume, _prepared, body_size,
            ) = head.unpack_from(data, position)  # fmt: skip
            if magic != MAGIC or phy_offset != base + position or body_size < 0 or position + size > file.size:
                break
            topic_at = position + head.size + body_size + 1
            end = position + size
            if topic_at >= end:
                break
            topic_end = topic_at + data[topic_at - 1]
            if topic_end + 2 > end or topic_end + 2 + (data[topic_end] << 8 | data[topic_end + 1]) != end:
                break
            if check_crc and body_crc(data[position + head.size : topic_at - 1]) != crc:
                break
            topic_bytes = data[topic_at:topic_end]
            topic = topics.get(topic_bytes)
            if topic is None:
                if b"\0" in topic_bytes:
                    break  # torn: the rest of the record was never written
                topic = topics[topic_bytes] = topic_bytes.decode("utf-8", "replace")
            self.end = base + end
            self._last_timestamp = store_timestamp
            yield DispatchRequest(
                topic, queue_id, phy_offset, size, queue_offset, sys_flag, store_timestamp, data[topic_end + 2 : end]
            )
            position = end
        self.end = base + position

    def _blank_size(self, file: MappedFile, position: int) -> int | None:
        """How much the blank record at a position skips; None when there is none."""
        if position + BLANK_SIZE > file.size:
            return None
        size, magic = size_and_magic(file.map, position)
        return size if magic == BLANK_MAGIC else None

    def _next_intact(self, offset: int) -> int | None:
        """Where the next intact record begins: found by its magic, proved by its own offset, sizes and CRC.

        A record older than the last one is a leftover of a log that was cut here once, and not of this log.
        """
        for file in self._files.files:
            if file.end <= offset:
                continue
            for start, stop in file.data_ranges(max(0, offset - file.start)):
                found = self._find_record(file, max(start, offset - file.start), stop)
                if found is not None:
                    return found
        return None

    def _find_record(self, file: MappedFile, position: int, stop: int) -> int | None:
        data: Any = file.map
        while (magic_at := data.find(_MAGIC_BYTES, position, min(stop + 4, file.size))) >= 0:
            start = magic_at - 4
            position = magic_at + 1
            if start < 0 or start + MIN_RECORD_SIZE > file.size:
                continue
            if _PHY_OFFSET.unpack_from(data, start + 28)[0] != file.start + start:
                continue
            size = size_and_magic(data, start)[0]
            try:
                message = decode_record(data[start : start + max(0, size)], check_crc=True)
            except RecordError:
                continue
            if message.store_timestamp >= self._last_timestamp:
                return int(file.start + start)
        return None
