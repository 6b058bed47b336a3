"""Consuming by asking (client.md §5; class DefaultLitePullConsumer).

::

    async with PullConsumer("billing", "Order", namesrv="ns1:9876") as consumer:
        async for message in consumer:
            await handle(message)

Two positions per queue: *delivered* (what was handed out) and *done* (what was handed out before the last ``poll`` or the
last item of ``async for``). Automatic commits take *done*, so a message counts once the next one is asked for; ``commit()``
takes *delivered* and returns when the brokers have it. Messages of a queue come in order; those of a queue that moves to
another member of the group are not handed out any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

from ..remoting.protocol.bodies.heartbeat import ConsumerData, ConsumeType
from ..remoting.protocol.bodies.running_info import ConsumerRunningInfo
from ..remoting.protocol.commands.pull import PullSysFlag
from ..remoting.protocol.message import MessageExt, MessageQueue
from ..remoting.services import TaskSet
from .errors import ClientStateError, ConfigError
from .group_member import GroupMember
from .instance import ClientInstance
from .options import ClientOptions, checked_group, positive
from .pull_stream import PullStream
from .pulling import PullSettings
from .rebalance import AllocateStrategy, averagely
from .running_info import running_info
from .start_offset import StartFrom, StartPolicy, max_offset, milliseconds, min_offset, offset_at
from .subscription import tag_subscription

_TURN = 32
"""Messages of one queue that ``async for`` takes before another queue has its turn."""


class PullConsumer:
    """Hands out messages of the subscribed (or assigned) queues. Times are seconds.

    ``start_from`` (and ``start_time``): where a group begins that is new. ``pull_batch``: messages per request. Pulling runs
    ahead by ``max_cached`` messages or ``max_cached_bytes`` per queue. With ``auto_commit`` the brokers are told every
    ``commit_interval`` and at the end how far the group got.
    """

    def __init__(
        self,
        group: str,
        *topics: str,
        instance: ClientInstance | None = None,
        auto_commit: bool = True,
        commit_interval: float = 5.0,
        start_from: StartFrom = StartFrom.LAST,
        start_time: datetime | None = None,
        pull_batch: int = 32,
        max_cached: int = 1000,
        max_cached_bytes: int = 100 << 20,
        suspend: float = 20.0,
        allocate: AllocateStrategy = averagely,
        **options: Unpack[ClientOptions],
    ) -> None:
        if instance is not None and options:
            raise ConfigError(f"these options belong to the instance that was given: {', '.join(options)}")
        self.group = checked_group(group)
        self._owns_instance = instance is None
        self.instance = instance if instance is not None else ClientInstance(**options)
        self._auto_commit = auto_commit
        self._commit_interval = positive("commit_interval", commit_interval)
        self._max_cached = int(positive("max_cached", max_cached))
        self._max_cached_bytes = int(positive("max_cached_bytes", max_cached_bytes))
        self._settings = PullSettings(
            int(positive("pull_batch", pull_batch)),
            suspend,
            PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL,
            commits_on_pull=False,
        )
        self._started_ms = self.instance.clock.time_ms()
        self._start = StartPolicy(start_from, start_time, self._started_ms)
        self._member = GroupMember(
            self.instance,
            self.group,
            self,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            allocate=allocate,
            start=self._start,
        )
        self._streams: dict[MessageQueue, PullStream] = {}
        self._ready: deque[PullStream] = deque()
        """Streams with messages, each once, in the order of their turn."""
        self._arrived = asyncio.Event()
        self._tasks = TaskSet(f"consumer {self.group}")
        self._assigned = False
        self._joined = False
        self._state = "new"
        for topic in topics:
            self.subscribe(topic)

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group. Raises ``ClientStateError`` when started before, ``RemotingError`` without a name server."""
        if self._state != "new":
            raise ClientStateError(f"the consumer {self.group} is {self._state}: make a new one")
        self._state = "running"
        self._started_ms = self.instance.clock.time_ms()
        if self._owns_instance:
            await self.instance.start()
        try:
            self.instance.register_consumer(self)
            if self._member.subscriptions:
                await self._member.introduce()
        except BaseException:
            await self.stop(commit=False)
            raise
        if self._member.subscriptions:
            self._join()
        if self._auto_commit:
            self._tasks.spawn(self._commit_regularly(), name="commit")

    async def stop(self, *, commit: bool = True) -> None:
        """Leave the group. With ``auto_commit`` all that was handed out counts as consumed, unless ``commit=False``."""
        if self._state != "running":
            return
        self._state = "stopped"
        await self._tasks.close()
        self._arrived.set()
        if commit:
            self._mark_done()
        await self._member.release_all()
        await self.give_up(list(self._streams))
        if self._owns_instance:
            await self.instance.stop()
        else:
            await self.instance.unregister_consumer(self.group)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.stop(commit=error is None)  # what was being handled when it failed comes again

    # --- which queues -----------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Share the queues of this topic with the group: all messages, or those with a tag of ``"TagA || TagB"``.

        Raises ``ConfigError``, and ``ClientStateError`` after ``assign``.
        """
        if self._assigned:
            raise ClientStateError("this consumer has assigned queues; subscribe and assign exclude each other")
        self._member.subscribe(tag_subscription(topic, expression, self.instance.clock.time_ms()))
        if self._state == "running":
            self._join()

    def _join(self) -> None:
        if not self._joined:
            self._joined = True
            self._tasks.spawn(self._member.run(), name="rebalance")
            self._tasks.spawn(self._member.tick(), name="rebalance tick")

    async def assign(self, queues: Iterable[MessageQueue], expression: str = "*") -> None:
        """Read exactly these queues, whatever other members of the group do; replaces an earlier assignment.

        Raises ``ClientStateError`` after ``subscribe``; ``RemotingError``, ``BrokerError`` when offsets cannot be asked for.
        """
        self._check_running()
        if self._member.subscriptions and not self._assigned:
            raise ClientStateError("this consumer subscribes topics; subscribe and assign exclude each other")
        self._assigned = True
        wanted, before = set(queues), dict(self._member.subscriptions)
        now_ms = self.instance.clock.time_ms()
        after = {topic: tag_subscription(topic, expression, now_ms) for topic in {queue.topic for queue in wanted}}
        for topic in before.keys() - after.keys():
            self._member.unsubscribe(topic)
        for subscription in after.values():
            self._member.subscribe(subscription)
        await self._member.introduce()
        kept = {q for q in wanted if q.topic in before and before[q.topic].sub_string == after[q.topic].sub_string}
        await self.give_up([queue for queue in self._streams if queue not in kept])
        for queue in sorted(wanted - set(self._streams)):
            self.take(queue, await self._start.offset(self.instance, self._member.offsets, queue))

    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read at present."""
        return frozenset(self._streams)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """All readable queues of a topic. Raises ``NoRouteError``, ``RemotingError``, ``BrokerError``."""
        self._check_running()
        return (await self.instance.routes.get(topic)).subscribe_queues

    # --- messages ---------------------------------------------------------------------------------------------------

    async def poll(self, timeout: float = 5.0, max_messages: int = 32) -> list[MessageExt]:
        """Up to ``max_messages`` that are there, else those that come first, else none after ``timeout`` seconds.

        What an earlier ``poll`` returned counts as done now.
        """
        self._check_running()
        self._mark_done()
        if not self._ready and not await self._wait(timeout):
            return []
        messages: list[MessageExt] = []
        while self._ready and len(messages) < max_messages:
            messages += self._take_from(self._ready.popleft(), max_messages - len(messages))
        return messages

    async def __aiter__(self) -> AsyncIterator[MessageExt]:
        """Messages without end. One counts as done when the next one is asked for."""
        self._check_running()
        self._mark_done()
        while self._ready or await self._wait(None):
            stream = self._ready.popleft()
            epoch = stream.epoch
            for _ in range(_TURN):
                if stream.epoch != epoch or (message := stream.pop()) is None:
                    break
                yield message
                if stream.epoch == epoch:
                    stream.done = stream.delivered
            if stream.epoch == epoch:
                self._announce(stream)

    def _take_from(self, stream: PullStream, count: int) -> list[MessageExt]:
        messages: list[MessageExt] = []
        while len(messages) < count and (message := stream.pop()) is not None:
            messages.append(message)
        self._announce(stream)
        return messages

    async def _wait(self, timeout: float | None) -> bool:
        """Until a message is there. False: none came in time, or the consumer was stopped."""
        try:
            async with asyncio.timeout(timeout):
                while not self._ready and self._state == "running":
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return False
        return self._state == "running"

    def _mark_done(self) -> None:
        for stream in self._streams.values():
            stream.done = stream.delivered

    def _check_running(self) -> None:
        if self._state != "running":
            raise ClientStateError(f"the consumer {self.group} is {self._state}: use it inside of 'async with', or start it")

    # --- offsets ----------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Tell the brokers how far the group got, and wait for their answers.

        Default: everything that was handed out. An offset is that of the next message to read. Raises ``RemotingError``,
        ``BrokerError``.
        """
        self._check_running()
        if offsets is None:
            self._mark_done()
            offsets = {queue: stream.done for queue, stream in self._streams.items()}
        for queue, offset in offsets.items():
            self._member.offsets.update(queue, offset, only_forwards=False)
        await self._member.offsets.commit(offsets)

    async def committed(self, queue: MessageQueue) -> int | None:
        """What the broker has of the group for this queue. Raises ``RemotingError``, ``BrokerError``."""
        self._check_running()
        return await self._member.offsets.fetch(queue)

    def position(self, queue: MessageQueue) -> int:
        """Offset of the next message that will be handed out. Raises ``ClientStateError`` when the queue is not ours."""
        return self._stream(queue).delivered

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at ``offset``.

        Raises ``ClientStateError`` when the queue is not ours, ``ConfigError`` for an offset that it does not have,
        ``RemotingError``, ``BrokerError``.
        """
        stream = self._stream(queue)
        low, high = await min_offset(self.instance, queue), await max_offset(self.instance, queue)
        if not low <= offset <= high:
            raise ConfigError(f"offset {offset} is not in {queue}: it has {low} to {high}")
        self._move(stream, offset)

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on with the oldest message of these queues (default: all). Raises as ``seek``."""
        for queue in queues or tuple(self._streams):
            self._move(self._stream(queue), await min_offset(self.instance, queue))

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on with what arrives from now on (default: all queues). Raises as ``seek``."""
        for queue in queues or tuple(self._streams):
            self._move(self._stream(queue), await max_offset(self.instance, queue))

    async def offset_for_time(self, queue: MessageQueue, when: datetime) -> int:
        """Offset of the first message stored at or after that time. Raises ``RemotingError``, ``BrokerError``."""
        self._check_running()
        return await offset_at(self.instance, queue, milliseconds(when))

    def pause(self, *queues: MessageQueue) -> None:
        """Hand out nothing of these queues until ``resume``; what was pulled stays."""
        for queue in queues:
            self._stream(queue).paused = True
        self._ready = deque(stream for stream in self._ready if not stream.paused)

    def resume(self, *queues: MessageQueue) -> None:
        """Hand out again."""
        for queue in queues:
            stream = self._stream(queue)
            if stream.paused:
                stream.paused = False
                self._announce(stream)

    def _stream(self, queue: MessageQueue) -> PullStream:
        self._check_running()
        stream = self._streams.get(queue)
        if stream is None:
            raise ClientStateError(f"{queue} is not assigned to this consumer at present")
        return stream

    def _move(self, stream: PullStream, offset: int) -> None:
        self._forget_turn(stream)
        stream.restart_at(offset, self._tasks)

    async def _commit_regularly(self) -> None:
        while True:
            await self.instance.clock.sleep(self._commit_interval)
            await self._persist(list(self._streams))

    async def _persist(self, queues: list[MessageQueue]) -> None:
        for queue in queues:
            self._member.offsets.update(queue, self._streams[queue].done, only_forwards=False)
        await self._member.offsets.persist(queues)

    # --- queues come and go (QueueOwner) ----------------------------------------------------------------------------

    def take(self, queue: MessageQueue, offset: int) -> None:
        stream = PullStream(
            self._member,
            queue,
            self._member.subscriptions[queue.topic],
            self._settings,
            offset,
            max_messages=self._max_cached,
            max_bytes=self._max_cached_bytes,
            announce=self._announce,
        )
        self._streams[queue] = stream
        stream.start(self._tasks)

    async def give_up(self, queues: list[MessageQueue]) -> None:
        for queue in queues:
            self._forget_turn(self._streams[queue])
            self._streams[queue].drop()
        if self._auto_commit:
            await self._persist(queues)
        for queue in queues:
            del self._streams[queue]

    def _announce(self, stream: PullStream) -> None:
        """A stream that had nothing has something."""
        if len(stream) and not stream.paused and stream not in self._ready:
            self._ready.append(stream)
            self._arrived.set()

    def _forget_turn(self, stream: PullStream) -> None:
        if stream in self._ready:
            self._ready.remove(stream)

    # --- what the instance asks (ConsumerMember) --------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        return self._member.consumer_data

    def wake_rebalance(self) -> None:
        self._member.wake()

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            if queue in self._streams:
                self._move(self._streams[queue], offset)

    def running_info(self) -> ConsumerRunningInfo:
        return running_info(
            self.consumer_data(),
            {queue: stream.info() for queue, stream in self._streams.items()},
            self.instance.name_servers.addresses,
            self._started_ms,
            1,
        )
