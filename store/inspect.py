"""Reading a store directory from outside: no lock, nothing is changed, whoever wrote it.

The CRC is computed by ``crcmod`` here, an implementation that shares nothing with the one that wrote the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import crcmod.predefined

from ..remoting.protocol.message import MessageExt
from ..remoting.protocol.record import BLANK_MAGIC, BLANK_SIZE, RecordError, decode_record, size_and_magic
from .checkpoint import Checkpoint
from .config import CQ_UNIT_SIZE
from .consume_queue import CQ_UNIT
from .mapped_file import Disk

__all__ = ["Entry", "EntryKind", "QueueFile", "StoreDirectory", "independent_crc"]

_crc32: Final = crcmod.predefined.mkCrcFun("crc-32")


def independent_crc(body: bytes) -> int:
    """The bodyCRC field of a body, by crcmod."""
    return int(_crc32(body)) & 0x7FFFFFFF if body else 0


class EntryKind(Enum):
    """What lies at an offset of the commit log."""

    RECORD = "record"
    BLANK = "blank"
    DAMAGED = "damaged"
    END = "end"


class Entry(NamedTuple):
    """One finding in the commit log."""

    kind: EntryKind
    phy_offset: int
    size: int
    """Of the record; what a blank says is left in the file; 0 for the rest."""
    message: MessageExt | None = None
    problem: str = ""


class QueueFile(NamedTuple):
    """The units of one consume queue file, up to the first that is not valid."""

    topic: str
    queue_id: int
    path: Path
    units: list[tuple[int, int, int, int]]
    """Number in the queue, physical offset, size, tags code."""


class StoreDirectory:
    """A store directory of either implementation."""

    def __init__(self, root: Path, commit_log: Path | None = None) -> None:
        self.root: Final = root
        self.commit_log: Final = commit_log or root / "commitlog"

    @property
    def has_abort_file(self) -> bool:
        """The store was not closed in order, or is open."""
        return (self.root / "abort").exists()

    def checkpoint(self) -> Checkpoint:
        """The checkpoint; all zeros when there is none."""
        checkpoint = Checkpoint(self.root / "checkpoint", Disk())
        checkpoint.load()
        return checkpoint

    def entries(self) -> Iterator[Entry]:
        """The commit log in order: records, the blanks at the ends of files, then END, or DAMAGED for each file with
        something else in it (what follows in that file is not read)."""
        for path in sorted(self.commit_log.iterdir()):
            yield from _entries_of(path.read_bytes(), int(path.name))

    def records(self) -> Iterator[MessageExt]:
        """The intact records in order."""
        return (entry.message for entry in self.entries() if entry.message is not None)

    def queue_files(self) -> Iterator[QueueFile]:
        """All consume queue files by topic, queue and offset."""
        queues = self.root / "consumequeue"
        for path in sorted(queues.glob("*/*/*")):
            first = int(path.name) // CQ_UNIT_SIZE
            units = []
            for number, (phy_offset, size, code) in enumerate(CQ_UNIT.iter_unpack(path.read_bytes()), first):
                if phy_offset < 0 or size <= 0:
                    break
                units.append((number, phy_offset, size, code))
            yield QueueFile(path.parent.parent.name, int(path.parent.name), path, units)


def _entries_of(data: bytes, start: int) -> Iterator[Entry]:
    position = 0
    while position + BLANK_SIZE <= len(data):
        size, magic = size_and_magic(data, position)
        if magic == BLANK_MAGIC:
            yield Entry(EntryKind.BLANK, start + position, size)
            return
        if not size and not magic:
            yield Entry(EntryKind.END, start + position, 0)
            return
        try:
            message = decode_record(data, position)
            _check(message, start + position)
        except RecordError as error:
            yield Entry(EntryKind.DAMAGED, start + position, 0, problem=str(error))
            return
        yield Entry(EntryKind.RECORD, start + position, size, message)
        position += size


def _check(message: MessageExt, phy_offset: int) -> None:
    if message.commit_log_offset != phy_offset:
        raise RecordError(f"the record at {phy_offset} says it is at {message.commit_log_offset}")
    crc = independent_crc(message.stored_body)
    if crc != message.body_crc:
        raise RecordError(f"the body at {phy_offset} has the CRC {crc:#010x}, the record says {message.body_crc:#010x}")
