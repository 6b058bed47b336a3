"""Which of the machine's cores a process has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
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
    before: dict[int, set[int]] = {}
    try:
        for thread in (each for pid in pids for each in _threads(pid)):
            with suppress(ProcessLookupError):  # it has ended
                before[thread] = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, some)
        yield
    finally:
        for thread, those in before.items():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, those)


def _threads(pid: int) -> list[int]:
    return [THIS_THREAD] if pid == THIS_THREAD else [*map(int, os.listdir(f"/proc/{pid}/task"))]
