"""A test that hangs fails, and says where: its stack, those of all other threads, and of all tasks
of asyncio.

What it waits in is interrupted, so that it cleans up and the run goes on. Its fixtures have a time
of their own: Spark starts in one. If interrupting does not help, pytest's own watchdog ends the
process (``faulthandler_timeout`` in ``pyproject.toml``; 0 there: tests may take as long as they
want).
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from types import FrameType
from typing import Any, Final

import pytest

LIMIT_S: Final = float(os.environ.get("TEST_HANG_S") or 180)
AGAIN_S: Final = 30.0
"""After which what still hangs (it cleans up, say) is interrupted once more."""


class Hangs(SystemExit):
    """Event loops let nothing else through that a signal's handler raises."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Its fixtures."""
    return (yield from limited(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """The test itself."""
    return (yield from limited(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """The end of its fixtures."""
    return (yield from limited(item))


def limited(item: pytest.Item) -> Generator[None, object, object]:
    """One of the three."""
    if not hasattr(signal, "setitimer") or not float(
        item.config.getini("faulthandler_timeout") or 0
    ):
        return (yield)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise Hangs(f"{item.nodeid}\n\n{elsewhere()}")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S, AGAIN_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def elsewhere() -> str:
    """Where the other threads and the tasks are."""
    frames = sys._current_frames()
    parts = [
        f"thread {thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
        for thread in threading.enumerate()
        if thread is not threading.current_thread() and thread.ident in frames
    ]
    return "\n".join(
        [
            *parts,
            *(f"task {task.get_name()}:\n{''.join(waits(task.get_coro()))}" for task in tasks()),
        ]
    )


def tasks() -> list[asyncio.Task[Any]]:
    """Those of all loops in all threads that have not ended."""
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), asyncio.Task) and not each.done()
    ]


def waits(awaitable: object) -> Iterator[str]:
    """One line for each coroutine, from the outermost to the one that is waited for."""
    while awaitable is not None:
        frame = (
            getattr(awaitable, "cr_frame", None)
            or getattr(awaitable, "gi_frame", None)
            or getattr(awaitable, "ag_frame", None)
        )
        if frame is None:
            yield f"  for {awaitable!r:.200}\n"
            return
        yield from traceback.format_list(traceback.StackSummary.extract([(frame, frame.f_lineno)]))
        awaitable = (
            getattr(awaitable, "cr_await", None)
            or getattr(awaitable, "gi_yieldfrom", None)
            or getattr(awaitable, "ag_await", None)
        )
