"""SIGTERM and Ctrl-C tell a program to stop: the first one asks, a second one of either kind ends
the process at once.

Only the main thread hears signals. A program's own handlers win: only those of Python and of
``asyncio.run`` are replaced, and they are put back. (Daemons, which log and wait for as long as it
takes: ``launch``.)
"""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_stop_signal(stop: Callable[[], None]) -> Iterator[None]:
    """In this block the first signal calls ``stop``, between two steps of the main thread."""
    before: dict[signal.Signals, Any] = {}

    def handle(_number: int, _frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        stop()

    if threading.current_thread() is threading.main_thread():
        before |= {
            number: found for number in _NUMBERS if _is_nobodys(found := signal.getsignal(number))
        }
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) in (handle, signal.SIG_DFL):
                signal.signal(number, handler)


@contextmanager
def main_thread_caller(act: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """In this block any thread may call what is given: the main thread, also one that sleeps, calls
    ``act`` between two of its steps. Nothing happens on Windows, where this block is not in the
    main thread, and where the program uses SIGURG.

    (SIGURG because nobody uses it, and because one that comes too late is ignored: it is Go's
    choice for the like.)
    """
    in_main = threading.current_thread() is threading.main_thread()
    if (
        sys.platform == "win32"
        or not in_main
        or signal.getsignal(signal.SIGURG) is not signal.SIG_DFL
    ):
        yield lambda: None
        return
    thread_id = threading.get_ident()
    signal.signal(signal.SIGURG, lambda _number, _frame: act())
    try:
        yield lambda: signal.pthread_kill(thread_id, signal.SIGURG)
    finally:
        signal.signal(signal.SIGURG, signal.SIG_DFL)


def _is_nobodys(handler: object) -> bool:
    if isinstance(handler, functools.partial):
        return isinstance(getattr(handler.func, "__self__", None), asyncio.Runner)
    return handler in (signal.SIG_DFL, signal.default_int_handler)


class StopSignals:
    """``with`` around what the current task runs from its begin to its end; the first signal ends
    ``cancelling``."""

    def __enter__(self) -> Self:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._cancels = self._cancelled = False

        def cancel() -> None:
            loop.call_soon_threadsafe(self._cancel)

        self._signals = on_stop_signal(cancel)
        self._signals.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._signals.__exit__(kind, error, tb)

    def _cancel(self) -> None:
        if self._cancels:
            self._cancelled = self._task.cancel()

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """A block that the first signal cancels; it is left without an error then."""
        self._cancels = True
        try:
            yield
        except asyncio.CancelledError:
            if not self._cancelled or self._task.uncancel() > 0:  # somebody else wants it, too
                raise
        finally:
            self._cancels = False
