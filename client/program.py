"""A program that ends in order: ``aiorocketmq.run(main())`` in the place of
``asyncio.run(main())``.

SIGTERM and Ctrl-C cancel ``main`` once, so that every ``async with`` ends what it began: handlers
that run, sends that are under way, offsets, membership. Messages that a ``PullConsumer`` has handed
out are handled before that: it hands out nothing more, and ``main`` is cancelled as soon as the
program asks for the next one. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

from ..daemon.event_loop import new_event_loop
from ..daemon.stop_signals import on_stop_signal

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], *, stop_timeout: float = 30.0) -> T | None:
    """Run ``main`` on an event loop of its own (uvloop's, where there is one) and return its
    result, or None when SIGTERM or Ctrl-C has ended it. ``stop_timeout`` (seconds): how long it
    waits for messages that were handed out.

    Signals are heard in the main thread only, and only those that the program has no handler of its
    own for.
    """
    if not asyncio.iscoroutine(main):
        raise TypeError(f"run takes a coroutine, such as main() of 'async def main', not {main!r}")
    program = Program(stop_timeout)
    with on_stop_signal(program.signalled), asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(program.run(main))


def current_program() -> Program | None:
    """The one that this task is part of."""
    program = _current.get(None)
    return program if program is not None and program.loop is asyncio.get_running_loop() else None


class HandsOut(Protocol):
    """Gives messages to the program, which asks for more when it has handled them."""

    @property
    def in_hand(self) -> bool:
        """The program has messages that it may not have handled."""
        ...

    def hold(self) -> None:
        """Hand out nothing more. Whoever asks is kept waiting, after ``Program.look``."""
        ...


class Program:
    """What ``run`` runs."""

    def __init__(self, stop_timeout: float) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._stop_timeout = stop_timeout
        self._task: asyncio.Task[Any] | None = None
        self._stopping = self._cancelled = False
        self._consumers: set[HandsOut] = set()

    async def run(self, main: Coroutine[Any, Any, T]) -> T | None:
        """``main``; None when it was cancelled because of a signal."""
        self.loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        _current.set(self)
        if self._stopping:
            main.close()
            return None
        try:
            return await main
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
            return None
        finally:
            self._task = None

    def signalled(self) -> None:
        """Between any two steps of the main thread."""
        self._stopping = True
        if self.loop is not None and self._task is not None:
            self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        assert self.loop is not None
        for consumer in self._consumers:
            consumer.hold()
        self.loop.call_later(self._stop_timeout, self._cancel)
        self.look()

    def look(self) -> None:
        """Cancel ``main`` if it is time to."""
        if self._stopping and not any(consumer.in_hand for consumer in self._consumers):
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = self._task.cancel()

    def add(self, consumer: HandsOut) -> None:
        """From its start on."""
        self._consumers.add(consumer)
        if self._stopping:
            consumer.hold()

    def discard(self, consumer: HandsOut) -> None:
        """When it stops."""
        self._consumers.discard(consumer)


_current: Final[ContextVar[Program | None]] = ContextVar("aiorocketmq program")
