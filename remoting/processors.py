"""How many processors this process may use. The standard library sees no quotas of CPU time (``os.process_cpu_count`` of
Python 3.13 does not either), and that is how containers are limited."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

__all__ = ["usable_processors"]

_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")


def usable_processors(own_groups: Path = _OWN_GROUPS, mount: Path = _MOUNT) -> float:
    """Those that the system gives it, or as many as the quotas of its cgroup and of those above are worth: 1.5, say. What
    cannot be read does not limit."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([float(allowed), *map(_quota, _groups(_text(own_groups), mount))])


def _groups(own: str, mount: Path) -> Iterator[Path]:
    """The folders of the own cgroup and of those above it, of both versions. A container may see its own as the root, and
    still be told the path that it has outside: what is not there is harmless."""
    paths = {"": "", "cpu": ""}
    for line in own.splitlines():  # "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1
        controllers, _, path = line.partition(":")[2].partition(":")
        paths |= dict.fromkeys(controllers.split(","), path)
    for root, path in ((mount, paths[""]), (mount / "cpu", paths["cpu"])):
        yield from accumulate(path.strip("/").split("/"), Path.joinpath, initial=root)


def _quota(group: Path) -> float:
    """In processors: CPU time per time (both in µs), so 50000 of 100000 are a half."""
    text = _text(group / "cpu.max") or f"{_text(group / 'cpu.cfs_quota_us')} {_text(group / 'cpu.cfs_period_us')}"
    try:
        quota, period = map(int, text.split())
        return quota / period if quota > 0 and period > 0 else math.inf
    except (ValueError, OverflowError):  # "max", or nothing at all
        return math.inf


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError):  # a path with a zero byte is a ValueError
        return ""
