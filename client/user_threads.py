"""Threads for plain functions of the user: handlers of messages, checkers of transactions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from .errors import ClientStateError
from .user_code import UserCode

T = TypeVar("T")


class UserThreads:
    """A pool of at most ``most`` threads that belongs to one event loop.

    A process that ends waits for every function that runs in a ``ThreadPoolExecutor``, also for one
    that never returns. It does not wait for these: who closes the pool has waited as long as was
    asked for.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most: Final = most
        self._name: Final = name
        self._work: SimpleQueue[tuple[Future[Any], Callable[[Any], Any], Any] | None] = (
            SimpleQueue()
        )
        self._threads = 0
        self._idle = 0
        """Threads that have nothing to do; below zero, calls that wait for one."""
        self._counting: Final = threading.Lock()
        self._closed = False

    def call(self, function: Callable[[Any], T], argument: object) -> asyncio.Future[T]:
        """In a thread, as soon as one is free, with the context variables of the caller. What the
        function raises comes through the future;
        one whose future is cancelled before its turn is not called. Raises ``ClientStateError``
        after ``close``, ``RuntimeError`` where the system lets not even one thread be started."""
        if self._closed:
            raise ClientStateError(f"{self._name} is stopped: nothing more is called")
        future: Future[T] = Future()
        context = copy_context()
        self._count(-1)
        if self._idle < 0 and self._threads < self._most:
            self._start_one()
        self._work.put((future, lambda given: context.run(function, given), argument))
        return asyncio.wrap_future(future)

    def _start_one(self) -> None:
        """The system may allow no more of them (a limit of processes, memory): those that run do
        the work then. Raises ``RuntimeError`` where none does."""
        thread = threading.Thread(
            target=self._run, name=f"{self._name} {self._threads + 1}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            if self._threads:
                return
            self._count(+1)  # it is not going to be called
            raise
        self._threads += 1
        self._count(+1)

    def _count(self, more: int) -> None:
        with self._counting:
            self._idle += more

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, function, argument = work
            if future.set_running_or_notify_cancel():
                with UserCode(BaseException) as code:
                    future.set_result(function(argument))
                if (failure := code.failure()) is not None:
                    # it belongs to who waits for the result
                    future.set_exception(_as_of_a_coroutine(failure))
                del code, failure
            del work, future, function, argument  # while a thread waits it keeps no message
            self._count(+1)

    def close(self) -> None:
        """No more calls, also of what waits. A function that still runs is not waited for."""
        self._closed = True
        with suppress(Empty):
            while (work := self._work.get_nowait()) is not None:
                work[0].cancel()
        for _ in range(self._threads):
            self._work.put(None)


def _as_of_a_coroutine(failure: BaseException) -> BaseException:
    """No future of asyncio takes a ``StopIteration``: whoever waits for it would wait for ever. And
    what ends a thread, such as ``sys.exit()``, is not to end the event loop of others."""
    if isinstance(failure, Exception) and not isinstance(failure, StopIteration):
        return failure
    error = RuntimeError(f"the function raised {type(failure).__name__}")
    error.__cause__ = failure
    return error
