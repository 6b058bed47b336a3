"""What the blocking clients stand on: an event loop in a background thread, and how other threads
use what lives there."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from .client.errors import ClientStateError
from .daemon.event_loop import new_event_loop
from .daemon.stop_signals import on_stop_signal

log: Final = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_AROUND_S: Final = 0.2 if sys.platform == "win32" else 1.0
"""How long a wait lasts before the main thread may notice a signal. On Windows none interrupts a
wait; elsewhere one that comes after the interpreter has looked for signals and before the thread
sleeps does not: 2 of 264 programs that were stopped while they connected never heard of it."""


class LoopThread:
    """An event loop in a daemon thread of this process."""

    _shared: LoopThread | None = None
    _guard = threading.Lock()
    _process = object()
    """Stands for this process: a fork makes another one. (Asking for the pid is a system call.)"""

    def __init__(self) -> None:
        self._of_process = LoopThread._process
        self._loop = new_event_loop()
        thread = threading.Thread(target=self._run, name="aiorocketmq", daemon=True)
        thread.start()
        self._thread_id = thread.ident

    def _run(self) -> None:
        """What ends a program ends a loop, but not the one that all its blocking clients share. Who
        waits for the task that raised it gets it."""
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                log.critical("ends nothing in this thread error=%r", error, exc_info=error)

    @classmethod
    def shared(cls) -> LoopThread:
        """The one of this process, started on first use."""
        with cls._guard:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    @classmethod
    def forget(cls) -> None:
        """In a forked child: the thread is not there, and the lock may be held by one that is not
        there either."""
        cls._process = object()
        cls._shared = None
        cls._guard = threading.Lock()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run on the loop; the result comes through the future. Raises as ``check_caller``."""
        self._check(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Call on the loop. May be called by handlers of signals."""
        self._loop.call_soon_threadsafe(self._loop.call_later, seconds, callback)

    def check_caller(self) -> None:
        """Raises ``ClientStateError`` in a forked process and in the loop's own thread, where
        waiting would never end."""
        if self._of_process is not self._process:
            raise ClientStateError(
                "this client was made before the process forked; make a new one in the child "
                "process"
            )
        if threading.get_ident() == self._thread_id:
            raise ClientStateError(
                "a blocking client cannot be used on its own event loop; use the asyncio clients "
                "there"
            )

    def _check(self, coroutine: Coroutine[Any, Any, T]) -> None:
        try:
            self.check_caller()
        except ClientStateError:
            coroutine.close()
            raise

    def run(
        self, coroutine: Coroutine[Any, Any, T], take_back: Callable[[T], object] | None = None
    ) -> T:
        """Run on the loop and wait for the result; an interrupted wait cancels the coroutine, or
        has ``take_back`` called on the loop with the result that it has already. Raises as
        ``check_caller``."""
        self._check(coroutine)
        call = Call(coroutine)
        self._loop.call_soon_threadsafe(call.begin)
        try:
            call.wait()
        finally:
            if not call.waited:  # it was interrupted
                self._loop.call_soon_threadsafe(call.cancel, take_back)
        return call.result()

    def run_until_signal(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run on the loop and wait for its end; the first SIGTERM or Ctrl-C cancels it. Raises as
        ``check_caller``."""
        self._check(coroutine)
        call, signalled = Call(coroutine), False

        def cancel() -> None:
            nonlocal signalled
            signalled = True
            self._loop.call_soon_threadsafe(call.cancel)

        self._loop.call_soon_threadsafe(call.begin)
        with on_stop_signal(cancel):
            try:
                call.wait()
            finally:
                if not call.waited:  # interrupted by a handler of the program's own
                    self._loop.call_soon_threadsafe(call.cancel)
                    call.wait()
        try:
            call.result()
        except concurrent.futures.CancelledError:
            if not signalled:
                raise


class Call(Generic[T]):
    """A coroutine that a thread waits for. (A ``concurrent.futures.Future`` would do; a bare lock
    costs less.)"""

    __slots__ = ("_coroutine", "_has_ended", "_task", "ended", "waited")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self.ended = threading.Lock()
        self.ended.acquire()
        self._has_ended = False
        self.waited = False
        """A thread has waited until the end, without being interrupted."""

    def begin(self) -> None:
        """On the loop."""
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._end)

    def cancel(self, take_back: Callable[[T], object] | None = None) -> None:
        """On the loop, after ``begin``. ``take_back``: see ``LoopThread.run``."""
        task = self._task
        if task is None or task.cancel() or task.cancelled() or task.exception() is not None:
            return
        if take_back is not None:
            take_back(task.result())

    def wait(self) -> None:
        """In any thread, until it has ended; once more after a wait that was interrupted."""
        while not self._has_ended and not self.ended.acquire(timeout=_LOOK_AROUND_S):
            pass
        self.waited = True

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # somebody may have stopped waiting
        self._has_ended = True
        self.ended.release()

    def result(self) -> T:
        """After the end, in any thread."""
        assert self._task is not None
        if self._task.cancelled():
            raise concurrent.futures.CancelledError
        return self._task.result()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LoopThread.forget)


def awaited(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The same method of the blocking client: runs the coroutine and waits for it."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._client, *args, **kwargs))  # type: ignore[no-any-return]

    return call


def called(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The same for a method that is no coroutine: clients belong to their loop's thread, so it is
    called there."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def on_loop() -> T:
            return method(self._client, *args, **kwargs)

        return self._loop.run(on_loop())  # type: ignore[no-any-return]

    return call


class Facade:
    """What the clients have in common: a loop, an asyncio client made there, ``with``."""

    _client: Any

    def __init__(self, make: Callable[[], Any]) -> None:
        async def on_loop() -> Any:
            return make()

        self._loop = LoopThread.shared()
        self._client = self._loop.run(on_loop())

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        # a default, because at the end of a process modules are gone already
        client = getattr(self, "_client", None)
        if client is not None and client.instance.running:
            _warn(
                f"unclosed {type(self).__name__} {client.instance.client_id}: it goes on in the "
                "background; use 'with', or stop()",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )

    def start(self) -> None:
        """As that of the asyncio client."""
        self._loop.run(self._client.start())

    def stop(self) -> None:
        """As that of the asyncio client."""
        self._loop.run(self._client.stop())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.run(self._client.__aexit__(kind, error, traceback))
