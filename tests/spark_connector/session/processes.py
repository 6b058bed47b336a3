"""Whether processes that are nobody's children here have ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_PATIENCE_S = 30


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.01)


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: not runs(pid))


def runs(pid: int) -> bool:
    """And is no zombie, which nobody has asked how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
