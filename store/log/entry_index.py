"""Where entries lie: files of 32-byte units, that of entry n at byte 32·n (dledger.md §4). Beside
them what they were when they were written (``entry_checksums``).

They follow from the log and may be missing, late or wrong: who reads one holds it against the entry
that it leads to.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Final, NamedTuple

from ...remoting.protocol.record.entry import ENTRY_MAGIC, INDEX_UNIT
from ..disk.disk import Disk
from .entry_checksums import EntryChecksums
from .entry_units import EntryUnits

INDEX_FILE_SIZE: Final = 5 * 1024 * 1024 * 32
"""Of the original, where it cannot be configured; sparse."""
CHECKSUMS_PER_FILE: Final = 1 << 20
"""8 MiB, sparse."""
_UNIT: Final = INDEX_UNIT.size


class EntryPlace(NamedTuple):
    """What a unit says."""

    pos: int
    size: int
    term: int


class EntryIndex(EntryUnits):
    """See the module. What becomes of units becomes of checksums as well."""

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        file_size: int = INDEX_FILE_SIZE,
        checksums_per_file: int | None = None,
    ) -> None:
        super().__init__(directory, disk, _UNIT, file_size // _UNIT)
        self.checksums: Final = EntryChecksums(
            directory.with_name("checksums"), disk, checksums_per_file or CHECKSUMS_PER_FILE
        )

    def place(self, index: int) -> EntryPlace | None:
        """What the unit says; None where there is none. Raises StoreFileError."""
        at = index * _UNIT
        file = self.files.find(at)
        if file is None:
            return None
        magic, pos, size, own, term = INDEX_UNIT.unpack(file.read(at - file.start, _UNIT))
        return EntryPlace(pos, size, term) if magic == ENTRY_MAGIC and own == index else None

    def first_from(self, position: int, end: int) -> int:
        """Of the entries up to ``end`` the first that lies at a position or behind it, if the units
        that the search comes by are right. Raises StoreFileError."""

        def place_of(index: int) -> int:
            place = self.place(index)
            return -1 if place is None else place.pos

        return bisect_left(range(end + 1), position, key=place_of)

    def agrees(self, first: int, units: bytes) -> bool:
        """Whether the units from entry ``first`` on are these. Raises StoreFileError."""
        return self.read(first, len(units) // _UNIT) == units

    def load(self) -> None:
        super().load()
        self.checksums.load()

    def cut(self, end: int, stop: int) -> None:
        super().cut(end, stop)
        self.checksums.cut(end, stop)

    def clear_behind(self, end: int) -> None:
        super().clear_behind(end)
        self.checksums.clear_behind(end)

    def begin_at(self, index: int) -> None:
        super().begin_at(index)
        self.checksums.begin_at(index)

    def drop_below(self, index: int) -> None:
        super().drop_below(index)
        self.checksums.drop_below(index)

    def sync(self) -> None:
        super().sync()
        self.checksums.sync()

    def close(self) -> None:
        super().close()
        self.checksums.close()
