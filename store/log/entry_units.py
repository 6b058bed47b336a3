"""Files of units of one size, that of entry n at byte n times the size: what is kept of every entry
beside the log. Nothing is mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..disk.disk import Disk
from ..disk.mapped_file_queue import MappedFileQueue

_STEP: Final = 1 << 20


class EntryUnits:
    """Units up to ``end``, behind which there are none."""

    def __init__(self, directory: Path, disk: Disk, unit: int, most: int) -> None:
        """Units of ``unit`` bytes, ``most`` of them in a file."""
        self.files: Final = MappedFileQueue(directory, unit * most, disk)
        self.end: int = 0
        """Index of the entry that gets the next unit."""
        self._unit: Final = unit

    def load(self) -> None:
        """Take in the files that are there. Those that cannot be believed for their length or a
        hole in front of them go. Raises StoreFileError."""
        self.files.load(derived=True)
        self.files.drop_behind_hole()

    def read(self, first: int, count: int) -> bytes:
        """Units from entry ``first`` on; fewer where there are no files. Raises StoreFileError."""
        at, wanted = first * self._unit, count * self._unit
        found = self.files.read(at, wanted)
        while found and len(found) < wanted and (more := self.files.read(at + len(found), wanted)):
            found += more
        return found[:wanted]

    def write(self, first: int, units: bytes) -> None:
        """Units of entries side by side; the last of them is the last of all. Raises
        StoreFileError, some of them may be written then."""
        at, size = first * self._unit, self.files.file_size
        for start in range(at - at % size, at + len(units), size):
            file, begin = self.files.find(start), max(at, start)
            if file is None:
                if self.files.files and start != self.files.end:
                    self.files.drop_from(0)
                for full in self.files.files[-1:]:
                    full.end_writing()
                file = self.files.make(start)
                self.files.add(file)
            file.write(begin - start, units[begin - at : start + size - at])
        self.end = first + len(units) // self._unit

    def cut(self, end: int, stop: int) -> None:
        """Entries from ``end`` on, up to ``stop``, are gone. Raises StoreFileError."""
        at = end * self._unit
        self.files.drop_from(at + 1)
        file = self.files.find(at)
        if file is not None:
            last = min(stop * self._unit, file.end)
            for begin in range(at, last, _STEP):
                file.write(begin - file.start, bytes(min(_STEP, last - begin)))
        self.end = min(self.end, end)

    def clear_behind(self, end: int) -> None:
        """Recovery: whatever lies behind the last unit goes. Raises StoreFileError."""
        self.files.drop_from(end * self._unit + 1)
        file = self.files.find(end * self._unit)
        if file is not None:
            file.clear_from(end * self._unit - file.start)
        self.end = end

    def begin_at(self, index: int) -> None:
        """All units go; the next one is that of this entry. Raises StoreFileError."""
        self.files.drop_from(0)
        self.end = index

    def drop_below(self, index: int) -> None:
        """Whole files with nothing but units of entries that were deleted go. Raises
        StoreFileError."""
        while self.files.files and self.files.files[0].end <= index * self._unit:
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
