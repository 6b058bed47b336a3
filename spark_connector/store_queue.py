"""The records that the units of a consume queue point at (consumequeue-index.md §1)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ..store.config import CQ_UNIT_SIZE
from ..store.log_reader import Damage, FileSequence, LogReader
from .record_arrays import Array, find_records
from .store_log_file import Piece, proven
from .store_options import StoreOptions
from .store_parts import QueuePart, log_sequence, report_damage

__all__ = ["read_queue"]

log: Final = logging.getLogger(__name__)

_UNIT: Final = np.dtype([("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_PRE_FILL: Final = 0x7FFFFFFF
"""Size in the units that stand before the first one of a queue that does not begin at 0."""
_NEAR: Final = 32 << 10
"""Records that are not further apart are read in one go, with what lies between them."""


class _Units(NamedTuple):
    """Some units: their numbers, and what they say."""

    numbers: Array
    phy_offsets: Array
    sizes: Array


def read_queue(part: QueuePart, options: StoreOptions) -> Iterator[Piece]:
    """The records of a part, in the order of the queue. Raises StoreDamageError, OSError.

    What the last units point at may be missing: the log of a broker that has crashed can be shorter than its queues.
    """
    queue, sequence = FileSequence(part.folder), log_sequence(part.place)
    files = _OpenFiles(sequence)
    suspect: tuple[int, int] | None = None
    try:
        for units in _blocks(queue, part, options):
            right, piece = _records_of(units, files)
            good, bad = np.flatnonzero(right), np.flatnonzero(~right)
            if len(good):
                between = units.numbers[bad[bad < good[-1]]].tolist()
                for number in between if suspect is None else [suspect[0], *between]:
                    _report(queue, number, options.fail_on_damage)
                suspect, bad = None, bad[bad > good[-1]]
            if suspect is None and len(bad):
                suspect = int(units.numbers[bad[0]]), int(units.phy_offsets[bad[0]])
            if piece is not None:
                yield piece
    finally:
        files.close()
    if suspect is None:
        return
    if _is_behind_the_log(sequence, suspect[1]):
        log.info("%s: the commit log ends before what the units from %d on point at", part.folder, suspect[0])
    else:
        _report(queue, suspect[0], options.fail_on_damage)


def _is_behind_the_log(sequence: FileSequence, phy_offset: int) -> bool:
    """No intact record lies there or further on."""
    found = next(LogReader(sequence).read(max(phy_offset, sequence.start)), None)
    return found is None or (isinstance(found, Damage) and found.tail)


def _report(queue: FileSequence, number: int, fail: bool) -> None:
    offset = number * CQ_UNIT_SIZE
    file = queue.find(offset)
    path, position = (queue.directory, offset) if file is None else (file.path, offset - file.start)
    report_damage(path, position, f"unit {number} of the queue does not point at an intact record", fail)


def _blocks(queue: FileSequence, part: QueuePart, options: StoreOptions) -> Iterator[_Units]:
    """The units of a part, in blocks that lead to so many records and bytes as one batch is to have."""
    number = part.first
    while number < part.end:
        data = _read(queue, number, min(options.arrow_batch_rows, part.end - number))
        units = np.frombuffer(data, _UNIT)
        if not len(units):
            raise OSError(f"{part.folder}: unit {number} cannot be read any more")
        numbers = np.arange(number, number + len(units))
        number += len(units)
        offsets, sizes = units["phy_offset"].astype(np.int64), units["size"].astype(np.int64)
        wanted = (offsets >= part.log_start) & (offsets < part.log_end) & (sizes != _PRE_FILL)
        numbers, offsets, sizes = numbers[wanted], offsets[wanted], sizes[wanted]
        batches = np.cumsum(np.maximum(sizes, 0)) // options.arrow_batch_bytes
        for some in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(batches)) + 1):
            if len(some):
                yield _Units(numbers[some], offsets[some], sizes[some])


def _read(queue: FileSequence, number: int, count: int) -> bytes:
    """Whole units from one file, as many as there are; a file that is missing has none."""
    offset = number * CQ_UNIT_SIZE
    file = queue.find(offset)
    if file is None:
        return bytes(CQ_UNIT_SIZE)  # as a unit that was never written
    data = file.read(offset - file.start, count * CQ_UNIT_SIZE)
    return data[: len(data) - len(data) % CQ_UNIT_SIZE]


def _records_of(units: _Units, files: _OpenFiles) -> tuple[Array, Piece | None]:
    """Which units point at records, and those records."""
    slices = files.read(units.phy_offsets, units.sizes)
    whole: Array = (np.array([len(each) for each in slices]) == units.sizes) & (units.sizes > 0)
    if not whole.any():
        return whole, None
    numbers = np.flatnonzero(whole)
    view = memoryview(b"".join([slices[number] for number in numbers.tolist()]))
    begins = np.append(0, np.cumsum(units.sizes[numbers])[:-1])
    right, records = proven(view, begins, units.phy_offsets[numbers])
    if records is not None:
        return whole, Piece(view, records)
    whole[numbers] = right
    intact = memoryview(b"".join([slices[number] for number in np.flatnonzero(whole).tolist()]))
    found = find_records(intact) if len(intact) else None
    return whole, None if found is None else Piece(intact, found)


class _OpenFiles:
    """The files of the commit log, opened when they are needed; mostly one after the other."""

    def __init__(self, sequence: FileSequence) -> None:
        self._sequence: Final = sequence
        self._starts: Final = np.array([file.start for file in sequence.files], np.int64)
        self._open: tuple[int, int] | None = None

    def read(self, offsets: Array, sizes: Array) -> list[memoryview]:
        """The bytes at these places, short or empty where there are not so many in one file."""
        files: Array = np.searchsorted(self._starts, offsets, "right") - 1
        gaps = offsets[1:] - (offsets[:-1] + sizes[:-1])
        cuts = np.flatnonzero((gaps < 0) | (gaps > _NEAR) | (np.diff(files) != 0)) + 1
        slices: list[memoryview] = []
        for some in np.split(np.arange(len(offsets)), cuts):
            start, stop = int(offsets[some[0]]), int(offsets[some[-1]] + sizes[some[-1]])
            data = memoryview(self._read(int(files[some[0]]), start, stop - start))
            begins = (offsets[some] - start).tolist()
            ends = (offsets[some] - start + sizes[some]).tolist()
            slices += [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
        return slices

    def _read(self, number: int, offset: int, length: int) -> bytes:
        if number < 0 or length <= 0:
            return b""
        file = self._sequence.files[number]
        if self._open is None or self._open[0] != number:
            self.close()
            self._open = number, os.open(file.path, os.O_RDONLY)
        return os.pread(self._open[1], min(length, max(0, file.end - offset)), offset - file.start)

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None
