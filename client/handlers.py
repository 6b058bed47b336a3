"""The user's function that consumes messages, asynchronous or plain, for one message or for
several."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Any, Final

from ..remoting.outages import Outages
from ..remoting.protocol.record.decode import MessageExt
from .errors import DeserializationError, RetryLater, SuspendQueue
from .usage_errors import is_async
from .user_code import PROGRAM_ENDS, UserCode
from .user_threads import UserThreads

log: Final = logging.getLogger(__name__)

MessageHandler = Callable[[MessageExt], Awaitable[object] | object]
"""Returns when the message is consumed; raises to have it again. A plain function runs in a
thread."""
BatchHandler = Callable[[list[MessageExt]], Awaitable[object] | object]
"""The same for several messages, which are consumed together or come again together."""


LONGEST_SUSPEND_S: Final = 30.0
"""A queue of an ordered consumer is suspended for no longer."""
USUAL_DELAY_LEVELS: Final = 18
"""So many a broker has, unless it was told others."""

Call = Callable[[list[MessageExt]], Awaitable[object]]
"""Gives messages to the user's function, and raises what it raises."""
Closed = Callable[[], bool]
"""Whether nothing is handed out any more: only then somebody cancels those who call a handler."""


async def failure_of(
    call: Call, messages: list[MessageExt], group: str, outages: Outages, closed: Closed
) -> BaseException | None:
    """Call. None when the messages are consumed, else why they have to come again."""
    with UserCode(BaseException, but=PROGRAM_ENDS) as code:
        if (returned := await call(messages)) is not None:
            await settle(returned, group, outages)
        if is_cancelled():  # which the handler did not heed: it may be the end
            await is_to_end(closed)
        return None
    error = code.failure()
    assert error is not None
    return await verdict(error, messages, group, outages, closed)


async def settle(returned: object, group: str, outages: Outages) -> None:
    """What a handler returned: a coroutine has not even begun, and what in other clients says
    "again" says nothing here."""
    returned = await awaited(returned)
    if returned is False or isinstance(returned, (Enum, BaseException)):
        outages.occurs(
            log,
            ("returned", group),
            "handler returned %r, and the message is done: to have it again raise an exception, "
            "such as RetryLater group=%s",
            returned,
            group,
        )


async def awaited(returned: Any) -> object:
    """The result of a function that may turn out to be asynchronous: ``lambda message:
    handle(message)``."""
    return await returned if inspect.isawaitable(returned) else returned


def is_cancelled() -> bool:
    """It is this task that is to end, not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def is_to_end(closed: Closed) -> bool:
    """It is this task that was cancelled, and not by a handler that it has called, such as
    ``loop.call_later(5, asyncio.current_task().cancel)``: from that one it recovers."""
    if not is_cancelled():
        return False
    # a program that ends without ``stop`` cancels all tasks at once, that which closes among them
    await asyncio.sleep(0)
    if closed():
        return True
    task = asyncio.current_task()
    while task is not None and task.uncancel() > 0:
        pass
    return False


async def verdict(
    error: BaseException,
    messages: list[MessageExt],
    group: str,
    outages: Outages,
    closed: Closed,
) -> BaseException:
    """Why messages have to come again, told in the log unless the handler wanted it so: what fails
    for every message, in the same place, is not told for each. Raises the error of a worker that is
    cancelled itself."""
    if isinstance(error, asyncio.CancelledError):
        if await is_to_end(closed):
            raise error
        outages.occurs(
            log,
            ("cancelled", group),
            "handler cancelled itself group=%s message=%r",
            group,
            messages[0],
        )
    elif any(is_unreadable(each, error) for each in messages):
        outages.occurs(
            log,
            ("unreadable", group),
            "body cannot be read, it is not tried again group=%s error=%s",
            group,
            error,
            level=logging.ERROR,
        )
    elif not isinstance(error, (RetryLater, SuspendQueue)):
        outages.occurs(
            log,
            ("handler", group, type(error).__name__, _place_of(error)),
            "handler failed group=%s reconsume_times=%d first of %d messages=%r",
            group,
            messages[0].reconsume_times,
            len(messages),
            messages[0],
            level=logging.ERROR,
            exc_info=error,
        )
    return error


def tell_unheeded(error: BaseException, group: str, outages: Outages, *, ordered: bool) -> None:
    """In the log: how long the handler wanted to wait, where it is another time that is waited
    for."""
    level = error.delay_level if isinstance(error, RetryLater) else 0
    seconds = error.seconds if isinstance(error, SuspendQueue) else None
    if ordered and level > 0:
        why = (
            f"RetryLater({level}): with ordered=True a level says nothing, the queue waits for "
            "suspend_queue seconds; SuspendQueue(seconds) for others"
        )
    elif ordered and seconds is not None and seconds > LONGEST_SUSPEND_S:
        why = f"SuspendQueue({seconds:g}): a queue waits for {LONGEST_SUSPEND_S:g} s at most"
    elif not ordered and level > USUAL_DELAY_LEVELS:
        why = (
            f"RetryLater({level}): that is a level, no seconds, and brokers have "
            f"{USUAL_DELAY_LEVELS} of them unless messageDelayLevel has more; one above the last "
            "means the last, 2 h"
        )
    elif not ordered and seconds is not None:
        why = (
            f"SuspendQueue({seconds:g}): without ordered=True no queue waits, the message comes "
            "again as after RetryLater(), the first time after 10 s; RetryLater(1) is 1 s"
        )
    else:
        return
    outages.occurs(log, ("unheeded", group, type(error).__name__), why + " group=%s", group)


def _place_of(error: BaseException) -> tuple[str, int] | None:
    """File and line that raised it."""
    last = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        last = frame.f_code.co_filename, line
    return last


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
        in_loop = (
            function if self._threads is None else partial(_in_thread, self._threads, function)
        )
        # a list of its own: the function may use it up, and what it was given has to be known then
        self.call: Call = lambda messages: in_loop(list(messages) if takes_batch else messages[0])

    def close(self) -> None:
        """No more calls. A function that still runs in its thread is not waited for."""
        if self._threads is not None:
            self._threads.close()


async def _in_thread(threads: UserThreads, function: Callable[[Any], Any], what: Any) -> object:
    return await awaited(await threads.call(function, what))
