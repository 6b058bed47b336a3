"""Keeping memory that is used again at once.

Replication and pulls handle pieces of a quarter of a mebibyte. The C library gets such pieces from
the system one by one and gives them back, and the system clears every page of them each time: that
costs more than copying them.
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_PIECE: Final = 16 << 20
_KEPT: Final = 64 << 20


def keep_memory() -> bool:
    """Pieces below 16 MiB come from the heap, of which up to 64 MiB stay here when they are free.
    False without glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_PIECE) and mallopt(_M_TRIM_THRESHOLD, _KEPT))
