"""Programs without asyncio that end in order: ``aiorocketmq.sync.run(main)``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from .remoting.stop_signals import on_stop_signal

T = TypeVar("T")


def run(main: Callable[[], T]) -> T | None:
    """Call ``main`` and return its result, or None when SIGTERM or Ctrl-C has ended it.

    The first signal raises ``KeyboardInterrupt`` in the main thread, so that every ``with`` ends what it began: sends that
    are under way, offsets, membership. While a message that a ``PullConsumer`` has handed out is being handled, that waits
    until the next one is asked for. A second signal ends the process at once. Signals that the program has a handler of its
    own for are left alone, and so are all of them outside of the main thread.
    """
    program, before = Program(), _of_thread.program
    _of_thread.program = program
    try:
        with on_stop_signal(program.signalled):
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

    def take(self, what: object) -> None:
        """From now on the program has something in hand that must not be interrupted."""
        self._in_hand.add(what)

    def let_go(self, what: object) -> None:
        """It is done."""
        self._in_hand.discard(what)

    def signalled(self) -> None:
        """Between any two steps of the main thread."""
        self.told = True
        self.interrupt()

    def interrupt(self) -> None:
        """Raise ``KeyboardInterrupt`` if it is time to."""
        if self.told and not self._in_hand:
            raise KeyboardInterrupt


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


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A step that is done as a whole or not at all."""
    program, step = current_program(), object()
    program.take(step)
    try:
        yield
    finally:
        program.let_go(step)
    program.interrupt()
