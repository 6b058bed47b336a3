"""Consuming with a handler (client.md §4; class DefaultMQPushConsumer).

::

    consumer = PushConsumer("billing", namesrv="ns1:9876")
    consumer.subscribe("Order", "new || changed")

    @consumer.on_message
    async def handle(message: MessageExt) -> None: ...

    await consumer.run()

The members of a group share the queues of the topics. A handler that returns has consumed its message; one that raises gets
it again after 10 s, 30 s, 1 min, ... (the broker keeps it in the group's retry topic), and after ``max_reconsume_times`` it
goes to the dead letter queue. Messages may come twice: after a crash, and when queues move to another member. Handlers run
side by side, ``concurrency`` of them, so the order of a queue is not kept.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar, Unpack

from ..remoting.errors import RocketMQError
from ..remoting.protocol.bodies.heartbeat import ConsumerData, ConsumeType
from ..remoting.protocol.bodies.running_info import ConsumerRunningInfo
from ..remoting.protocol.commands.pull import PullSysFlag
from ..remoting.protocol.message import MessageExt, MessageQueue
from ..remoting.protocol.topic_names import retry_topic
from ..remoting.services import TaskSet
from .backlog import Backlog
from .errors import ClientStateError, ConfigError, RetryLater
from .group_member import GroupMember
from .handlers import BatchHandler, Handler, MessageHandler
from .instance import ClientInstance
from .options import ClientOptions, checked_group, positive
from .owned_queue import CacheLimits, OwnedQueue, Work
from .process_queue import ProcessQueue
from .pulling import PullSettings
from .rebalance import AllocateStrategy, averagely
from .running_info import running_info
from .send_back import SendBack
from .start_offset import StartFrom, StartPolicy
from .subscription import tag_subscription

log = logging.getLogger(__name__)

M = TypeVar("M", bound=MessageHandler)
B = TypeVar("B", bound=BatchHandler)

_LOCAL_RETRY_DELAY = 5.0
_FAIR_SHARE = 32
"""Messages that a worker handles before it lets the rest of the program have a turn."""


class PushConsumer:
    """Calls a handler for every message of the subscribed topics. Times are seconds.

    ``start_from`` (and ``start_time``): where a group begins that is new. ``concurrency``: handlers running at a time.
    ``batch_size``: messages that an ``on_batch`` handler gets at most. ``max_reconsume_times``: -1 is 16. Of one queue at
    most about ``cache`` is held. ``drain_timeout``: how long ``stop`` waits for handlers that still run.
    """

    def __init__(
        self,
        group: str,
        *,
        instance: ClientInstance | None = None,
        start_from: StartFrom = StartFrom.LAST,
        start_time: datetime | None = None,
        concurrency: int = 20,
        batch_size: int = 32,
        pull_batch: int = 32,
        max_reconsume_times: int = -1,
        cache: CacheLimits = CacheLimits(),  # noqa: B008  (immutable)
        suspend: float = 15.0,
        commit_interval: float = 5.0,
        drain_timeout: float = 30.0,
        allocate: AllocateStrategy = averagely,
        **options: Unpack[ClientOptions],
    ) -> None:
        if instance is not None and options:
            raise ConfigError(f"these options belong to the instance that was given: {', '.join(options)}")
        self.group = checked_group(group)
        self._owns_instance = instance is None
        self.instance = instance if instance is not None else ClientInstance(**options)
        self._concurrency = int(positive("concurrency", concurrency))
        self._batch_size = int(positive("batch_size", batch_size))
        self._cache = cache
        self._commit_interval = positive("commit_interval", commit_interval)
        self._drain_timeout = drain_timeout
        self._settings = PullSettings(
            int(positive("pull_batch", pull_batch)), suspend, PullSysFlag.SUSPEND, commits_on_pull=True
        )
        now_ms = self.instance.clock.time_ms()
        self._started_ms = now_ms
        self._member = GroupMember(
            self.instance,
            self.group,
            self,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            allocate=allocate,
            start=StartPolicy(start_from, start_time, now_ms),
        )
        self._send_back = SendBack(self.instance, self.group, max_reconsume_times)
        self._queues: dict[MessageQueue, OwnedQueue] = {}
        self._backlog: Backlog[Work] = Backlog()
        self._tasks = TaskSet(f"consumer {self.group}")
        self._workers = TaskSet(f"consumer {self.group}")
        self._worker_tasks: list[asyncio.Task[None]] = []
        self._function: MessageHandler | BatchHandler | None = None
        self._takes_batch = False
        self._handler: Handler | None = None
        self._state = "new"

    # --- what to do -------------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Consume this topic: all of it, or messages with one of the tags of ``"TagA || TagB"``. Also while running.

        Raises ``ConfigError``.
        """
        self._member.subscribe(tag_subscription(topic, expression, self.instance.clock.time_ms()))

    def unsubscribe(self, topic: str) -> None:
        """Consume this topic no more."""
        self._member.unsubscribe(topic)

    def on_message(self, handler: M) -> M:
        """The handler for single messages; can be used as a decorator."""
        self._set_handler(handler, takes_batch=False)
        return handler

    def on_batch(self, handler: B) -> B:
        """The handler for lists of up to ``batch_size`` messages of one queue; they succeed or come again together."""
        self._set_handler(handler, takes_batch=True)
        return handler

    def _set_handler(self, handler: MessageHandler | BatchHandler, *, takes_batch: bool) -> None:
        if self._function is not None:
            raise ClientStateError(f"the consumer {self.group} has a handler already")
        self._function, self._takes_batch = handler, takes_batch

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin. Raises ``ClientStateError`` without handler or subscription, or when started before,

        ``RemotingError`` when no name server answers.
        """
        if self._state != "new":
            raise ClientStateError(f"the consumer {self.group} is {self._state}: make a new one")
        if self._function is None:
            raise ClientStateError(f"the consumer {self.group} has no handler: use on_message or on_batch")
        if not self._member.subscriptions:
            raise ClientStateError(f"the consumer {self.group} subscribes nothing: use subscribe")
        self._state = "running"
        self._started_ms = self.instance.clock.time_ms()
        self._handler = Handler(
            self._function, takes_batch=self._takes_batch, concurrency=self._concurrency, name=self.group
        )
        self._member.subscribe(tag_subscription(retry_topic(self.group), "*", self._started_ms))
        if self._owns_instance:
            await self.instance.start()
        try:
            self.instance.register_consumer(self)
            await self._member.introduce()
        except BaseException:
            await self.stop()
            raise
        self._worker_tasks = [
            self._workers.spawn(self._work(), name=f"worker {number}") for number in range(self._concurrency)
        ]
        self._tasks.spawn(self._member.run(), name="rebalance")
        self._tasks.spawn(self._member.tick(), name="rebalance tick")
        self._tasks.spawn(self._persist(), name="offsets")

    async def stop(self) -> None:
        """Pull no more, wait for running handlers (``drain_timeout``), tell the brokers how far we got, leave the group.

        What was pulled and not yet given to a handler comes again, here or at another member.
        """
        if self._state != "running":
            return
        self._state = "stopped"
        await self._tasks.close()
        self._backlog.close()
        await self._drain()
        if self._handler is not None:
            self._handler.close()
        await self._member.release_all()
        if self._owns_instance:
            await self.instance.stop()
        else:
            await self.instance.unregister_consumer(self.group)

    async def _drain(self) -> None:
        running = [task for task in self._worker_tasks if task is not asyncio.current_task()]
        if running and (await asyncio.wait(running, timeout=self._drain_timeout))[1]:
            log.warning("handlers still run after %.0f s and are cancelled group=%s", self._drain_timeout, self.group)
        await self._workers.close()

    async def run(self) -> None:
        """Start, consume until cancelled, stop."""
        async with self:
            await asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.stop()

    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are ours at present, those of the retry topic included."""
        return frozenset(self._queues)

    # --- queues come and go (QueueOwner) ----------------------------------------------------------------------------

    def take(self, queue: MessageQueue, offset: int) -> None:
        owned = OwnedQueue(
            self._member, queue, self._member.subscriptions[queue.topic], self._settings, self._cache, offset, self._submit
        )
        self._queues[queue] = owned
        owned.start(self._tasks)

    async def give_up(self, queues: list[MessageQueue]) -> None:
        for queue in queues:
            self._queues.pop(queue).drop()
        await self._member.offsets.persist(queues)

    async def _persist(self) -> None:
        while True:
            await self.instance.clock.sleep(self._commit_interval)
            await self._member.offsets.persist()

    # --- what the instance asks (ConsumerMember) --------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        return self._member.consumer_data

    def wake_rebalance(self) -> None:
        self._member.wake()

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> None:
        moved = [queue for queue in offsets if queue in self._queues]
        for queue in moved:
            self._queues[queue].restart_at(offsets[queue], self._tasks)
        self._tasks.spawn(self._member.offsets.persist(moved), name="reset offsets")

    def running_info(self) -> ConsumerRunningInfo:
        return running_info(
            self.consumer_data(),
            {queue: owned.info() for queue, owned in self._queues.items()},
            self.instance.name_servers.addresses,
            self._started_ms,
            self._concurrency,
        )

    # --- consuming --------------------------------------------------------------------------------------------------

    def _submit(self, owned: OwnedQueue, messages: list[MessageExt]) -> None:
        process_queue, size = owned.process_queue, self._batch_size
        if not self._takes_batch:
            self._backlog.extend([Work(owned, process_queue, [message]) for message in messages])
        else:
            self._backlog.extend(
                [Work(owned, process_queue, messages[at : at + size]) for at in range(0, len(messages), size)]
            )

    async def _work(self) -> None:
        handled = 0
        while (work := await self._backlog.take()) is not None:
            if not work.process_queue.dropped:
                await self._consume(*work)
            handled += 1
            if handled % _FAIR_SHARE == 0:
                await asyncio.sleep(0)

    async def _consume(self, owned: OwnedQueue, process_queue: ProcessQueue, messages: list[MessageExt]) -> None:
        assert self._handler is not None
        owned.prepare(messages)
        try:
            await self._handler(messages)
        except RetryLater as later:
            delay_level = later.delay_level
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            log.warning("handler cancelled itself group=%s message=%r", self.group, messages[0])
            delay_level = 0
        except Exception:  # whatever the user's code raises means: again
            log.exception("handler failed group=%s first of %d messages=%r", self.group, len(messages), messages[0])
            delay_level = 0
        else:
            owned.finish(process_queue, messages)
            return
        if not process_queue.dropped:
            await self._give_back(owned, process_queue, messages, delay_level)

    async def _give_back(
        self, owned: OwnedQueue, process_queue: ProcessQueue, messages: list[MessageExt], delay_level: int
    ) -> None:
        """Let the broker bring them again; those it does not take are tried again here, and hold the offset meanwhile."""
        kept = []
        for message in messages:
            try:
                await self._send_back(message, delay_level)
            except RocketMQError as error:
                log.warning(
                    "message not given back, tried again here group=%s message=%r error=%s", self.group, message, error
                )
                kept.append(message)
        owned.finish(process_queue, [message for message in messages if message not in kept])
        if kept and self._state == "running":
            self._tasks.spawn(self._again(Work(owned, process_queue, kept)), name="local retry")

    async def _again(self, work: Work) -> None:
        await self.instance.clock.sleep(_LOCAL_RETRY_DELAY)
        self._backlog.extend([work])
