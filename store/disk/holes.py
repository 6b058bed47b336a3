"""Which parts of a sparse file hold something: the file system knows its holes. Where it does not
tell, all may be data."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

_STEP: Final = 1 << 20
_ZEROS: Final = bytes(_STEP)


def first_hole(fd: int) -> int:
    """Where the first hole of a file begins, or its end; 0 where the system does not tell."""
    try:
        return os.lseek(fd, 0, os.SEEK_HOLE)
    except (OSError, AttributeError):
        return 0


def data_ranges(fd: int, position: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of [position, size) that may hold something else than zeros."""
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
            stop = os.lseek(fd, start, os.SEEK_HOLE)
        except (OSError, AttributeError) as error:
            if not isinstance(error, OSError) or error.errno != errno.ENXIO:
                yield position, size
            return
        yield start, min(stop, size)
        position = stop


def not_zero(fd: int, position: int, size: int) -> Iterator[tuple[int, int]]:
    """Pieces of [position, size) that do: where, and how long, at most a MiB. Raises OSError."""
    for start, stop in data_ranges(fd, position, size):
        for at in range(start, stop, _STEP):
            data = os.pread(fd, min(_STEP, stop - at), at)
            if not _ZEROS.startswith(data):
                yield at, len(data)
