"""The user's function that consumes messages, asynchronous or plain, for one message or for
several."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from ..remoting.protocol.record.decode import MessageExt
from .errors import DeserializationError, RetryLater, SuspendQueue
from .user_code import UserCode
from .user_threads import UserThreads

log: Final = logging.getLogger(__name__)

MessageHandler = Callable[[MessageExt], Awaitable[object] | object]
"""Returns when the message is consumed; raises to have it again. A plain function runs in a
thread."""
BatchHandler = Callable[[list[MessageExt]], Awaitable[object] | object]
"""The same for several messages, which are consumed together or come again together."""


Call = Callable[[list[MessageExt]], Awaitable[object]]
"""Gives messages to the user's function, and raises what it raises."""


async def failure_of(call: Call, messages: list[MessageExt], group: str) -> BaseException | None:
    """Call. None when the messages are consumed, else why they have to come again."""
    with UserCode(asyncio.CancelledError) as code:
        await call(messages)
        return None
    error = code.failure()
    assert error is not None
    return verdict(error, messages, group)


def is_cancelled() -> bool:
    """It is this task that is to end, not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def verdict(error: BaseException, messages: list[MessageExt], group: str) -> BaseException:
    """Why messages have to come again, told in the log unless the handler wanted it so. Raises the
    error of a worker that is cancelled itself."""
    if isinstance(error, asyncio.CancelledError):
        if is_cancelled():
            raise error
        log.warning("handler cancelled itself group=%s message=%r", group, messages[0])
    elif any(is_unreadable(each, error) for each in messages):
        log.error("body cannot be read, it is not tried again group=%s error=%s", group, error)
    elif not isinstance(error, (RetryLater, SuspendQueue)):
        log.error(
            "handler failed group=%s first of %d messages=%r",
            group,
            len(messages),
            messages[0],
            exc_info=error,
        )
    return error


def is_unreadable(message: MessageExt, error: BaseException) -> bool:
    """This message is why its handler failed, and would be so the next time."""
    return isinstance(error, DeserializationError) and error.message is message


def delay_level_of(message: MessageExt, error: BaseException) -> int:
    """As in ``RetryLater``, for a message whose handler has ended so."""
    if isinstance(error, RetryLater):
        return error.delay_level
    return -1 if is_unreadable(message, error) else 0


class Handler:
    """The user's function; a plain one runs in a pool of ``concurrency`` threads."""

    def __init__(
        self, function: Callable[[Any], Any], *, takes_batch: bool, concurrency: int, name: str
    ) -> None:
        self._threads = None if is_async(function) else UserThreads(concurrency, name)
        in_loop = function if self._threads is None else partial(self._threads.call, function)
        self.call: Call = in_loop if takes_batch else lambda messages: in_loop(messages[0])

    def close(self) -> None:
        """No more calls. A function that still runs in its thread is not waited for."""
        if self._threads is not None:
            self._threads.close()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await: a coroutine function, or an object whose
    ``__call__`` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  (not a question of being callable)
    )
