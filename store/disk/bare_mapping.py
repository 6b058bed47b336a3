"""A mapping that keeps no descriptor.

``mmap.mmap`` of Python duplicates the descriptor that it is made of. With tens of thousands of
queues the limit of open files would be that of mappings, and a queue that is not mapped costs ten
times as much per message. The kernel needs none.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from pathlib import Path
from typing import Any, Final

_MOST: Final = Path("/proc/sys/vm/max_map_count")
_FAILED: Final = ctypes.c_void_p(-1).value


def bare_mapping(libc: ctypes.CDLL, fd: int, size: int) -> memoryview:
    """A whole file as bytes, to be read and written. It is unmapped when the last view of it is
    gone. Raises OSError."""
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(
        None,
        ctypes.c_size_t(size),
        mmap.PROT_READ | mmap.PROT_WRITE,
        mmap.MAP_SHARED,
        fd,
        ctypes.c_long(0),
    )
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return memoryview(_anchor_type(libc, size).from_address(address)).cast("B")


@functools.cache
def _anchor_type(libc: ctypes.CDLL, size: int) -> Any:
    """What every view of a mapping keeps alive, and nothing else does."""
    munmap, address_of, pointer, length = (
        libc.munmap,
        ctypes.addressof,
        ctypes.c_void_p,
        ctypes.c_size_t(size),
    )

    def unmap(anchor: Any) -> None:  # no globals: it may be called when the interpreter ends
        munmap(pointer(address_of(anchor)), length)

    return type("Anchor", (ctypes.c_char * size,), {"__slots__": (), "__del__": unmap})


def most_mappings() -> int:
    """How many the kernel allows this process; 0 where it does not tell."""
    try:
        return int(_MOST.read_text())
    except (OSError, ValueError):
        return 0
