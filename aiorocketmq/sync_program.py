"""Programs without asyncio that end in order: ``aiorocketmq.sync.run(main)``."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from .daemon.stop_signals import main_thread_caller, on_stop_signal
from .loop_thread import LoopThread

T = TypeVar("T")


def run(main: Callable[[], T], *, stop_timeout: float = 30.0) -> T | None:
    """Call ``main`` and return its result, or None when SIGTERM or Ctrl-C has ended it.

    The first signal raises ``KeyboardInterrupt`` in the main thread, so that every ``with`` ends
    what it began: sends that are under way, offsets, membership. While a message that a
    ``PullConsumer`` has handed out is being handled, that waits until the next one is asked for,
    ``stop_timeout`` seconds at most. A second signal ends the process at once. Signals that the
    program has a handler of its own for are left alone, and so are all of them outside of the main
    thread.
    """
    if inspect.iscoroutine(main) or inspect.iscoroutinefunction(main):
        raise TypeError(
            "sync.run takes a plain function; aiorocketmq.run(main()) is for what is async def"
        )
    program, before = Program(), _of_thread.program
    loop = LoopThread.shared()
    _of_thread.program = program
    try:
        with main_thread_caller(program.wait_no_more) as hurry:

            def signalled() -> None:
                loop.call_later(stop_timeout, hurry)
                program.signalled()

            with on_stop_signal(signalled):
                return main()
    except KeyboardInterrupt:
        if not program.told:
            raise
        return None
    finally:
        _of_thread.program = before


class Program:
    """What ``run`` runs in this thread."""

    def __init__(self) -> None:
        self.told = False
        """A signal has come."""
        self._in_hand: set[object] = set()
        self._steps: set[object] = set()

    def take(self, what: object) -> None:
        """From now on the program has something in hand that should be handled first."""
        self._in_hand.add(what)

    def let_go(self, what: object) -> None:
        """It is done."""
        self._in_hand.discard(what)

    def signalled(self) -> None:
        """Between any two steps of the main thread."""
        self.told = True
        self.interrupt()

    def wait_no_more(self) -> None:
        """Between any two steps of the main thread, ``stop_timeout`` later."""
        if self._in_hand:
            self._in_hand.clear()
            self.interrupt()

    def interrupt(self) -> None:
        """Raise ``KeyboardInterrupt`` if it is time to."""
        if self.told and not self._in_hand and not self._steps:
            raise KeyboardInterrupt

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """A step that is done as a whole or not at all."""
        step = object()
        self._steps.add(step)
        try:
            yield
        finally:
            self._steps.discard(step)
        self.interrupt()


class _NoProgram(Program):
    """Where ``run`` runs nothing: nobody will ever interrupt it."""

    def take(self, what: object) -> None:
        pass


class _OfThread(threading.local):
    program: Program = _NoProgram()


_of_thread: Final = _OfThread()


def current_program() -> Program:
    """The one that runs in this thread."""
    return _of_thread.program
