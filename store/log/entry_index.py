"""Where entries lie: files of 32-byte units, that of entry n at byte 32·n (dledger.md §4).

They follow from the log and may be missing, late or wrong: who reads one holds it against the entry
that it leads to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from ...remoting.protocol.record.entry import ENTRY_MAGIC, INDEX_UNIT
from ..disk.disk import Disk
from ..disk.mapped_file_queue import MappedFileQueue

INDEX_FILE_SIZE: Final = 5 * 1024 * 1024 * 32
"""Of the original, where it cannot be configured; sparse."""
_UNIT: Final = INDEX_UNIT.size
_STEP: Final = 1 << 20


class EntryPlace(NamedTuple):
    """What a unit says."""

    pos: int
    size: int
    term: int


class EntryIndex:
    """Units up to ``end``, behind which there are none. Nothing is mapped."""

    def __init__(self, directory: Path, disk: Disk, file_size: int = INDEX_FILE_SIZE) -> None:
        self.files: Final = MappedFileQueue(directory, file_size, disk)
        self.end: int = 0
        """Index of the entry that gets the next unit."""

    def load(self) -> None:
        """Take in the files that are there. Those that cannot be believed for their length or a
        hole in front of them go. Raises StoreFileError."""
        self.files.load(derived=True)
        self.files.drop_behind_hole()

    def place(self, index: int) -> EntryPlace | None:
        """What the unit says; None where there is none. Raises StoreFileError."""
        at = index * _UNIT
        file = self.files.find(at)
        if file is None:
            return None
        magic, pos, size, own, term = INDEX_UNIT.unpack(file.read(at - file.start, _UNIT))
        return EntryPlace(pos, size, term) if magic == ENTRY_MAGIC and own == index else None

    def agrees(self, first: int, units: bytes) -> bool:
        """Whether the units from entry ``first`` on are these. Raises StoreFileError."""
        at, size = first * _UNIT, self.files.file_size
        for start in range(at - at % size, at + len(units), size):
            file, begin = self.files.find(start), max(at, start)
            wanted = units[begin - at : start + size - at]
            if file is None or file.read(begin - start, len(wanted)) != wanted:
                return False
        return True

    def write(self, first: int, units: bytes) -> None:
        """Units of entries side by side; the last of them is the last of all. Raises
        StoreFileError, some of them may be written then."""
        at, size = first * _UNIT, self.files.file_size
        for start in range(at - at % size, at + len(units), size):
            file, begin = self.files.find(start), max(at, start)
            if file is None:
                if self.files.files and start != self.files.end:
                    self.files.drop_from(0)
                file = self.files.make(start)
                self.files.add(file)
            file.write(begin - start, units[begin - at : start + size - at])
        self.end = first + len(units) // _UNIT

    def cut(self, end: int, stop: int) -> None:
        """Entries from ``end`` on, up to ``stop``, are gone. Raises StoreFileError."""
        at = end * _UNIT
        self.files.drop_from(at + 1)
        file = self.files.find(at)
        if file is not None:
            last = min(stop * _UNIT, file.end)
            for begin in range(at, last, _STEP):
                file.write(begin - file.start, bytes(min(_STEP, last - begin)))
        self.end = min(self.end, end)

    def clear_behind(self, end: int) -> None:
        """Recovery: whatever lies behind the last unit goes. Raises StoreFileError."""
        self.files.drop_from(end * _UNIT + 1)
        file = self.files.find(end * _UNIT)
        if file is not None:
            file.clear_from(end * _UNIT - file.start)
        self.end = end

    def begin_at(self, index: int) -> None:
        """All units go; the next one is that of this entry. Raises StoreFileError."""
        self.files.drop_from(0)
        self.end = index

    def drop_below(self, index: int) -> None:
        """Whole files with nothing but units of entries that were deleted go. Raises
        StoreFileError."""
        while self.files.files and self.files.files[0].end <= index * _UNIT:
            self.files.files[0].delete()
            self.files.drop_first()

    def sync(self) -> None:
        """Onto the disk, the last two files: others are full and were synced as such. For a worker
        thread. Raises StoreFileError."""
        self.files.sync_directory()
        for file in self.files.files[-2:]:
            file.sync()

    def close(self) -> None:
        self.files.close()
