"""Reading the commit log record by record, and finding the way behind damaged places."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

from ..remoting.protocol.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC,
    MIN_RECORD_SIZE,
    body_crc,
    head_struct,
    size_and_magic,
)
from .commit_log import CommitLog
from .log_stretch import DispatchRequest, Stretch, StretchReader, TopicNames
from .mapped_file import MappedFile
from .record_chain import Buffer

__all__ = ["DispatchRequest", "LogScanner", "has_lost_sector"]

_MAGIC_BYTES: Final = struct.pack(">I", MAGIC)
_PHY_OFFSET: Final = struct.Struct(">q")
_PHY_OFFSET_AT: Final = 28
_CHUNK: Final = 2 << 20
_SECTOR: Final = 512
_FEW_ZEROS: Final = 8


class LogScanner:
    """Reads records of the commit log in order and tells where the intact ones end."""

    def __init__(self, commit_log: CommitLog, *, check_crc: bool = True) -> None:
        self._files: Final = commit_log.files
        self._check_crc: Final = check_crc
        self.end: int = commit_log.files.start
        """Behind the last intact record, after the scan."""
        self.damaged: list[tuple[int, int]] = []
        self._last_timestamp = 0
        self._names: Final = TopicNames()
        self._stretches: Final = StretchReader(self._names, check_crc=check_crc)

    def data_end(self) -> int:
        """Where the log ends at the latest, as far as the file system knows."""
        for file in reversed(self._files.files):
            stops = [stop for _, stop in file.data_ranges(0)]
            if stops:
                return file.start + stops[-1]
        return self._files.start

    def scan(self, start: int) -> Iterator[DispatchRequest]:
        """Every intact record from ``start`` on."""
        for piece in self.pieces(start):
            if isinstance(piece, Stretch):
                yield from piece.requests()
            else:
                yield piece

    def pieces(self, start: int) -> Iterator[Stretch | DispatchRequest]:
        """The same in pieces, several times faster: many records at once where that is possible. A stretch is always
        followed by a single record.
        """
        self.end = offset = start
        while (file := self._files.find(offset)) is not None:
            yield from self._scan_file(file, offset - file.start)
            following = file.end
            if self.end < following and self._blank_size(file, self.end - file.start) is None:
                intact = self._next_intact(self.end + 1)
                if intact is None:
                    return
                self.damaged.append((self.end, intact))
                following = intact
            self.end = offset = following

    def _scan_file(self, file: MappedFile, position: int) -> Iterator[Stretch | DispatchRequest]:
        """Records up to the first thing that is none; ``end`` tells where that is.

        They are read, not mapped: no page faults, and a bad sector is an error and not the end of the process.
        """
        with file.reading() as read:
            wanted = _CHUNK
            while file.size - position >= MIN_RECORD_SIZE:
                data = read(position, min(wanted, file.size - position))
                stretch = self._stretches.read(data, file.start + position)
                if stretch is not None and b"\0" not in b"".join(stretch.properties):  # zeros: perhaps lost
                    self.end = stretch.end
                    self._last_timestamp = int(stretch.store_timestamps[-1])
                    yield stretch.without_last()
                    yield stretch.request(-1)
                else:
                    for request in self._records(data, file.start + position, check_crc=self._check_crc):
                        self.end = request.phy_offset + request.size
                        self._last_timestamp = request.store_timestamp
                        yield request
                if self.end > file.start + position:
                    position, wanted = self.end - file.start, _CHUNK
                elif (longer := _size_here(data)) > len(data) and longer <= file.size - position:
                    wanted = longer
                else:
                    break
        self.end = file.start + position

    def _records(self, data: Buffer, base: int, *, check_crc: bool) -> Iterator[DispatchRequest]:
        """The records that ``data`` begins with, one by one; ``base`` is its physical offset."""
        names = self._names
        position, length = 0, len(data)
        while position <= length - MIN_RECORD_SIZE:
            head = head_struct(data[position + 39])
            if position + head.size > length:
                break
            (
                size, magic, crc, queue_id, _flag, queue_offset, phy_offset, sys_flag, _born, _born_host, store_timestamp,
                _store_host, _reconsume, _prepared, body_size,
            ) = head.unpack_from(data, position)  # fmt: skip
            end = position + size
            if magic != MAGIC or phy_offset != base + position or body_size < 0 or end > length:
                break
            topic_at = position + head.size + body_size + 1
            if topic_at >= end:
                break
            topic_end = topic_at + data[topic_at - 1]
            if topic_end + 2 > end or topic_end + 2 + (data[topic_end] << 8 | data[topic_end + 1]) != end:
                break
            if check_crc and body_crc(data[position + head.size : topic_at - 1]) != crc:
                break
            topic = names[bytes(data[topic_at:topic_end])]
            if topic is None:
                break
            properties = bytes(data[topic_end + 2 : end])
            if b"\0" in properties and has_lost_sector(data, base, topic_end + 2, end):
                break
            yield DispatchRequest(topic, queue_id, phy_offset, size, queue_offset, sys_flag, store_timestamp, properties)
            position = end

    def records(self, data: Buffer, base: int) -> Iterator[DispatchRequest]:
        """The records that ``data`` begins with, for who has read it elsewhere; ``base`` is its physical offset."""
        return self._records(data, base, check_crc=self._check_crc)

    def _blank_size(self, file: MappedFile, position: int) -> int | None:
        """How much the blank record at a position skips; None when there is none."""
        if position + BLANK_SIZE > file.size:
            return None
        size, magic = size_and_magic(file.read_unmapped(position, BLANK_SIZE), 0)
        return size if magic == BLANK_MAGIC else None

    def _next_intact(self, offset: int) -> int | None:
        """Where the next intact record begins: found by its magic, proved like every other one, and by its CRC.

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
        with file.reading() as read:
            for at in range(position, stop, _CHUNK):
                window = read(at, min(_CHUNK + len(_MAGIC_BYTES) - 1, stop + len(_MAGIC_BYTES) - at))
                magic_at = -1
                while (magic_at := window.find(_MAGIC_BYTES, magic_at + 1)) >= 0:
                    start = at + magic_at - 4
                    if start >= 0 and self._is_intact(file, start, read):
                        return file.start + start
        return None

    def _is_intact(self, file: MappedFile, start: int, read: Callable[[int, int], bytes]) -> bool:
        head = read(start, _PHY_OFFSET_AT + _PHY_OFFSET.size)
        if head[_PHY_OFFSET_AT:] != _PHY_OFFSET.pack(file.start + start):
            return False
        end = min(start + max(MIN_RECORD_SIZE, size_and_magic(head, 0)[0]), file.size)
        sector_end = end + -(file.start + end) % _SECTOR
        record = next(self._records(read(start, sector_end - start), file.start + start, check_crc=True), None)
        return record is not None and record.store_timestamp >= self._last_timestamp


def has_lost_sector(data: Buffer, base: int, begin: int, end: int) -> bool:
    """Whether the properties at [begin, end) were lost in a power failure, as far as that can be told: no CRC covers them.

    A disk loses whole sectors, which then hold zeros. Fewer bytes than ``_FEW_ZEROS`` of one could be the user's.
    """
    first = begin - (base + begin) % _SECTOR
    for start in range(first, end, _SECTOR):
        sector = bytes(data[max(0, start) : start + _SECTOR])
        if min(end, start + _SECTOR) - max(begin, start) >= _FEW_ZEROS and sector.count(0) == len(sector):
            return True
    return False


def _size_here(data: bytes) -> int:
    """How long the record that begins here says it is; 0 when none does."""
    size, magic = size_and_magic(data, 0) if len(data) >= BLANK_SIZE else (0, 0)
    return size if magic == MAGIC else 0
