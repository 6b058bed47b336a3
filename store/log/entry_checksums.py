"""A CRC-32 of every entry, head and record, in files of our own beside the log. They have units of
8 bytes, that of entry n at byte 8·n::

    bytes 0..3  the CRC      bytes 4..7  its complement      (both big-endian)

The format has a CRC of a record's body only: a bit that is lost in its topic or properties, or in
the head of its entry, shows nowhere else, and would go to whoever asks for the entry.

A checksum is never that of another entry than the one in the log: what is taken back loses its
checksums, durably, before others come into its place; where the original has written meanwhile, all
of them go (``state_files.CommitFile``). A unit whose halves do not belong together
says nothing: it was torn, or damaged itself, or the entry is of the original or of a version before
these. That is no fault.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

from ...remoting.protocol.record.entries import entry_checksums
from ..disk.disk import Disk
from .entry_units import EntryUnits

CHECKSUM_UNIT: Final = struct.Struct(">II")
_UNIT: Final = CHECKSUM_UNIT.size


def checksum_in(unit: bytes) -> int | None:
    """What a unit says; None: nothing."""
    if len(unit) < _UNIT:
        return None
    crc, complement = CHECKSUM_UNIT.unpack(unit)
    return int(crc) if crc ^ complement == 0xFFFFFFFF else None


class EntryChecksums(EntryUnits):
    """See the module."""

    def __init__(self, directory: Path, disk: Disk, most: int) -> None:
        super().__init__(directory, disk, _UNIT, most)

    def of(self, index: int) -> int | None:
        """Of one entry; None: it is not known. Raises StoreFileError."""
        return checksum_in(self.read(index, 1))

    def wrong(self, data: Any, at: int, end: int, first: int, place: int) -> list[int]:
        """Which of the entries that lie side by side in ``data[at:end]`` are not what they were;
        the first of them has index ``first``, ``data[0]`` is at ``place`` of the log. Numbers from
        0. Raises StoreFileError."""
        return self.verdict(data, at, end, first, place)[1]

    def verdict(
        self, data: Any, at: int, end: int, first: int, place: int
    ) -> tuple[bool, list[int]]:
        """Whether all of them are known to be what they were; and which are known not to be."""
        units = entry_checksums(data, at, end, first, place)
        noted = self.read(first, len(units) // _UNIT)
        if noted == units:
            return True, []
        return False, [
            unit // _UNIT
            for unit in range(0, len(noted), _UNIT)
            if checksum_in(noted[unit : unit + _UNIT])
            not in (None, checksum_in(units[unit : unit + _UNIT]))
        ]

    def cut(self, end: int, stop: int) -> None:
        super().cut(end, stop)
        self.sync()

    def clear_behind(self, end: int) -> None:
        super().clear_behind(end)
        self.files.sync_directory()

    def begin_at(self, index: int) -> None:
        super().begin_at(index)
        self.files.sync_directory()
