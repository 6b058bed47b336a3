"""Which parts of a sparse file hold something: the file system knows its holes. Where it does not
tell, all may be data."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator


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
