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
        self._idle: Final = threading.Semaphore(0)
        self._threads = 0
        self._closed = False

    def call(self, function: Callable[[Any], T], argument: object) -> asyncio.Future[T]:
        """In a thread, as soon as one is free, with the context variables of the caller. What the
        function raises comes through the future;
        one whose future is cancelled before its turn is not called. Raises ``ClientStateError``
        after ``close``."""
        if self._closed:
            raise ClientStateError(f"{self._name} is stopped: nothing more is called")
        future: Future[T] = Future()
        context = copy_context()
        self._work.put((future, lambda given: context.run(function, given), argument))
        if not self._idle.acquire(blocking=False) and self._threads < self._most:
            self._threads += 1
            threading.Thread(
                target=self._run, name=f"{self._name} {self._threads}", daemon=True
            ).start()
        return asyncio.wrap_future(future)

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
            self._idle.release()

    def close(self) -> None:
        """No more calls, also of what waits. A function that still runs is not waited for."""
        self._closed = True
        with suppress(Empty):
            while (work := self._work.get_nowait()) is not None:
                work[0].cancel()
        for _ in range(self._threads):
            self._work.put(None)


def _as_of_a_coroutine(failure: BaseException) -> BaseException:
    """No future of asyncio takes a ``StopIteration``: whoever waits for it would wait for ever."""
    if not isinstance(failure, StopIteration):
        return failure
    error = RuntimeError("the function raised StopIteration")
    error.__cause__ = failure
    return error
