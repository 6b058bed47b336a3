"""Consuming with a handler (client.md §4; class DefaultMQPushConsumer).

::

    consumer = PushConsumer("billing", namesrv="ns1:9876")
    consumer.subscribe("Order", "new || changed")

    @consumer.on_message
    async def handle(message: MessageExt) -> None: ...

    await consumer.run()

The members of a group share the queues of the topics. A handler that returns has consumed its
message; one that raises gets it again after 10 s, 30 s, 1 min, ... (the broker keeps it in the
group's retry topic), and after ``max_reconsume_times`` it goes to the dead letter queue. Messages
may come twice: after a crash, and when queues move to another member.

Handlers run side by side, ``concurrency`` of them, so the order of a queue is not kept. With
``ordered=True`` it is: of one queue one message after the other, at one member of the group only;
one that fails stops its queue and is tried again after ``suspend_queue`` seconds. With
``model=MessageModel.BROADCASTING`` every member gets every message, and none a second time.

One file, though a long one, for one idea: the consumer as its user, its group and its instance see
it. What it is made of (pulling, consuming, offsets, locks) has files of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, closing
from typing import Final, TypeVar, Unpack

from ...daemon.stop_signals import StopSignals
from ...remoting.protocol.bodies.heartbeat import ConsumerData, ConsumeType
from ...remoting.protocol.bodies.running_info import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import is_retry_topic, retry_topic
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet
from ..cluster.instance import ClientInstance, instance_for
from ..errors import ClientStateError, ConfigError
from ..handlers import BatchHandler, Call, Handler, MessageHandler, failure_of, is_to_end
from ..lifecycle import Startable
from ..namespaces import unwrap_queue, with_namespace, without_namespace
from ..offsets.start_offset import StartPolicy
from ..options import settings_of, takes
from ..producer.batches import DEFAULT_MAX_BYTES
from ..producer.delivery import SEND_TIMEOUT, Delivery
from ..producer.message_ids import next_message_id
from ..producer.request_reply import reply_to
from ..producer.sending import SendResult
from ..serialization import Serializer, ValueHandler
from ..usage_errors import check_handler, checked_group, checked_topic
from .consume_hooks import ConsumeHooks
from .consume_stats import ConsumeStats
from .consumption import ConcurrentConsumption, Consumption
from .group_member import GroupMember
from .options import WITHOUT_END, PushConsumerOptions, PushConsumerSettings
from .ordered_consumption import OrderedConsumption, OrderedRetries
from .owned_queue import OwnedQueue, restore_topics
from .pulling import PullRequest
from .queue_locks import QueueLocks
from .running_info import direct_result, running_info
from .send_back import INNER_PRODUCER_GROUP, SendBack
from .subscription import Sql, subscription_of, tag_subscription

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
M = TypeVar("M", bound=MessageHandler)
B = TypeVar("B", bound=BatchHandler)


class PushConsumer(Startable):
    """Calls a handler for every message of the subscribed topics. Times are seconds. ``namesrv=``
    and what else all clients take: see ``options.ClientOptions``.

    ``start_from`` (and ``start_time``): where a group begins that is new. ``concurrency``: handlers
    running at a time. ``batch_size``: messages that an ``on_batch`` handler gets at most.
    ``max_reconsume_times``: -1 is 16. Of one queue at most about ``cache`` is held; pulls that
    bring something are ``pull_interval`` apart. ``post_subscription``: every pull tells what is
    subscribed, not only the heartbeat. ``consume_timeout``: a message that a handler has for longer
    is given back, so that those behind it count (with ``ordered`` there is only a line in the log).
    ``stop_timeout``: how long ``stop`` waits for handlers that still run. ``offset_folder``: where
    a broadcasting consumer keeps how far it got (``client/offsets/local_offsets.py``). ``trace``:
    tell in a topic what was consumed when, as the producer's ``trace``. ``hooks`` and ``filters``:
    see ``client/consumer/consume_hooks.py``. ``on_assign`` is told queues that have become ours,
    before anything of them is read; ``on_revoke`` those that are about to go, before their offsets
    are told and their locks let go (with ``ordered``: when their handlers have ended). Both are
    awaited, for 30 s at most.
    """

    @takes(PushConsumerSettings)
    def __init__(self, group: str, **options: Unpack[PushConsumerOptions]) -> None:
        settings, others = settings_of(PushConsumerSettings, options)
        self._options = settings
        self._owns_instance = settings.instance is None
        self.instance: ClientInstance = instance_for(self, settings.instance, others)
        self._namespace = self.instance.namespace
        self.group: str = with_namespace(checked_group(group), self._namespace)
        """As the cluster knows it, with the namespace."""
        self.ordered: bool = settings.ordered
        self._cache = settings.cache_limits
        self._settings = settings.pulling
        self._file = settings.local_offsets(self.instance, self.group)
        self._tracer = settings.tracer(self.instance, self.group)
        self._hooks = ConsumeHooks(
            without_namespace(self.group, self._namespace),
            settings.hooks,
            self._tracer,
            self.instance.clock,
            settings.consume_timeout,
            self.instance.client_id,
        )
        self._stats = ConsumeStats()
        now_ms = self.instance.clock.time_ms()
        self._started_ms = now_ms
        self._locks = (
            QueueLocks(self.instance, self.group)
            if settings.ordered and not settings.broadcasting
            else None
        )
        self._member = GroupMember(
            self.instance,
            self.group,
            self,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            allocate=settings.allocate,
            start=StartPolicy(settings.start_from, settings.start_time, now_ms),
            broadcast_offsets=self._file,
            locks=self._locks,
        )
        self._member.callbacks = settings.callbacks(self.instance, self.group)
        self._replies = Delivery(self.instance, INNER_PRODUCER_GROUP)
        self._queues: dict[MessageQueue, OwnedQueue] = {}
        self._gate = asyncio.Event()
        self._gate.set()
        self._tasks = TaskSet(f"consumer {self.group}")
        self._workers = TaskSet(f"consumer {self.group}")
        self._worker_tasks: list[asyncio.Task[None]] = []
        self._function: MessageHandler | BatchHandler | None = None
        self._takes_batch = False
        self._handler: Handler | None = None
        self._call: Call | None = None
        self._consumption: Consumption | None = None
        self._registered = False
        self._state = "new"

    # --- what to do
    # ----------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Consume this topic: all of it, messages with one of the tags of ``"TagA || TagB"``, or
        those for which an ``Sql`` expression is true. Also while running.

        Raises ``ConfigError``, ``ClientStateError`` when stopped.
        """
        if self._state == "stopped":
            raise ClientStateError(f"the consumer {self.group} is stopped: make a new one")
        topic = with_namespace(checked_topic(topic), self._namespace)
        self._member.subscribe(subscription_of(topic, expression, self.instance.clock.time_ms()))

    def unsubscribe(self, topic: str) -> None:
        """Consume this topic no more."""
        self._member.unsubscribe(with_namespace(topic, self._namespace))

    def on_message(self, handler: M) -> M:
        """The handler for single messages; can be used as a decorator. Raises ``ConfigError`` for
        what cannot be one."""
        self._set_handler(handler, takes_batch=False)
        return handler

    def on_batch(self, handler: B) -> B:
        """The handler for lists of up to ``batch_size`` messages of one queue; they succeed or come
        again together."""
        self._set_handler(handler, takes_batch=True)
        return handler

    def on_value(self, serializer: Serializer[T]) -> Callable[[ValueHandler[T]], ValueHandler[T]]:
        """Decorator: the handler for single messages, called with the value that the serializer
        reads and with the message that it came in. A body that cannot be read is a dead letter at
        once. Raises ``ConfigError`` for what cannot be a handler, and without serializer."""
        if not isinstance(serializer, Serializer):
            raise ConfigError(
                "on_value takes a serializer, as in @consumer.on_value(JsonSerializer(Order)), "
                f"not {serializer!r}"
            )

        def take(handler: ValueHandler[T]) -> ValueHandler[T]:
            self.on_message(serializer.handler(handler))
            return handler

        return take

    def _set_handler(self, handler: MessageHandler | BatchHandler, *, takes_batch: bool) -> None:
        check_handler(handler, "a list of messages" if takes_batch else "one message")
        if self._function is not None:
            raise ClientStateError(f"the consumer {self.group} has a handler already")
        self._function, self._takes_batch = handler, takes_batch

    # --- life
    # ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin.

        Raises ``ClientStateError`` without handler or subscription, or when started before,
        ``RemotingError`` when no name server answers, ``ExpressionRefused``, ``ConfigError`` when a
        broadcasting consumer cannot read its offsets.
        """
        if self._state != "new":
            raise ClientStateError(f"the consumer {self.group} is {self._state}: make a new one")
        if self._function is None:
            raise ClientStateError(
                f"the consumer {self.group} has no handler: use on_message or on_batch"
            )
        if not self._member.subscriptions:
            raise ClientStateError(f"the consumer {self.group} subscribes nothing: use subscribe")
        self._state = "running"
        self._started_ms = self.instance.clock.time_ms()
        self._handler = Handler(
            self._function,
            takes_batch=self._takes_batch,
            concurrency=self._options.concurrency,
            name=self.group,
        )
        self._call = self._handler.call
        if self._hooks:
            self._call = self._hooks.around(self._handler.call, self._is_closed)
        self._consumption = self._new_consumption(self._call)
        if not self._member.broadcasting:
            self._member.subscribe(tag_subscription(retry_topic(self.group), "*", self._started_ms))
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            if self._owns_instance:
                await self.instance.start()
            if self._file is not None:
                await self._file.check()
            self.instance.register_consumer(self)
            self._registered = True
            await self._member.introduce()
            undo.pop_all()
        self._worker_tasks = [
            self._workers.spawn(self._work(self._consumption), name=f"worker {number}")
            for number in range(self._options.concurrency)
        ]
        self._tasks.spawn(self._close_at_the_end(self._consumption), name="end")
        self._tasks.spawn(self._member.run(), name="rebalance")
        self._tasks.spawn(self._member.tick(), name="rebalance tick")
        self._tasks.spawn(self._persist(), name="offsets")
        self._tasks.spawn(self._stats.run(self.instance.clock), name="rates")
        if self._tracer is not None:
            self._tasks.spawn(self._tracer.run(), name="trace")
        if self._locks is not None:
            self._tasks.spawn(self._locks.renew(lambda: self._member.owned), name="queue locks")
        watch = self._consumption.watch_timeouts(self._queues.values, self._options.consume_timeout)
        self._tasks.spawn(watch, name="consume timeout")

    def _new_consumption(self, call: Call) -> Consumption:
        """How this consumer's messages get to its handler."""
        clock, batch_size = (
            self.instance.clock,
            self._options.batch_size if self._takes_batch else 1,
        )
        if not self.ordered:
            send_back = (
                None
                if self._member.broadcasting
                else SendBack(self.instance, self.group, self._options.max_reconsume_times)
            )
            return ConcurrentConsumption(
                self.group, call, send_back, clock, self._tasks, batch_size=batch_size
            )
        limit = (
            self._options.max_reconsume_times
            if self._options.max_reconsume_times >= 0
            else WITHOUT_END
        )
        return OrderedConsumption(
            self.group,
            call,
            self._holds_lock if self._locks is not None else None,
            OrderedRetries(
                self._options.suspend_queue,
                limit,
                SendBack(self.instance, self.group, limit).to_dead_letters,
            ),
            clock,
            self._tasks,
            batch_size=batch_size,
        )

    def _is_closed(self) -> bool:
        return self._consumption is None or self._consumption.closed()

    async def _work(self, consumption: Consumption) -> None:
        """One worker. A handler that has its task cancelled by a timer may have ended before."""
        while not consumption.closed():
            try:
                await consumption.work()
            except asyncio.CancelledError:
                if await is_to_end(consumption.closed):
                    raise

    async def _close_at_the_end(self, consumption: Consumption) -> None:
        """Service: a program that ends without ``stop`` cancels its tasks, workers among them."""
        with closing(consumption):
            await asyncio.get_running_loop().create_future()

    def suspend(self) -> None:
        """Pull nothing more until ``resume``; what was pulled is still consumed, the queues stay
        ours."""
        self._gate.clear()

    def resume(self) -> None:
        """Pull again."""
        self._gate.set()

    async def stop(self) -> None:
        """Pull no more, wait for running handlers (``stop_timeout``), tell the brokers how far we
        got, leave the group.

        What was pulled and not yet given to a handler comes again, here or at another member.
        """
        if self._state != "running":
            return
        self._state = "stopped"
        async with (
            AsyncExitStack() as last
        ):  # backwards; a step that is cancelled does not take the others along
            if self._owns_instance:
                last.push_async_callback(self.instance.stop)
            elif self._registered:
                last.push_async_callback(self.instance.unregister_consumer, self.group)
            if self._tracer is not None:
                last.push_async_callback(self._tracer.close)
            last.push_async_callback(self._tasks.close)
            last.callback(self._member.callbacks.close)
            last.push_async_callback(self._member.release_all)
            if self._handler is not None:
                last.callback(self._handler.close)
            last.push_async_callback(self._workers.close)
            if self._consumption is not None:
                last.callback(self._consumption.close)
            await self._tasks.close()
            await self._drain()

    async def _drain(self) -> None:
        """Wait for handlers that run."""
        if self._consumption is not None:
            self._consumption.close()
        running = [task for task in self._worker_tasks if task is not asyncio.current_task()]
        if running and (await asyncio.wait(running, timeout=self._options.stop_timeout))[1]:
            log.warning(
                "handlers still run after %g s and are cancelled group=%s",
                self._options.stop_timeout,
                self.group,
            )

    async def run(self) -> None:
        """Start, consume until cancelled, or until SIGTERM or Ctrl-C comes
        (``daemon/stop_signals.py``), stop."""
        with StopSignals() as signals:
            async with AsyncExitStack() as stack:
                with signals.cancelling():
                    await stack.enter_async_context(self)
                    await asyncio.get_running_loop().create_future()

    async def reply(
        self,
        to: MessageExt,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float = SEND_TIMEOUT,
    ) -> SendResult:
        """Answer a request (``Producer.request``) that came as a message: returns when the
        requester has the reply.

        Raises ``MessageError`` when ``to`` is no request, ``SendFailed`` when the requester is not
        there any more, ``NoRouteError``, ``RemotingError``, ``BrokerError``.
        """
        outgoing = reply_to(
            to, body, properties, next_message_id(self.instance.clock.time_ms()), DEFAULT_MAX_BYTES
        )
        return await self._replies.deliver(outgoing, None, timeout)

    @property
    def damaged_messages(self) -> int:
        """Messages that were passed over (and named in the log) because no replica has them
        intact."""
        return self._member.damaged

    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are ours at present, those of the retry topic included."""
        return frozenset(unwrap_queue(queue, self._namespace) for queue in self._queues)

    # --- queues come and go (QueueOwner)
    # ----------------------------------------------------------------------------

    def take(self, queue: MessageQueue, offset: int) -> None:
        assert self._consumption is not None
        owned = OwnedQueue(
            PullRequest(
                self._member,
                queue,
                self._member.subscriptions[queue.topic],
                self._settings,
                offset,
            ),
            self._cache.share(len(self._queues) + 1),
            self._consumption.submit,
            self._gate,
            self._stats.of(without_namespace(queue.topic, self._namespace)),
        )
        self._queues[queue] = owned
        self._share_cache()
        owned.start(self._tasks)

    def _share_cache(self) -> None:
        limits = self._cache.share(len(self._queues))
        for owned in self._queues.values():
            owned.limits = limits

    def stalled(self) -> list[MessageQueue]:
        return [queue for queue, owned in self._queues.items() if owned.pulling.stalled()]

    async def give_up(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        ours = [queue for queue in queues if queue in self._queues]
        left = await asyncio.gather(*(self._leave(queue, self._queues[queue]) for queue in ours))
        stay = {queue for queue, free in zip(ours, left, strict=True) if not free}
        given = [queue for queue in queues if queue not in stay]
        self._share_cache()
        await self._member.callbacks.revoked(given)
        if self._locks is None:
            await self._member.offsets.persist(given)
        # an offset of ours must not overwrite that of somebody who has, or had, the lock meanwhile
        else:
            held = await self._locks.those_held(given)
            await self._member.offsets.persist(
                [queue for queue in held if queue not in self._member.lost]
            )
        return given

    async def _leave(self, queue: MessageQueue, owned: OwnedQueue) -> bool:
        """Whether it could be left. Nothing is pulled from then on: others may have to wait for a
        handler, and what came meanwhile would be handled in front of what was thrown away.
        """
        assert self._consumption is not None
        if not await self._consumption.leave(owned):
            owned.tries_to_leave += 1
            return False
        if self._queues.get(queue) is owned:
            del self._queues[queue]
        owned.drop()
        return True

    async def _persist(self) -> None:
        while True:
            await self.instance.clock.sleep(self._options.commit_interval)
            told = None
            if self._locks is not None:
                told = [queue for queue in self._queues if self._member.may_tell(queue)]
            await self._member.offsets.persist(told)

    async def _holds_lock(self, queue: MessageQueue) -> bool:
        """What we have of a queue that somebody else had meanwhile is history."""
        assert self._locks is not None
        return queue not in self._member.lost and await self._locks.hold(queue)

    # --- what the instance asks (ConsumerMember)
    # --------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        return self._member.consumer_data

    def wake_rebalance(self) -> None:
        self._member.wake()
        if self._locks is not None:
            self._locks.doubt()

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> None:
        moved = (
            [queue for queue in offsets if queue in self._queues]
            if self._state == "running"
            else []
        )
        for queue in moved:
            self._queues[queue].restart_at(offsets[queue], self._tasks)
        if moved:
            self._tasks.spawn(self._member.offsets.persist(moved), name="reset offsets")

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        return self._member.offsets.of_topic(topic)

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult | None:
        if self._call is None:
            return None
        restore_topics([message], retried=is_retry_topic(message.topic), namespace=self._namespace)
        clock = self.instance.clock
        began = clock.monotonic()
        failure = await failure_of(
            self._call, [message], self.group, self.instance.outages, self._is_closed
        )
        return direct_result(
            failure, round((clock.monotonic() - began) * 1000), ordered=self.ordered
        )

    def running_info(self) -> ConsumerRunningInfo:
        return running_info(
            self.consumer_data(),
            {queue: owned.info(self._locks) for queue, owned in self._queues.items()},
            self.instance.name_servers.addresses,
            self._started_ms,
            self._options.concurrency,
            ordered=self.ordered,
            status=self._stats.status(),
            options={
                "consumeThreadMin": self._options.concurrency,
                "consumeThreadMax": self._options.concurrency,
                "consumeMessageBatchMaxSize": self._options.batch_size if self._takes_batch else 1,
                "pullBatchSize": self._settings.batch_size,
                "pullInterval": round(self._settings.interval * 1000),
                "pullThresholdForQueue": self._cache.messages,
                "pullThresholdSizeForQueue": self._cache.size_bytes >> 20,
                "consumeConcurrentlyMaxSpan": self._cache.span,
                "maxReconsumeTimes": self._options.max_reconsume_times,
                "consumeTimeout": round(self._options.consume_timeout / 60),
                "suspendCurrentQueueTimeMillis": round(self._options.suspend_queue * 1000),
                "namespace": self._namespace or "",
                "pause": str(not self._gate.is_set()).lower(),
            },
        )
