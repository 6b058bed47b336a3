"""Consuming in order: of one queue one message (or batch) after the other, and the next only when
the one before is consumed (client.md §4.9; class ConsumeMessageOrderlyService)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from ...remoting.clock import Clock
from ...remoting.errors import RocketMQError
from ...remoting.outages import Outages
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet, happens_within
from ..errors import SuspendQueue
from ..handlers import LONGEST_SUSPEND_S, Call, delay_level_of, failure_of, tell_unheeded
from .backlog import Backlog
from .consumption import FAIR_SHARE, tell_slow
from .owned_queue import OwnedQueue

log: Final = logging.getLogger(__name__)

LOCK_RETRY_DELAY = 3.0
LEAVE_TIMEOUT = 1.0
_MIN_SUSPEND = 0.01

HoldsLock = Callable[[MessageQueue], Awaitable[bool]]
"""Whether the queue is ours alone at present; may ask the broker for it."""
ToRetryTopic = Callable[[MessageExt], Awaitable[None]]
"""Passes on a message that was tried often enough; the broker makes it a dead letter. Raises
``RocketMQError``."""


class _Line:
    """The messages of one queue that wait for their turn, for as long as it is ours.

    ``scheduled`` from the moment that it waits for a worker until it has none to do; ``idle`` is
    set while no handler runs. ``process_queue`` is another one once the offset was reset. ``first``
    is what a handler has at present, the first of its batch, since ``began``.
    """

    __slots__ = (
        "began", "first", "idle", "leaving", "owned", "process_queue", "scheduled", "waiting",
    )  # fmt: skip

    def __init__(self, owned: OwnedQueue) -> None:
        self.owned = owned
        self.process_queue = owned.process_queue
        self.waiting: deque[MessageExt] = deque()
        self.first: MessageExt | None = None
        self.began = 0.0
        self.scheduled = False
        self.leaving = False
        self.idle = asyncio.Event()
        self.idle.set()


class OrderedRetries(NamedTuple):
    """A failed message stops its queue for ``suspend`` seconds and is tried again; after
    ``max_reconsume_times`` it goes ``to_retry_topic``."""

    suspend: float
    max_reconsume_times: int
    to_retry_topic: ToRetryTopic


class OrderedConsumption:
    """``holds_lock`` is None where queues are not shared (broadcasting)."""

    def __init__(
        self,
        group: str,
        call: Call,
        holds_lock: HoldsLock | None,
        retries: OrderedRetries,
        clock: Clock,
        tasks: TaskSet,
        *,
        batch_size: int,
    ) -> None:
        self._group = group
        self._call = call
        self._holds_lock = holds_lock
        self._suspend, self._max_reconsume_times, self._to_retry_topic = retries
        self._clock = clock
        self._outages = Outages(clock)
        self._tasks = tasks
        self._batch_size = batch_size
        self._lines: dict[OwnedQueue, _Line] = {}
        self._backlog: Backlog[_Line] = Backlog()

    def submit(self, owned: OwnedQueue, messages: list[MessageExt]) -> None:
        line = self._lines.get(owned)
        if line is None:
            line = self._lines[owned] = _Line(owned)
        if line.process_queue is not owned.process_queue:  # it was reset: what waits is history
            line.process_queue = owned.process_queue
            line.waiting.clear()
        line.waiting.extend(messages)
        self._schedule(line)

    def _schedule(self, line: _Line) -> None:
        if not line.waiting or line.process_queue.dropped:  # nobody takes what waits there
            return
        if not line.scheduled and not line.leaving:
            line.scheduled = True
            self._backlog.extend([line])

    async def leave(self, owned: OwnedQueue) -> bool:
        """The next owner may begin only when our handler has ended. After a second without that it
        stays ours."""
        line = self._lines.get(owned)
        if line is not None:
            line.leaving = True
            if not line.idle.is_set():
                await happens_within(line.idle, LEAVE_TIMEOUT, self._clock)
            if not line.idle.is_set():
                line.leaving = False
                self._schedule(line)
                return False
            del self._lines[owned]
        return True

    def close(self) -> None:
        self._backlog.close()

    def closed(self) -> bool:
        return self._backlog.closed

    async def work(self) -> None:
        while (line := await self._backlog.take()) is not None:
            pause = None
            try:
                pause = await self._consume(line)
            finally:  # a queue outlives a worker of its
                if pause is not None and not self._backlog.closed:
                    self._tasks.spawn(self._go_on_later(line, pause), name="go on with queue")
                else:
                    line.scheduled = False
                    self._schedule(line)
            await asyncio.sleep(0)

    async def _go_on_later(self, line: _Line, pause: float) -> None:
        await self._clock.sleep(pause)
        line.scheduled = False
        self._schedule(line)

    async def _consume(self, line: _Line) -> float | None:
        """A share of the line's messages. Returns for how many seconds the queue has to wait then,
        if it has to."""
        for _ in range(FAIR_SHARE):
            if (
                line.process_queue.dropped
                or line.leaving
                or not line.waiting
                or self._backlog.closed
            ):
                return None
            line.idle.clear()
            try:
                if self._holds_lock is not None and not await self._holds_lock(line.owned.queue):
                    return LOCK_RETRY_DELAY
                if line.process_queue.dropped:
                    return None
                if (pause := await self._consume_next(line)) is not None:
                    return pause
            finally:
                line.idle.set()
        return None

    async def _consume_next(self, line: _Line) -> float | None:
        waiting, owned, process_queue = line.waiting, line.owned, line.process_queue
        messages = [waiting.popleft() for _ in range(min(self._batch_size, len(waiting)))]
        owned.prepare(messages)
        began = line.began = process_queue.last_begun = self._clock.monotonic()
        line.first = messages[0]
        decided = False
        try:
            failure = await failure_of(
                self._call, messages, self._group, self._outages, self.closed
            )
            owned.stats.handled(len(messages), self._clock.monotonic() - began, failure)
            again = (
                []
                if failure is None or process_queue.dropped
                else await self._to_come_again(messages, failure)
            )
            decided = True
        finally:
            line.first = None
            if not decided and not process_queue.dropped:
                waiting.extendleft(reversed(messages))  # the worker ends, the order stays
        if process_queue.dropped:
            return None
        owned.finish(process_queue, [message for message in messages if message not in again])
        if failure is None or not again:
            return None
        tell_unheeded(failure, self._group, self._outages, ordered=True)
        waiting.extendleft(reversed(again))
        wanted = failure.seconds if isinstance(failure, SuspendQueue) else None
        return min(
            max(self._suspend if wanted is None else wanted, _MIN_SUSPEND), LONGEST_SUSPEND_S
        )

    async def watch_timeouts(
        self, owned_queues: Callable[[], Iterable[OwnedQueue]], timeout: float
    ) -> None:
        """Service. Nothing but a line: who takes the next message would break the order."""
        while True:
            await self._clock.sleep(timeout)
            then = self._clock.monotonic() - timeout
            for line in filter(None, map(self._lines.get, owned_queues())):
                if line.first is not None and line.began < then:
                    tell_slow(self._outages, timeout, self._group, line.first)

    async def _to_come_again(
        self, messages: list[MessageExt], failure: BaseException
    ) -> list[MessageExt]:
        """Those whose attempt is not the last one, which is counted. What was tried often enough,
        cannot be read at all, or is given up by its handler, is passed on."""
        again = []
        for message in messages:
            may = message.reconsume_times < self._max_reconsume_times
            may &= delay_level_of(message, failure) >= 0
            if may or not await self._passed_on(message):
                message.reconsume_times += 1
                again.append(message)
        return again

    async def _passed_on(self, message: MessageExt) -> bool:
        try:
            await self._to_retry_topic(message)
        except RocketMQError as error:
            self._outages.fails(
                log,
                ("pass on",),
                "message not passed on, tried again group=%s message=%r error=%s",
                self._group,
                message,
                error,
            )
            return False
        self._outages.works(("pass on",))
        return True
