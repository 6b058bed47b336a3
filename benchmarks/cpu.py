"""CPU time of another process, from the operating system's own accounting."""

from __future__ import annotations

import os
from pathlib import Path

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def cpu_ns(pid: int) -> int:
    """User and system time of all threads of a process so far, in nanoseconds. Raises
    ``ProcessLookupError``.

    The scheduler's own figure where the kernel keeps it (exact), else clock ticks (10 ms).
    """
    try:
        stats = [(task / "schedstat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        return sum(int(text.split()[0]) for text in stats)
    except FileNotFoundError:
        pass
    return sum(_user_and_system_ns(pid))


def user_ns(pid: int) -> int:
    """The user time among it, in clock ticks (10 ms). Raises ``ProcessLookupError``."""
    return _user_and_system_ns(pid)[0]


def _user_and_system_ns(pid: int) -> tuple[int, int]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} is gone") from None
    return int(fields[11]) * _TICK_NS, int(fields[12]) * _TICK_NS
