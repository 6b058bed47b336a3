"""The records of one file of a commit log, read from outside: no lock, no mapping, nothing is
written.

A log ends where no intact record follows: zeros, the half of a record that a crash has left, or
records of a log that was longer once. Anything else that is no record is damage.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from ...remoting.protocol.record import MIN_RECORD_SIZE, Reason, Records, body_crc
from ...remoting.protocol.record.walk import Gap, LogFile, LogWalk
from ...store.log.log_reader import FileSequence, StoredFile, log_file
from ..decode.record_arrays import RecordArrays
from .store_options import StoreOptions
from .store_parts import LogFilePart, log_sequence, report_damage

__all__ = ["Piece", "goes_on", "read_log_file"]

log: Final = logging.getLogger(__name__)


class Piece(NamedTuple):
    """Whole records, side by side in ``view``, and where they lie; ``None``: of one of them the
    body has another CRC."""

    view: memoryview
    records: RecordArrays | None


def read_log_file(part: LogFilePart, options: StoreOptions) -> Iterator[Piece]:
    """All records of a file. Raises StoreDamageError, OSError."""
    crc = body_crc if options.check_crc else None
    walk = LogWalk(crc=crc, any_version=True, chunk=max(options.arrow_batch_bytes, MIN_RECORD_SIZE))
    with _opened(part.file) as file:
        for found in walk.through(file):
            if isinstance(found, Records):
                yield from _pieces(found, options.arrow_batch_rows)
            elif found.verdict.reason is Reason.CRC:
                yield Piece(
                    memoryview(file.read(found.begin - file.start, found.verdict.size)), None
                )
            elif found.verdict.reason is not Reason.BLANK and found.begin < found.end:
                _tell(found, part, walk.timestamp, options.fail_on_damage)


def _pieces(found: Records, rows: int) -> Iterator[Piece]:
    """So many records at a time."""
    records, view = RecordArrays.of(found), memoryview(found.data)
    for first in range(0, len(records), rows):
        some = records.select(slice(first, first + rows))
        yield Piece(view[some.starts[0] : some.ends[-1]], some)


def _tell(gap: Gap, part: LogFilePart, timestamp: int, fail: bool) -> None:
    """Raises StoreDamageError if damage is not to be passed over."""
    position, problem = gap.begin - part.file.start + gap.verdict.byte, gap.verdict.problem
    if gap.tail and not goes_on(log_sequence(part.place), part.file.end, timestamp):
        log.info("%s: the log ends at byte %d (%s)", part.file.path, position, problem)
    else:
        report_damage(part.file.path, position, problem, fail)


def goes_on(sequence: FileSequence, phy_offset: int, timestamp: int = 0) -> bool:
    """Whether an intact record, not older than ``timestamp``, lies there or further on. Raises
    OSError."""
    walk = LogWalk(any_version=True, timestamp=timestamp)
    for stored in sequence.files:
        if stored.end > phy_offset:
            with _opened(stored) as file:
                if walk.next_intact(file, max(0, phy_offset - stored.start)) is not None:
                    return True
    return False


@contextmanager
def _opened(file: StoredFile) -> Iterator[LogFile]:
    fd = os.open(file.path, os.O_RDONLY)
    try:
        yield log_file(file, fd)
    finally:
        os.close(fd)
