"""How many processors this process may use. The standard library sees no quotas of CPU time (``os.process_cpu_count`` of
Python 3.13 does not either), and that is how containers are limited."""

from __future__ import annotations

import math
import os
from pathlib import Path

from .cgroups import MOUNT, OWN_GROUPS, groups, text_of

__all__ = ["usable_processors"]


def usable_processors(own_groups: Path = OWN_GROUPS, mount: Path = MOUNT) -> float:
    """Those that the system gives it, or as many as the quotas of its cgroup and of those above are worth: 1.5, say. What
    cannot be read does not limit."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([float(allowed), *map(_quota, groups(text_of(own_groups), mount, "cpu"))])


def _quota(group: Path) -> float:
    """In processors: CPU time per time (both in µs), so 50000 of 100000 are a half."""
    text = text_of(group / "cpu.max") or f"{text_of(group / 'cpu.cfs_quota_us')} {text_of(group / 'cpu.cfs_period_us')}"
    try:
        quota, period = map(int, text.split())
        return quota / period if quota > 0 and period > 0 else math.inf
    except (ValueError, OverflowError):  # "max", or nothing at all
        return math.inf
