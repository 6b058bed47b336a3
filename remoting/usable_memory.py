"""How much memory this process may use, and giving back to the system what it does not use any more."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

from .cgroups import MOUNT, OWN_GROUPS, groups, text_of

__all__ = ["give_back", "usable_memory"]

_WHERE_NOBODY_KNOWS: Final = 1 << 30


def usable_memory(own_groups: Path = OWN_GROUPS, mount: Path = MOUNT) -> int:
    """Bytes: those of the machine, or what its cgroup and those above may use. What cannot be read does not limit."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        machine = _WHERE_NOBODY_KNOWS
    limits = (
        int(text)
        for group in groups(text_of(own_groups), mount, "memory")
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        if (text := text_of(group / name).strip()).isdecimal() and len(text) < 20  # "max", or nothing at all
    )
    return min([machine, *(limit for limit in limits if limit > 0)])


def give_back() -> bool:
    """Return free pages of the C library's heap to the system; it keeps what lies between pieces in use otherwise. Takes a
    tenth of a second per GiB, without the interpreter's lock. False without glibc."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return False
    return bool(malloc_trim(0))
