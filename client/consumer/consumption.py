"""Consuming side by side: every message as soon as a worker is free, whatever its queue (client.md
§4.7, §4.8; class ConsumeMessageConcurrentlyService)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ...remoting.clock import Clock
from ...remoting.errors import RocketMQError
from ...remoting.outages import Outages
from ...remoting.protocol.message.retries import FIRST_DELAY_LEVEL
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet
from ..handlers import Call, delay_level_of, is_to_end, settle, tell_unheeded, verdict
from ..user_code import PROGRAM_ENDS
from .backlog import Backlog
from .owned_queue import OwnedQueue, Work
from .process_queue import ProcessQueue
from .send_back import SendBack

log: Final = logging.getLogger(__name__)

LOCAL_RETRY_DELAY = 5.0
FAIR_SHARE = 32
"""Messages that a worker handles before it lets the rest of the program have a turn."""
_MAX_TIMED_OUT = 16
"""Of one queue in one round."""


class Consumption(Protocol):
    """How the messages of the queues that are ours get to the handler."""

    def submit(self, owned: OwnedQueue, messages: list[MessageExt]) -> None:
        """Messages of one queue, in order."""
        ...

    async def work(self) -> None:
        """One worker; ends after ``close``."""
        ...

    async def leave(self, owned: OwnedQueue) -> bool:
        """The queue is to be given up. False: its handler still runs, ask again later."""
        ...

    def close(self) -> None:
        """Hand out nothing more."""
        ...

    def closed(self) -> bool:
        """It was closed."""
        ...

    async def watch_timeouts(
        self, owned_queues: Callable[[], Iterable[OwnedQueue]], timeout: float
    ) -> None:
        """Service: tells of handlers that take longer than ``timeout`` (seconds)."""
        ...


def tell_slow(outages: Outages, timeout: float, group: str, message: MessageExt) -> None:
    """A handler has had the message for longer than it should."""
    text = "handler takes over %.0f s group=%s message=%r"
    outages.occurs(log, ("slow",), text, timeout, group, message)


class _Running:
    """What a worker's handler has at present."""

    __slots__ = ("began", "messages")

    def __init__(self) -> None:
        self.messages: list[MessageExt] = _NONE
        self.began = 0.0


_NONE: Final[list[MessageExt]] = []


