"""The records of one file of a commit log, read from outside: no lock, no mapping, nothing is written.

A log ends where no intact record follows: zeros, the half of a record that a crash has left, or records of a log that was
longer once. Anything else that is no record is damage.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ..remoting.protocol.record import BLANK_MAGIC, BLANK_SIZE, MAGIC, MIN_RECORD_SIZE
from ..store.holes import data_ranges
from ..store.log_reader import Damage, LogReader
from .decode_slow import MAGIC_V2
from .record_arrays import Array, RecordArrays, find_records
from .store_options import StoreOptions
from .store_parts import LogFilePart, StoreDamageError, log_sequence, report_damage

__all__ = ["Piece", "proven", "read_log_file"]

log: Final = logging.getLogger(__name__)

_SIZE_AND_MAGIC: Final = struct.Struct(">iI")
_BLOCK: Final = 16 << 20


class Piece(NamedTuple):
    """Whole records, and where they lie in ``view``."""

    view: memoryview
    records: RecordArrays


def proven(view: memoryview, begins: Array, phy_offsets: Array) -> tuple[Array, RecordArrays | None]:
    """Which of the records that are said to begin in ``view`` do, each up to the next, and the arrays if all of them do."""
    ends = np.append(begins[1:], len(view))
    records = find_records(view, begins)
    if records is not None:
        right = (records.heads["phy_offset"] == phy_offsets) & (records.ends == ends)
        return right, records if right.all() else None
    right = np.zeros(len(begins), bool)
    for number, (begin, end, phy_offset) in enumerate(
        zip(begins.tolist(), ends.tolist(), phy_offsets.tolist(), strict=True)
    ):
        record = find_records(view[begin:end])
        right[number] = record is not None and len(record) == 1 and record.heads["phy_offset"][0] == phy_offset
    return right, None


def read_log_file(part: LogFilePart, options: StoreOptions) -> Iterator[Piece]:
    """All records of a file. Raises StoreDamageError, OSError."""
    fd = os.open(part.file.path, os.O_RDONLY)
    try:
        yield from _LogFile(fd, part, options).pieces()
    finally:
        os.close(fd)


class _LogFile:
    """Reads one file of a commit log."""

    def __init__(self, fd: int, part: LogFilePart, options: StoreOptions) -> None:
        self._fd: Final = fd
        self._part: Final = part
        self._file: Final = part.file
        self._rows: Final = options.arrow_batch_rows
        self._at_once: Final = max(options.arrow_batch_bytes, MIN_RECORD_SIZE)
        self._fail: Final = options.fail_on_damage
        self._position: int | None = 0
        """Where the next record should begin; ``None`` behind the last one."""
        self._wanted = self._at_once
        self._last_record: int | None = None

    def pieces(self) -> Iterator[Piece]:
        while self._position is not None:
            data = memoryview(os.pread(self._fd, min(self._wanted, self._file.length - self._position), self._position))
            before = self._position
            yield from self._records(data)
            if self._position > before:
                self._wanted = self._at_once
            else:
                self._position = self._behind(data)

    def _records(self, data: memoryview) -> Iterator[Piece]:
        """The records that ``data`` begins with; the position goes behind them."""
        assert self._position is not None
        base = self._file.start + self._position
        edges = _walk(data)
        for first in range(0, len(edges) - 1, self._rows):
            some = np.array(edges[first : first + self._rows + 1], np.int64)
            begins = some[:-1] - some[0]
            view = data[some[0] : some[-1]]
            right, records = proven(view, begins, base + some[:-1])
            count = len(right) if right.all() else int(right.argmin())
            if count:
                view = view[: some[count] - some[0]]
                found = records if records is not None else find_records(view)
                assert found is not None
                yield Piece(view, found)
                self._last_record = int(base + some[count - 1])
                self._position = int(base + some[count] - self._file.start)
            if count < len(right):
                return

    def _behind(self, data: memoryview) -> int | None:
        """Where to go on when no record lies at the position; ``None``: the file is read to its end."""
        assert self._position is not None
        left = self._file.length - self._position
        size, magic = _SIZE_AND_MAGIC.unpack_from(data) if len(data) >= BLANK_SIZE else (0, 0)
        if magic == BLANK_MAGIC or not left:
            return None
        if magic in (MAGIC, MAGIC_V2) and len(data) < size <= left:
            self._wanted = size
            return self._position
        if self._part.last and not size and not magic and _only_zeros(self._fd, self._position, self._file.length):
            return None
        return self._behind_damage()

    def _behind_damage(self) -> int | None:
        """Where an intact record follows. The slow reader of the store is good at that."""
        assert self._position is not None
        here = self._file.start + self._position
        start = here if self._last_record is None else self._last_record
        for item in LogReader(log_sequence(self._part.place)).read(start):
            if isinstance(item, Damage) and item.end > here >= item.begin:
                if item.tail:
                    log.info("%s: the log ends at byte %d (%s)", item.path, item.position, item.problem)
                    return None
                report_damage(item.path, item.position, item.problem, self._fail)
                return item.end - self._file.start if item.end < self._file.end else None
        raise StoreDamageError(self._file.path, self._position, "no record that can be read begins here")


def _walk(data: memoryview) -> list[int]:
    """Where records begin, as sizes and magics lead from one to the next, and at last where the last one ends."""
    unpack = _SIZE_AND_MAGIC.unpack_from
    edges = [0]
    add = edges.append
    at, length = 0, len(data)
    while at + MIN_RECORD_SIZE <= length:
        size, magic = unpack(data, at)
        at += size
        if (magic != MAGIC and magic != MAGIC_V2) or size < MIN_RECORD_SIZE or at > length:
            break
        add(at)
    return edges


def _only_zeros(fd: int, position: int, length: int) -> bool:
    for start, stop in data_ranges(fd, position, length):
        for at in range(start, stop, _BLOCK):
            if np.frombuffer(os.pread(fd, min(_BLOCK, stop - at), at), np.uint8).any():
                return False
    return True
