"""How much memory this process may use, its control groups (how containers are limited) counted,
and giving back to the system what it does not use any more."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")
_WHERE_NOBODY_KNOWS: Final = 1 << 30


def usable_memory(own_groups: Path = _OWN_GROUPS, mount: Path = _MOUNT) -> int:
    """Bytes: those of the machine, or what its cgroup and those above may use. What cannot be read
    does not limit."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        machine = _WHERE_NOBODY_KNOWS
    limits = (
        int(text)
        for group in _groups(_text_of(own_groups), mount)
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        if (text := _text_of(group / name).strip()).isdecimal()
        and len(text) < 20  # "max", or nothing at all
    )
    return min([machine, *(limit for limit in limits if limit > 0)])


def _groups(own: str, mount: Path) -> Iterator[Path]:
    """The folders of the own cgroup and of those above it, of both versions. A container may see
    its own as the root, and still be told the path that it has outside: what is not there is
    harmless."""
    paths = {"": "", "memory": ""}
    for line in own.splitlines():  # "0::/path" of version 2, "5:memory:/path" of version 1
        controllers, _, path = line.partition(":")[2].partition(":")
        paths |= dict.fromkeys(controllers.split(","), path)
    for root, path in ((mount, paths[""]), (mount / "memory", paths["memory"])):
        yield from accumulate(path.strip("/").split("/"), Path.joinpath, initial=root)


def _text_of(file: Path) -> str:
    """Empty when it cannot be read."""
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError):  # a path with a zero byte is a ValueError
        return ""


def give_back() -> bool:
    """Return free pages of the C library's heap to the system; it keeps what lies between pieces in
    use otherwise. Takes a tenth of a second per GiB, without the interpreter's lock. False without
    glibc."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return False
    return bool(malloc_trim(0))
