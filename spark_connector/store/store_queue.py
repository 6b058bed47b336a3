"""The records that the units of a consume queue point at (consumequeue-index.md §1)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ...remoting.protocol.record import size_and_magic, verdict_of
from ...remoting.protocol.record.layout import FILLER_SIZE, QUEUE_UNIT, QueueUnit
from ...store.log.log_reader import FileSequence
from ...store.model.config import CQ_UNIT_SIZE
from ..decode.arrow_arrays import struct_type
from ..decode.record_arrays import Array, find_records
from .store_log_file import Piece, goes_on
from .store_options import StoreOptions
from .store_parts import QueuePart, log_sequence, report_damage

__all__ = ["read_queue"]

log: Final = logging.getLogger(__name__)

_UNIT: Final = struct_type(QueueUnit._fields, QUEUE_UNIT)
_NEAR: Final = 32 << 10
"""Records that are not further apart are read in one go, with what lies between them."""


class _Units(NamedTuple):
    """Some units: their numbers, and what they say."""

    numbers: Array
    phy_offsets: Array
    sizes: Array


class _Suspect(NamedTuple):
    """A unit that does not point at an intact record."""

    number: int
    phy_offset: int
    problem: str


def read_queue(part: QueuePart, options: StoreOptions) -> Iterator[Piece]:
    """The records of a part, in the order of the queue. Raises StoreDamageError, OSError.

    What the last units point at may be missing: the log of a broker that has crashed can be shorter
    than its queues.
    """
    queue, sequence = FileSequence(part.folder), log_sequence(part.place)
    files = _OpenFiles(sequence)
    suspects: list[_Suspect] = []
    try:
        for units in _blocks(queue, part, options):
            piece, wrong = _records_of(units, files, check_crc=options.check_crc)
            if piece is not None:
                missed = {each.number for each in wrong}
                last = next(number for number in units.numbers[::-1] if number not in missed)
                for suspect in [*suspects, *(each for each in wrong if each.number < last)]:
                    _report(queue, suspect, options.fail_on_damage)
                suspects, wrong = [], [each for each in wrong if each.number > last]
                yield piece
            suspects = suspects or wrong[:1]
    finally:
        files.close()
    for suspect in suspects:
        if goes_on(sequence, suspect.phy_offset):
            _report(queue, suspect, options.fail_on_damage)
        else:
            log.info(
                "%s: the commit log ends before what the units from %d on point at",
                part.folder,
                suspect.number,
            )


def _report(queue: FileSequence, suspect: _Suspect, fail: bool) -> None:
    offset = suspect.number * CQ_UNIT_SIZE
    file = queue.find(offset)
    path, position = (queue.directory, offset) if file is None else (file.path, offset - file.start)
    problem = (
        f"unit {suspect.number} of the queue does not point at an intact record: {suspect.problem}"
    )
    report_damage(path, position, problem, fail)


def _blocks(queue: FileSequence, part: QueuePart, options: StoreOptions) -> Iterator[_Units]:
    """The units of a part, in blocks that lead to so many records, and for which so many bytes are
    read, as one batch is to have."""
    number = max(part.first, -(-queue.start // CQ_UNIT_SIZE))  # a broker deletes from the front
    while number < part.end:
        data = _read(queue, number, min(options.arrow_batch_rows, part.end - number))
        units = np.frombuffer(data, _UNIT)
        if not len(units):
            raise OSError(f"{part.folder}: unit {number} cannot be read any more")
        numbers = np.arange(number, number + len(units))
        number += len(units)
        offsets, sizes = units["phy_offset"].astype(np.int64), units["size"].astype(np.int64)
        wanted = _wanted(offsets, sizes, part)
        numbers, offsets, sizes = numbers[wanted], offsets[wanted], sizes[wanted]
        batches = np.cumsum(_read_for(offsets, sizes)) // options.arrow_batch_bytes
        for some in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(batches)) + 1):
            if len(some):
                yield _Units(numbers[some], offsets[some], sizes[some])


def _read_for(offsets: Array, sizes: Array) -> Array:
    """How many bytes of the log are read for each unit, with those that lie in front of it."""
    read = np.maximum(sizes, 0)
    gaps = offsets[1:] - (offsets[:-1] + sizes[:-1])
    read[1:] += np.where((gaps > 0) & (gaps <= _NEAR), gaps, 0)
    return read


def _wanted(offsets: Array, sizes: Array, part: QueuePart) -> Array:
    """Units that point into the files that are read, or should."""
    inside = (offsets >= part.log_start) & (offsets < part.log_end) & (sizes != FILLER_SIZE)
    wanted = inside | (sizes == 0)  # never written, or gone: nobody knows what they pointed at
    if len(places := np.flatnonzero(inside)):  # what lies between two that do has to point there
        wanted[places[0] : places[-1]] |= sizes[places[0] : places[-1]] != FILLER_SIZE
    return wanted


def _read(queue: FileSequence, number: int, count: int) -> bytes:
    """Whole units from one file, as many as there are; where a file is missing, as if they were
    never written."""
    offset = number * CQ_UNIT_SIZE
    file = queue.find(offset)
    if file is None:
        starts = (-(-each.start // CQ_UNIT_SIZE) for each in queue.files)
        stop = min((each for each in starts if each > number), default=number + count)
        return bytes(min(count, stop - number) * CQ_UNIT_SIZE)
    data = file.read(offset - file.start, count * CQ_UNIT_SIZE)
    return data[: len(data) - len(data) % CQ_UNIT_SIZE]


def _records_of(
    units: _Units, files: _OpenFiles, *, check_crc: bool
) -> tuple[Piece | None, list[_Suspect]]:
    """The records that units point at, if any, and the units that point at none."""
    slices = files.read(units.phy_offsets, units.sizes)
    view = memoryview(b"".join(slices))
    records = find_records(view, check_crc=check_crc)
    if (
        records is not None
        and len(records) == len(slices)
        and (records.phy_offset == units.phy_offsets).all()
    ):
        ends = np.cumsum([len(each) for each in slices])
        if (records.ends == ends).all() and (records.ends - records.starts == units.sizes).all():
            return Piece(view, records), []
    wrong, intact = [], []
    for number, phy_offset, size, data in zip(
        units.numbers.tolist(),
        units.phy_offsets.tolist(),
        units.sizes.tolist(),
        slices,
        strict=True,
    ):
        if problem := _problem(data, phy_offset, size):
            wrong.append(_Suspect(number, phy_offset, problem))
        else:
            intact.append(data)
    view = memoryview(b"".join(intact))
    return (Piece(view, find_records(view, check_crc=check_crc)) if intact else None), wrong


def _problem(data: memoryview, phy_offset: int, size: int) -> str:
    """What is wrong with the bytes that a unit points at; nothing, if that is the CRC of the body
    at most."""
    if not 0 < size == len(data):
        return f"it says {size} bytes, of which {len(data)} are there"
    if (verdict := verdict_of(data, 0, phy_offset, crc=None, any_version=True)) is not None:
        return verdict.problem
    own = size_and_magic(data, 0)[0]
    return "" if own == size else f"the record is {own} bytes long, the unit says {size}"


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
