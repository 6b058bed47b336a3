"""The user's function that consumes messages, asynchronous or plain, for one message or for several."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..remoting.protocol.message import MessageExt

MessageHandler = Callable[[MessageExt], Awaitable[object] | object]
"""Returns when the message is consumed; raises to have it again. A plain function runs in a thread."""
BatchHandler = Callable[[list[MessageExt]], Awaitable[object] | object]
"""The same for several messages, which are consumed together or come again together."""


class Handler:
    """Calls the user's function; plain ones in a pool of ``concurrency`` threads."""

    def __init__(self, function: Callable[[Any], Any], *, takes_batch: bool, concurrency: int, name: str) -> None:
        self.takes_batch = takes_batch
        self._function = function
        self._is_async = is_async(function)
        self._pool = None if self._is_async else ThreadPoolExecutor(concurrency, thread_name_prefix=name)

    def call(self, messages: list[MessageExt]) -> Awaitable[object]:
        """What is awaited raises whatever the function raises."""
        argument: Any = messages if self.takes_batch else messages[0]
        if self._pool is None:
            return self._function(argument)  # type: ignore[no-any-return]
        return asyncio.get_running_loop().run_in_executor(self._pool, self._function, argument)

    def close(self) -> None:
        """No more calls. A function that still runs in its thread is not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await: a coroutine function, or an object whose ``__call__`` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  (not a question of being callable)
    )
