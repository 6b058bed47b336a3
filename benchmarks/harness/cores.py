"""Which of the machine's cores a process has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

THIS_THREAD: Final = 0
"""And what it starts meanwhile, in the place of a process id."""


def cores() -> list[int]:
    """Those that this thread may use; none where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@contextmanager
def on_cores(pids: Iterable[int], some: Iterable[int]) -> Iterator[None]:
    """These processes, with all their threads, have some cores only meanwhile. Nothing where the
    system cannot do it."""
    if not cores():
        yield
        return
    before = {thread: os.sched_getaffinity(thread) for pid in pids for thread in _threads(pid)}
    try:
        for thread in before:
            os.sched_setaffinity(thread, some)
        yield
    finally:
        for thread, those in before.items():
            try:
                os.sched_setaffinity(thread, those)
            except ProcessLookupError:
                pass  # it has ended


def _threads(pid: int) -> list[int]:
    return [THIS_THREAD] if pid == THIS_THREAD else [*map(int, os.listdir(f"/proc/{pid}/task"))]
