"""Threads on virtual time: each is a greenlet, and where it would block the loop goes on without
it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from .network import End, Network

T = TypeVar("T")

_ALL: list[object] = []
"""One that is collected while it waits would run its ``finally``, in a process that was killed."""
_IDLE: list[greenlet] = []
"""Those that have done what they had to: to make one takes ten times as long as to go on."""


def run_in_thread(future: asyncio.Future[Any], func: Callable[..., Any], args: Any) -> None:
    """Called by the loop: ``future`` gets what comes of it, now or when it has waited for all that
    it waits for."""
    if not _IDLE:
        thread = greenlet(_work)
        _ALL.append(thread)
        thread.switch()
    thread = _IDLE.pop()
    thread.gr_context = contextvars.copy_context()
    thread.switch(future, func, args)


def _work() -> None:
    """One thing after the other."""
    thread = getcurrent()
    assert thread.parent is not None
    while True:
        _IDLE.append(thread)
        _do(*thread.parent.switch())


def _do(future: asyncio.Future[Any], func: Callable[..., Any], args: Any) -> None:
    try:
        result = func(*args)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is for who waits
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)


def blocking(future: asyncio.Future[T], timeout_s: float | None) -> T:
    """In a thread: what comes of ``future``. Raises TimeoutError, and what it raises."""
    thread = getcurrent()
    assert thread.parent is not None, "the loop itself would block"
    loop = asyncio.get_running_loop()
    timer = None if timeout_s is None else loop.call_later(timeout_s, future.cancel)
    future.add_done_callback(lambda _done: thread.switch())
    thread.parent.switch()
    if timer is not None:
        timer.cancel()
    if future.cancelled():
        raise TimeoutError("timed out")
    return future.result()


class BlockingSocket:
    """What ``socket.create_connection`` gives."""

    def __init__(self, end: End, timeout_s: float | None) -> None:
        self._end = end
        self._timeout_s = timeout_s

    @classmethod
    def connect(
        cls, network: Network, address: tuple[str, int], timeout_s: float | None = None
    ) -> Self:
        opening = asyncio.ensure_future(network.open(*address))
        return cls(blocking(opening, timeout_s), timeout_s)

    def sendall(self, data: bytes) -> None:
        self._end.write(data)

    def recv(self, size: int) -> bytes:
        if not self._end.is_readable():
            readable = asyncio.get_running_loop().create_future()
            self._end.when_readable(lambda: readable.done() or readable.set_result(None))
            try:
                blocking(readable, self._timeout_s)
            finally:
                self._end.when_readable(None)
        return self._end.take(size)

    def shutdown(self, _how: int) -> None:
        self._end.close()

    def close(self) -> None:
        self._end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_how: object) -> None:
        self._end.close()
