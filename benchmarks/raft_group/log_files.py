"""A member's log as it lies on its disk, read by nobody's code but this (dledger.md §4).

``dledger-<id>/data`` has files of one size, named by the position of their first byte. An entry has
48 bytes in front of its body: magic 1, size (4 bytes each), index, term, position (8 each), the
rest is not looked at. A file ends with magic -1, or with less than 8 bytes of room.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from ..histories.judge import Log

_HEAD: Final = struct.Struct(">iiqqq")
_ENTRY: Final = 1
_BLANK: Final = -1
_HEAD_SIZE: Final = 48


class End(NamedTuple):
    """Where a log ends: the position behind the last entry, its index (-1: none) and its term."""

    position: int
    last_index: int
    last_term: int


NOTHING: Final = End(0, -1, -1)


class LogFiles:
    """The log of one member, read again and again while it grows."""

    def __init__(self, folder: Path) -> None:
        """``folder``: its ``data``; it need not be there yet."""
        self._folder = folder

    def files(self) -> dict[int, Path]:
        """By position."""
        try:
            names = sorted(path for path in self._folder.iterdir() if path.name.isdecimal())
        except FileNotFoundError:
            return {}
        return {int(path.name): path for path in names}

    def end(self, after: End = NOTHING) -> End:
        """Where it ends. ``after``: an entry ended there, and still does; nothing before it is
        read."""
        found = after
        files = self.files()
        for begin, path in files.items():
            size = path.stat().st_size
            if begin + size <= found.position:
                continue
            with path.open("rb") as file:
                found, ended = _walk(file.fileno(), begin, size, found)
            if ended:
                break
        return found

    def log(self, end: End) -> Log:
        """For the comparison with others."""
        files = self.files()
        return Log(min(files, default=0), end.position, self._read)

    def _read(self, position: int, size: int) -> bytes:
        pieces = []
        for begin, path in self.files().items():
            length = path.stat().st_size
            first, last = max(position, begin), min(position + size, begin + length)
            if first < last:
                with path.open("rb") as file:
                    pieces.append(os.pread(file.fileno(), last - first, first - begin))
        return b"".join(pieces)


def _walk(descriptor: int, begin: int, file_size: int, found: End) -> tuple[End, bool]:
    """The last entry of a file, and whether the log ends there."""
    position = max(found.position, begin)
    while position + _HEAD.size <= begin + file_size:
        head = os.pread(descriptor, _HEAD.size, position - begin)
        magic, size, index, term, at = _HEAD.unpack(head)
        if magic == _BLANK:
            return found, False
        if magic != _ENTRY or size < _HEAD_SIZE or at != position or term < found.last_term:
            return found, True
        if found.last_index >= 0 and index != found.last_index + 1:
            return found, True
        position += size
        found = End(position, index, term)
    return found, False
