"""Consuming by asking (client.md §5; class DefaultLitePullConsumer).

::

    async with PullConsumer("billing", "Order", namesrv="ns1:9876") as consumer:
        async for message in consumer:
            await handle(message)

Two positions per queue: *delivered* (what was handed out) and *done* (what was handed out before
the last ``poll`` or the last item of ``async for``). Automatic commits take *done*, so a message
counts once the next one is asked for; ``commit()`` takes *delivered* and returns when the brokers
have it. Messages of a queue come in order; those of a queue that moves to another member of the
group are not handed out any more.

One file, though a long one, for one idea: the consumer as its user, its group and its instance see
it. What it is made of (streams, pulling, offsets) has files of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import groupby
from types import TracebackType
from typing import Final, Unpack

from ...remoting.protocol.bodies.heartbeat import ConsumerData, ConsumeType
from ...remoting.protocol.bodies.running_info import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet
from ..cluster.instance import ClientInstance, instance_for
from ..errors import ClientStateError, ConfigError
from ..lifecycle import Startable
from ..namespaces import unwrap_queue, unwrap_queues, with_namespace, wrap_queue
from ..offsets.start_offset import StartPolicy, max_offset, milliseconds, min_offset, offset_at
from ..options import settings_of, takes
from ..program import Program, current_program
from ..usage_errors import (
    checked_group,
    checked_offsets,
    checked_queues,
    checked_topic,
    number,
    positive,
)
from ..user_code import UserCode
from .group_member import GroupMember
from .options import PullConsumerOptions, PullConsumerSettings
from .pull_stream import PullStream, SharedRoom
from .pull_streams import PullStreams
from .pulling import PullRequest
from .running_info import running_info
from .subscription import Sql, same_expression, subscription_of

log: Final = logging.getLogger(__name__)

_STOPPED: Final = ("stopping", "stopped")
_TURN = 32
"""Messages of one queue that ``async for`` takes before another queue has its turn."""


class PullConsumer(Startable):
    """Hands out messages of the subscribed (or assigned) queues. Times are seconds; see also
    ``options.ClientOptions``.

    ``start_from`` (and ``start_time``): where a group begins that is new. ``pull_batch``: messages
    per request. Pulling runs ahead by ``max_cached`` messages or ``max_cached_bytes`` per queue,
    and by about ``max_cached_total`` messages in all (paused queues do not count). With
    ``auto_commit`` the brokers are told every ``commit_interval`` and at the end how far the group
    got. With ``model=MessageModel.BROADCASTING`` every member has all queues, and a file in
    ``offset_folder`` has the offsets. ``trace``: tell in a topic what was handed out when.
    ``on_assign`` is told queues that have become ours, before anything of them is read;
    ``on_revoke`` those that are about to go, of which nothing is handed out any more: ``commit()``
    there tells how far they were handled. Both are awaited, for 30 s at most; ``assign`` calls
    neither.
    """

    @takes(PullConsumerSettings)
    def __init__(self, group: str, *topics: str, **options: Unpack[PullConsumerOptions]) -> None:
        settings, others = settings_of(PullConsumerSettings, options)
        self._options = settings
        self._owns_instance = settings.instance is None
        self.instance: ClientInstance = instance_for(self, settings.instance, others, stream=True)
        self._namespace = self.instance.namespace
        self.group: str = with_namespace(checked_group(group), self._namespace)
        """As the cluster knows it, with the namespace."""
        self._streams = PullStreams(
            SharedRoom(settings.max_cached_total, settings.pulling.batch_size, self.instance.clock)
        )
        self._settings = settings.pulling
        self._file = settings.local_offsets(self.instance, self.group)
        self._tracer = settings.tracer(self.instance, self.group)
        self._started_ms = self.instance.clock.time_ms()
        self._start = StartPolicy(settings.start_from, settings.start_time, self._started_ms)
        self._member = GroupMember(
            self.instance,
            self.group,
            self,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            allocate=settings.allocate,
            start=self._start,
            broadcast_offsets=self._file,
        )
        self._member.callbacks = settings.callbacks(self.instance, self.group)
        self._tasks = TaskSet(f"consumer {self.group}")
        self._assigned = False
        self._joined = False
        self._registered = False
        self._watched: dict[
            str, tuple[tuple[MessageQueue, ...], Callable[[tuple[MessageQueue, ...]], None]]
        ] = {}
        self._program: Program | None = None
        self._state = "new"
        for topic in topics:
            self.subscribe(topic)

    # --- life
    # ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group. Raises ``ClientStateError`` when started before, ``RemotingError``
        without a name server, ``ExpressionRefused``, ``ConfigError`` when a broadcasting consumer
        cannot read its offsets."""
        if self._state != "new":
            raise ClientStateError(f"the consumer {self.group} is {self._state}: make a new one")
        self._state = "running"
        self._started_ms = self.instance.clock.time_ms()
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop, commit=False)
            if self._owns_instance:
                await self.instance.start()
            if self._file is not None:
                await self._file.check()
            self.instance.register_consumer(self)
            self._registered = True
            self.instance.routes.on_change.append(self._route_changed)
            if self._member.subscriptions:
                await self._member.introduce()
            undo.pop_all()
        if self._member.subscriptions:
            self._join()
        if self._options.auto_commit:
            self._tasks.spawn(self._commit_regularly(), name="commit")
        if self._tracer is not None:
            self._tasks.spawn(self._tracer.run(), name="trace")
        self._program = current_program()
        if self._program is not None:
            self._program.add(self)

    async def stop(self, *, commit: bool = True) -> None:
        """Leave the group. With ``auto_commit`` all that was handed out counts as consumed, unless
        ``commit=False``."""
        if self._state != "running":
            return
        self._state = "stopping"
        self._streams.look()
        if self._program is not None:
            self._program.discard(self)
        if commit:
            self.mark_done()
        async with (
            AsyncExitStack() as last
        ):  # backwards; a step that is cancelled does not take the others along
            last.callback(self._has_stopped)
            if self._owns_instance:
                last.push_async_callback(self.instance.stop)
            elif self._registered:
                last.push_async_callback(self.instance.unregister_consumer, self.group)
            if self._registered:
                last.callback(self.instance.routes.on_change.remove, self._route_changed)
            if self._tracer is not None:
                last.push_async_callback(self._tracer.close)
            last.callback(self._member.callbacks.close)
            last.push_async_callback(self._give_up_all)
            last.push_async_callback(self._member.release_all)
            await self._tasks.close()

    def _has_stopped(self) -> None:
        self._state = "stopped"

    async def _give_up_all(self) -> None:
        """Also what was assigned."""
        await self.give_up(list(self._streams))

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        await self.stop(commit=error is None)  # what was being handled when it failed comes again

    # --- which queues
    # ----------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Share the queues of this topic with the group: all messages, those with a tag of ``"TagA
        || TagB"``, or those for which an ``Sql`` expression is true.

        Raises ``ConfigError``, and ``ClientStateError`` after ``assign`` and when stopped.
        """
        if self._state in _STOPPED:
            raise self._not_running()
        if self._assigned:
            raise ClientStateError(
                "this consumer has assigned queues; subscribe and assign exclude each other"
            )
        topic = with_namespace(checked_topic(topic), self._namespace)
        self._member.subscribe(subscription_of(topic, expression, self.instance.clock.time_ms()))
        if self._state == "running":
            self._join()

    def unsubscribe(self, topic: str) -> None:
        """Read this topic no more: its queues go to the others of the group, with what was handed
        out committed. Nothing happens for one that is not subscribed.

        Raises ``ClientStateError`` after ``assign`` (assign other queues) and when stopped.
        """
        if self._assigned:
            raise ClientStateError("this consumer has assigned queues: assign those that are left")
        if self._state in _STOPPED:
            raise self._not_running()
        self._member.unsubscribe(with_namespace(checked_topic(topic), self._namespace))

    def _join(self) -> None:
        if not self._joined:
            self._joined = True
            self._tasks.spawn(self._member.run(), name="rebalance")
            self._tasks.spawn(self._member.tick(), name="rebalance tick")

    async def assign(self, queues: Iterable[MessageQueue], expression: str | Sql = "*") -> None:
        """Read exactly these queues, whatever other members of the group do; replaces an earlier
        assignment.

        Raises ``ClientStateError`` after ``subscribe``, and when stopped meanwhile;
        ``RemotingError``, ``BrokerError`` when offsets cannot be asked for.
        """
        self._check_running()
        if self._member.subscriptions and not self._assigned:
            raise ClientStateError(
                "this consumer subscribes topics; subscribe and assign exclude each other"
            )
        self._assigned = True
        wanted = {wrap_queue(queue, self._namespace) for queue in checked_queues(queues)}
        now_ms = self.instance.clock.time_ms()
        after = {
            topic: subscription_of(topic, expression, now_ms)
            for topic in {queue.topic for queue in wanted}
        }
        for topic in self._member.subscriptions.keys() - after.keys():
            self._member.unsubscribe(topic)
        for subscription in after.values():
            self._member.subscribe(subscription)
        await self._member.introduce()
        others = [
            queue
            for queue, stream in self._streams.items()
            if queue not in wanted or not same_expression(stream.subscription, after[queue.topic])
        ]
        await self.give_up(others)
        for queue in sorted(wanted - set(self._streams)):
            offset = await self._start.offset(self.instance, self._member.offsets, queue)
            self._check_running()  # who stops meanwhile gives up what was taken before
            self.take(queue, offset)

    @property
    def damaged_messages(self) -> int:
        """Messages that were passed over (and named in the log) because no replica has them
        intact."""
        return self._member.damaged

    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read at present."""
        return frozenset(unwrap_queue(queue, self._namespace) for queue in self._streams)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """All readable queues of a topic. Raises ``NoRouteError``, ``RemotingError``,
        ``BrokerError``."""
        self._check_running()
        route = await self.instance.routes.get(with_namespace(topic, self._namespace))
        return unwrap_queues(route.subscribe_queues, self._namespace)

    async def on_queues_changed(
        self, topic: str, callback: Callable[[tuple[MessageQueue, ...]], None]
    ) -> None:
        """Have ``callback`` called with all readable queues of a topic whenever they are others
        than before, as far as name servers tell (``route_interval``). One callback per topic.
        Raises as ``queues``."""
        queues = await self.queues(topic)
        self._watched[with_namespace(topic, self._namespace)] = (queues, callback)

    def _route_changed(self, topic: str) -> None:
        before, callback = self._watched.get(topic, (None, None))
        route = self.instance.routes.cached(topic)
        if (
            callback is None
            or route is None
            or (queues := unwrap_queues(route.subscribe_queues, self._namespace)) == before
        ):
            return
        self._watched[topic] = (queues, callback)
        with UserCode() as code:
            callback(queues)
        code.log_failure(
            log, "callback for changed queues failed group=%s topic=%s", self.group, topic
        )

    # --- messages
    # ----------------------------------------------------------------------------------------------

    async def poll(self, timeout: float = 5.0, max_messages: int = 32) -> list[MessageExt]:
        """Up to ``max_messages`` that are there, else those that come first, else none after
        ``timeout`` seconds.

        What an earlier ``poll`` returned counts as done now. Raises ``ClientStateError`` when not
        running, and while nothing is subscribed or assigned; once ``ExpressionRefused`` for an SQL
        expression that was subscribed while running and that no broker filters by.
        """
        self._check_reading()
        number("timeout", timeout)
        positive("max_messages", max_messages)
        self.mark_done()
        if not self._streams.ready and not await self._wait(timeout):
            return []
        return self._streams.take(max_messages)

    async def __aiter__(self) -> AsyncIterator[MessageExt]:
        """Messages without end. One counts as done when the next one is asked for."""
        self._check_reading()
        self.mark_done()
        streams = self._streams
        while streams.ready or await self._wait(None):
            stream = streams.turn()
            epoch = stream.epoch
            for _ in range(_TURN):
                if stream.epoch != epoch or stream.paused or streams.held:
                    break
                if (message := stream.pop()) is None:
                    break
                yield message
                if stream.epoch == epoch:
                    stream.done = stream.delivered
            streams.room.look()
            if stream.epoch == epoch:
                streams.turn_over(stream)

    async def _wait(self, timeout: float | None) -> bool:
        """Until a message is there. False: none came in time, or the consumer was stopped."""
        self.instance.check_loop()
        if self._program is not None:
            self._program.look()
        try:
            async with asyncio.timeout(timeout):
                await self._streams.wait(lambda: self._state == "running")
        except TimeoutError:
            return False
        return self._state == "running"

    def take_back(self, messages: list[MessageExt]) -> None:
        """What ``poll`` returned has reached nobody: it is handed out again, and not committed
        before."""
        for queue, some in groupby(messages, lambda message: message.queue):
            stream = self._streams.get(wrap_queue(queue, self._namespace))
            if stream is not None:
                stream.take_back(list(some))

    def mark_done(self) -> None:
        """Everything that was handed out counts as consumed."""
        self._streams.mark_done()

    @property
    def in_hand(self) -> bool:
        """Something was handed out that does not count as consumed yet."""
        return self._streams.in_hand

    def hold(self) -> None:
        """Hand out nothing more."""
        self._streams.hold()

    def _check_running(self) -> None:
        if self._state != "running":
            raise self._not_running()

    def _not_running(self) -> ClientStateError:
        if self._state in _STOPPED:
            return ClientStateError(f"the consumer {self.group} is stopped: make a new one")
        return ClientStateError(
            f"the consumer {self.group} is {self._state}: use it inside of 'async with', or start "
            "it"
        )

    def _check_reading(self) -> None:
        self._check_running()
        if (refused := self._member.refused) is not None:
            self._member.refused = None
            raise refused
        if not self._assigned and not self._member.subscriptions:
            self.instance.check_loop()
            raise ClientStateError(
                f"the consumer {self.group} reads nothing: give topics to PullConsumer(group, "
                "*topics), or use subscribe or assign"
            )

    # --- offsets
    # ----------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Tell the brokers how far the group got, and wait for their answers.

        Default: everything that was handed out. An offset is that of the next message to read. A
        broadcasting consumer's are in its file then. Raises ``RemotingError``, ``BrokerError``,
        ``OSError``.
        """
        if self._state != "stopping":  # then it is on_revoke that asks
            self._check_running()
        if offsets is None:
            self.mark_done()
            wanted = {
                queue: stream.done
                for queue, stream in self._streams.items()
                if not stream.pulling.is_gone
            }
        else:
            wanted = {
                wrap_queue(queue, self._namespace): offset
                for queue, offset in checked_offsets(offsets).items()
            }
        for queue, offset in wanted.items():
            self._member.offsets.update(queue, offset, only_forwards=False)
        await self._member.offsets.commit(wanted)

    async def committed(self, queue: MessageQueue) -> int | None:
        """What the broker has of the group for this queue. Raises ``RemotingError``,
        ``BrokerError``."""
        self._check_running()
        return await self._member.offsets.fetch(wrap_queue(queue, self._namespace))

    def position(self, queue: MessageQueue) -> int:
        """Offset of the next message that will be handed out. Raises ``ClientStateError`` when the
        queue is not ours."""
        return self._stream(queue).delivered

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at ``offset``.

        Raises ``ClientStateError`` when the queue is not ours, ``ConfigError`` for an offset that
        it does not have, ``RemotingError``, ``BrokerError``.
        """
        stream = self._stream(queue)
        number("an offset", offset)
        low, high = (
            await min_offset(self.instance, stream.queue),
            await max_offset(self.instance, stream.queue),
        )
        if not low <= offset <= high:
            raise ConfigError(f"offset {offset} is not in {queue}: it has {low} to {high}")
        self._move(stream, offset)

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on with the oldest message of these queues (default: all). Raises as ``seek``."""
        for queue in (wrap_queue(each, self._namespace) for each in queues or tuple(self._streams)):
            self._move(self._stream(queue), await min_offset(self.instance, queue))

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on with what arrives from now on (default: all queues). Raises as ``seek``."""
        for queue in (wrap_queue(each, self._namespace) for each in queues or tuple(self._streams)):
            self._move(self._stream(queue), await max_offset(self.instance, queue))

    async def offset_for_time(self, queue: MessageQueue, when: datetime) -> int:
        """Offset of the first message stored at or after that time. Raises ``RemotingError``,
        ``BrokerError``."""
        self._check_running()
        return await offset_at(
            self.instance, wrap_queue(queue, self._namespace), milliseconds(when)
        )

    def pause(self, *queues: MessageQueue) -> None:
        """Hand out nothing of these queues until ``resume``; what was pulled stays."""
        for stream in map(self._stream, queues):
            self._streams.pause(stream)

    def resume(self, *queues: MessageQueue) -> None:
        """Hand out again."""
        for stream in map(self._stream, queues):
            self._streams.resume(stream)

    def _stream(self, queue: MessageQueue) -> PullStream:
        self._check_running()
        checked_queues((queue,))
        stream = self._streams.get(wrap_queue(queue, self._namespace))
        if stream is None:
            raise self._not_assigned(queue)
        return stream

    def _not_assigned(self, queue: MessageQueue) -> ClientStateError:
        return ClientStateError(f"{queue} is not assigned to this consumer at present")

    def _move(self, stream: PullStream, offset: int) -> None:
        """Raises ``ClientStateError`` when the queue is not ours any more."""
        self._check_running()
        if self._streams.get(stream.queue) is not stream:
            raise self._not_assigned(unwrap_queue(stream.queue, self._namespace))
        self._streams.withdraw(stream)
        stream.restart_at(offset, self._tasks)

    async def _commit_regularly(self) -> None:
        while True:
            await self.instance.clock.sleep(self._options.commit_interval)
            await self._persist(list(self._streams.values()))

    async def _persist(self, streams: list[PullStream]) -> None:
        for stream in streams:
            if not stream.pulling.is_gone:
                self._member.offsets.update(stream.queue, stream.done, only_forwards=False)
        await self._member.offsets.persist(stream.queue for stream in streams)

    # --- queues come and go (QueueOwner)
    # ----------------------------------------------------------------------------

    def take(self, queue: MessageQueue, offset: int) -> None:
        stream = PullStream(
            PullRequest(
                self._member,
                queue,
                self._member.subscriptions[queue.topic],
                self._settings,
                offset,
            ),
            max_messages=self._options.max_cached,
            max_bytes=self._options.max_cached_bytes,
            announce=self._streams.announce,
            shared=self._streams.room,
            tracer=self._tracer,
        )
        self._streams[queue] = stream
        stream.start(self._tasks)

    async def give_up(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        ours = [queue for queue in queues if queue in self._streams]
        for queue in ours:
            self._streams.pause(self._streams[queue])
        await self._member.callbacks.revoked(ours)
        gone = [each for queue in ours if (each := self._streams.pop(queue, None)) is not None]
        for stream in gone:
            stream.drop()
        if self._options.auto_commit:
            await self._persist(gone)
        return queues

    def stalled(self) -> list[MessageQueue]:
        return [queue for queue, stream in self._streams.items() if stream.pulling.stalled()]

    # --- what the instance asks (ConsumerMember)
    # --------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        return self._member.consumer_data

    def wake_rebalance(self) -> None:
        self._member.wake()

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            if queue in self._streams and self._state == "running":
                self._move(self._streams[queue], offset)

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        return {
            queue: stream.done for queue, stream in self._streams.items() if queue.topic == topic
        }

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult | None:
        return None  # there is no handler that could

    def running_info(self) -> ConsumerRunningInfo:
        return running_info(
            self.consumer_data(),
            {queue: stream.info() for queue, stream in self._streams.items()},
            self.instance.name_servers.addresses,
            self._started_ms,
            1,
        )