class ConcurrentConsumption:
    """``send_back`` is None where nobody takes messages back (broadcasting): those that fail count
    as consumed."""

    def __init__(
        self,
        group: str,
        call: Call,
        send_back: SendBack | None,
        clock: Clock,
        tasks: TaskSet,
        *,
        batch_size: int,
    ) -> None:
        self._group = group
        self._call = call
        self._send_back = send_back
        self._clock = clock
        self._outages = Outages(clock)
        self._tasks = tasks
        self._batch_size = batch_size
        self._backlog: Backlog[Work] = Backlog()
        self._running: list[_Running] = []

    def submit(self, owned: OwnedQueue, messages: list[MessageExt]) -> None:
        process_queue, size = owned.process_queue, self._batch_size
        if size == 1:
            self._backlog.extend([(owned, process_queue, [message]) for message in messages])
        else:
            portions = range(0, len(messages), size)
            self._backlog.extend(
                [(owned, process_queue, messages[at : at + size]) for at in portions]
            )

    async def leave(self, owned: OwnedQueue) -> bool:
        return True  # what handlers that still run make of its messages counts no more

    def close(self) -> None:
        self._backlog.close()

    def closed(self) -> bool:
        return self._backlog.closed

    async def work(self) -> None:
        backlog, call, monotonic = self._backlog, self._call, self._clock.monotonic
        handled, running, task = 0, _Running(), asyncio.current_task()
        assert task is not None
        self._running.append(running)
        while (work := backlog.take_now() or await backlog.take()) is not None:
            owned, process_queue, messages = work
            if process_queue.dropped:
                continue
            if owned.prepares:
                owned.prepare(messages)
            running.messages = messages
            began = running.began = process_queue.last_begun = monotonic()
            failure: BaseException | None = None
            try:
                if (returned := await call(messages)) is not None:
                    await settle(returned, self._group, self._outages)
                if task.cancelling():  # which the handler did not heed: it may be the end
                    await is_to_end(self.closed)
            except PROGRAM_ENDS:
                raise
            except BaseException as error:  # noqa: BLE001 - as in UserCode, for every message
                failure = await verdict(error, messages, self._group, self._outages, self.closed)
            running.messages = _NONE
            owned.stats.handled(len(messages), monotonic() - began, failure)
            if failure is None:
                owned.finish(process_queue, messages)
            elif not process_queue.dropped:
                await self._give_back(owned, process_queue, messages, failure)
            handled += 1
            if handled % FAIR_SHARE == 0:
                await asyncio.sleep(0)

    async def _give_back(
        self,
        owned: OwnedQueue,
        process_queue: ProcessQueue,
        messages: list[MessageExt],
        failure: BaseException,
    ) -> None:
        """Let the broker bring them again; those it does not take are tried again here, and hold
        the offset meanwhile."""
        kept: list[MessageExt] = []
        if self._send_back is not None:
            tell_unheeded(failure, self._group, self._outages, ordered=False)
        for message in messages:
            if self._send_back is None:
                self._outages.occurs(
                    log,
                    ("passed over",),
                    "message passed over, broadcasting repeats nothing group=%s message=%r",
                    self._group,
                    message,
                )
            elif message.queue_offset in process_queue and not await self._taken_back(
                self._send_back, message, delay_level_of(message, failure)
            ):
                message.reconsume_times += 1
                kept.append(message)
        owned.finish(process_queue, [message for message in messages if message not in kept])
        if kept and not self._backlog.closed:
            self._tasks.spawn(self._again((owned, process_queue, kept)), name="local retry")

    async def _taken_back(self, send_back: SendBack, message: MessageExt, delay_level: int) -> bool:
        try:
            await send_back(message, delay_level)
        except asyncio.CancelledError:
            if await is_to_end(self.closed):
                raise
            return False
        except RocketMQError as error:
            self._outages.fails(
                log,
                ("give back", self._group),
                "message not given back, tried again here group=%s message=%r error=%s",
                self._group,
                message,
                error,
            )
            return False
        self._outages.works(("give back", self._group))
        return True

    async def _again(self, work: Work) -> None:
        await self._clock.sleep(LOCAL_RETRY_DELAY)
        self._backlog.extend([work])

    # --- handlers that take too long
    # -----------------------------------------------------------------------------------

    async def watch_timeouts(
        self, owned_queues: Callable[[], Iterable[OwnedQueue]], timeout: float
    ) -> None:
        """Service: the first message of a queue holds the offset of all behind it. One that a
        handler has had for longer than ``timeout`` (seconds) is given back, or counts as consumed
        where nobody takes it; its handler runs on, whatever it returns counts no more."""
        while True:
            await self._clock.sleep(timeout)
            for owned in list(owned_queues()):
                await self._give_back_timed_out(owned, timeout)

    async def _give_back_timed_out(self, owned: OwnedQueue, timeout: float) -> None:
        send_back, process_queue = self._send_back, owned.process_queue
        for _ in range(_MAX_TIMED_OUT):
            head = process_queue.first
            if (
                head is None
                or process_queue.dropped
                or not self._is_handled_since(head, self._clock.monotonic() - timeout)
            ):
                return
            tell_slow(self._outages, timeout, self._group, head)
            if send_back is not None and not await self._taken_back(
                send_back, head, FIRST_DELAY_LEVEL
            ):
                return
            owned.finish(process_queue, [head])

    def _is_handled_since(self, message: MessageExt, then: float) -> bool:
        """A handler that still runs has had it since before ``then``."""
        return any(
            running.began < then and message in running.messages for running in self._running
        )
