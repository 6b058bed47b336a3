"""Sending messages (client.md §3; class DefaultMQProducer).

::

    async with Producer("orders", namesrv="ns1:9876") as producer:
        order = Message("Order", b"...", tags="new", keys=["42"])
        result = await producer.send(order, sharding_key=42)

Many sends may be under way at once: ``await asyncio.gather(...)`` over ``send``, or ``send_soon``.
Everything that is sent in one turn of the event loop leaves in one write per broker. A send that is
cancelled, that timed out or whose connection was lost may still have been stored: consumers must be
able to see a message twice.

One file, though a long one, for one idea: all ways of sending, from a caller's arguments to what
``delivery.py`` or ``fast_path.py`` takes, with the life of what they use.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from threading import get_ident
from typing import Unpack, cast

import msgspec

from ...remoting.errors import BrokerError, RemotingError, TooManyRequestsError
from ...remoting.protocol.commands.send import SendMessageResponse
from ...remoting.protocol.message.compression import compress_body
from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.responses import Response
from ...remoting.services import TaskSet, happens_within
from ..cluster.instance import ClientInstance, instance_for
from ..errors import Attempt, ClientStateError, ConfigError, MessageError, ReplyTimeout
from ..lifecycle import Startable
from ..namespaces import (
    unwrap_queue,
    unwrap_queues,
    with_namespace,
    without_namespace,
    wrap_queue,
)
from ..options import settings_of, takes
from ..usage_errors import checked_group, message_problem, number, positive, queue_problem
from .batches import Accumulator
from .delivery import Delivery
from .fast_path import SEND, FastPath, SendTarget
from .fault_latency import FaultLatency
from .hooks import SendHooks, WatchedSend
from .message_ids import next_message_id
from .options import ProducerOptions, ProducerSettings
from .queue_choice import QueueSelector, choose_by_key
from .request_reply import learn_reply_routes, new_correlation_id, reply_to, request_properties
from .sending import Outgoing, SendResult, batch, send_result, single
from .sequenced import SequencedDelivery
from .sequences import check_sequenced
from .trace import Tracer, trace_topic

_COMPRESS_INLINE = 32 << 10
"""Longer bodies are compressed in a thread: the loop must not stand still for more than a
millisecond."""


class Producer(Startable):
    """Sends messages for one producer group. ``namesrv=`` and what else all clients take: see
    ``options.ClientOptions``.

    ``send_timeout`` (seconds) is the time for a send in all, retries included. ``retries`` counts
    further attempts on other brokers after a failure; a message that is bound to a queue has one
    attempt. ``retry_patience`` (seconds since the send began): until then there are more of both,
    with pauses, so that a broker may be restarted meanwhile; default 0.
    ``retry_other_broker_on_not_ok`` also tries again when a message was stored but less safely than
    asked; ``retry_codes`` are further answers to try again after. Bodies of ``compress_over`` bytes
    and more are compressed (``compression``, ``compress_level``), longer ones than
    ``max_message_size`` refused. A topic that does not exist gets up to ``topic_queue_nums`` queues
    on each broker that offers ``template_topic``.

    ``latency_fault``: keep away from slow brokers for a while, see ``fault_latency``. ``trace``:
    tell what was sent in the topic RMQ_SYS_TRACE_TOPIC, or in the one given. ``hooks`` look at
    every attempt, ``checks`` may forbid it, see ``hooks``. ``accumulate``: gather single messages
    into batches. ``idempotent``: a lost answer never doubles a message, see ``sequenced``.
    """

    @takes(ProducerSettings)
    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        settings, others = settings_of(ProducerSettings, options)
        self._owns_instance = settings.instance is None
        self.instance: ClientInstance = instance_for(self, settings.instance, others)
        self._namespace = self.instance.namespace
        self._monotonic = self.instance.clock.monotonic
        self.group: str = with_namespace(checked_group(group), self._namespace)
        """As the cluster knows it, with the namespace."""
        self.send_timeout: float = settings.send_timeout
        self._compress_over = settings.compress_over
        self._compress_level = settings.compress_level
        self._compression = settings.compression_flag
        self._max_size = settings.max_message_size
        topic = trace_topic(settings.trace)
        self._tracer = (
            Tracer(self.instance, self.group, "PRODUCE", topic) if topic is not None else None
        )
        looking_on = (*settings.hooks, self._tracer) if self._tracer is not None else settings.hooks
        self._hooks = SendHooks(looking_on, settings.checks)
        hooks, self._idempotent = self._hooks or None, settings.idempotent
        self._delivery: Delivery = (
            SequencedDelivery(self.instance, self.group, settings.delivery, hooks=hooks)
            if self._idempotent
            else Delivery(
                self.instance,
                self.group,
                settings.delivery,
                faults=FaultLatency(random.randrange(1 << 16), random.shuffle)
                if settings.latency_fault
                else None,
                hooks=hooks,
            )
        )
        self._tasks = TaskSet(f"producer {self.group}")
        self._accumulator = (
            Accumulator(
                settings.accumulate, self._deliver, self.instance.clock, self._tasks, self._max_size
            )
            if settings.accumulate is not None
            else None
        )
        self._soon: set[asyncio.Task[SendResult]] = set()
        self.fast_path: FastPath | None = None
        """The fast path, while running; it takes messages that are neither gathered nor
        compressed."""
        self._thread = 0
        """Of the event loop. Where it runs there, no other one does, and ``check_loop`` can be left
        out: in Python 3.11 it has to ask the system, which takes a tenth of a send."""
        self._loop_runs: Callable[[], bool] = bool
        self._running: bool | None = None
        """None: not yet."""

    # --- life
    # ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to nothing yet, but be ready. Raises ``ClientStateError`` when started twice."""
        if self._owns_instance:
            await self.instance.start()
        self.instance.register_producer(self.group)
        self._thread, self._loop_runs = get_ident(), asyncio.get_running_loop().is_running
        if self._tracer is not None:
            self._tasks.spawn(self._tracer.run(), name="trace")
        if self._accumulator is None:
            self.fast_path = self._delivery.fast_path(min(self._compress_over, self._max_size + 1))
        self._running = True

    async def stop(self) -> None:
        """Wait for what has begun, also by ``send_soon``, then take leave of the brokers."""
        if not self._running:
            return
        self._running = False
        self.fast_path = None
        async with AsyncExitStack() as last:  # what is cancelled is cut short, the rest is done
            if self._owns_instance:
                last.push_async_callback(self.instance.stop)
            else:
                last.push_async_callback(self.instance.unregister_producer, self.group)
            last.push_async_callback(self._tasks.close)
            if self._tracer is not None:
                last.push_async_callback(self._tracer.close)
            last.callback(self._give_up_soon)
            if self._accumulator is not None:
                await self._accumulator.close()
            if self._soon:
                await asyncio.wait(self._soon)

    def _give_up_soon(self) -> None:
        for task in self._soon:
            task.cancel()

    # --- sending
    # ----------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send one message, or a list of messages of one topic as one frame, and wait until a
        broker has it.

        At most one of: ``queue`` sends there; ``selector`` chooses a queue; ``sharding_key`` sends
        equal keys to the same queue (Java's rule). Without them the queues take turns. ``timeout``
        in seconds, for everything.

        Raises ``MessageError`` (cannot be sent as it is), ``NoRouteError`` (no such topic),
        ``SendFailed`` (no broker took it), ``SendTimedOut`` (also a ``TimeoutError``),
        ``BrokerError`` (refused for a reason that others would have too).
        """
        written = self._written(message, queue, selector, sharding_key, timeout)
        if written is not None:
            target, msg_id, began, answer = written
            try:
                return send_result(await answer, msg_id, target.queue, target.address)
            except (RemotingError, BrokerError) as error:
                failed = target.failed(error, self._monotonic() - began)
            is_bound = sharding_key is not None or queue is not None
            bound = target.queue if is_bound else None
            return await self.send_again(message, msg_id, bound, timeout, failed)  # type: ignore[arg-type]
        if self._accumulator is not None and _is_plain(queue, selector, sharding_key, timeout):
            gathered = self._gathered(message)
            if gathered is not None:
                return await gathered
        return await self._send(
            self._outgoing(message), message, queue, selector, sharding_key, timeout
        )

    def _written(
        self,
        message: Message | Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | int | None,
        timeout: float | None,
    ) -> tuple[SendTarget, str, float, asyncio.Future[Response | SendMessageResponse]] | None:
        """The fast path: the message has been sent; to which target, with which id, when, and the
        answer to come. None: it has to go the general path. Raises ``MessageError``."""
        fast_path = self.fast_path
        if fast_path is None or selector is not None or not isinstance(message, Message):
            return None
        if get_ident() != self._thread or not self._loop_runs():
            self.instance.check_loop()
        try:
            prepared = fast_path.prepare(message, sharding_key, queue)
        except AttributeError:
            if queue_problem(queue) is None:
                raise
            return None
        if prepared is None:
            return None
        target, opaque, header, msg_id = prepared
        connection = target.connection
        if connection is None or connection.closed:
            connection = target.connection = self.instance.remoting.connected_to(target.address)
            if connection is None:
                return None
        seconds = self.send_timeout if timeout is None else number("timeout", timeout)
        if seconds <= 0:
            return None
        began = self._monotonic()
        try:
            return (
                target,
                msg_id,
                began,
                connection.invoke_encoded(SEND, opaque, header, message.body, seconds),
            )
        except TooManyRequestsError:
            return None

    async def _answered(
        self,
        message: Message,
        is_bound: bool,
        timeout: float | None,
        target: SendTarget,
        msg_id: str,
        began: float,
        answer: asyncio.Future[Response | SendMessageResponse],
    ) -> SendResult:
        try:
            return send_result(await answer, msg_id, target.queue, target.address)
        except (RemotingError, BrokerError) as error:
            failed = target.failed(error, self._monotonic() - began)
        bound = target.queue if is_bound else None
        return await self.send_again(message, msg_id, bound, timeout, failed)

    async def send_again(
        self,
        message: Message,
        msg_id: str,
        bound: MessageQueue | None,
        timeout: float | None,
        failed: Attempt,
    ) -> SendResult:
        """For the blocking client, too: what is left to do after the first attempt of a plain
        message has failed. One that is ``bound`` to a queue had one only, unless its group has
        another master now: it goes to the same queue there."""
        outgoing = single(message, msg_id, self._max_size)
        return await self._delivery.deliver(
            outgoing, bound, self.send_timeout if timeout is None else timeout, failed=failed
        )

    def _gathered(self, message: Message | Sequence[Message]) -> asyncio.Future[SendResult] | None:
        """The result of a message that may share a frame with others."""
        assert self._accumulator is not None
        self._check_running()
        if not isinstance(message, Message) or len(message.body) >= self._compress_over:
            return None
        if not self._accumulator.takes(message):
            return None
        msg_id = next_message_id(self.instance.clock.time_ms())
        add = self._accumulator.add
        watched = self._begin(message, half=False)
        if watched is None:
            return add(self._in_cluster(message), msg_id, given=message)
        future = watched.made(
            message, lambda marked: add(self._in_cluster(marked), msg_id, given=message)
        )
        future.add_done_callback(partial(_end, watched))
        return future

    async def _deliver(self, outgoing: Outgoing) -> SendResult:
        """What the accumulator has gathered."""
        return self._result(await self._delivery.deliver(outgoing, None, self.send_timeout))

    async def _send(
        self,
        outgoing: Outgoing,
        message: Message | Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | int | None,
        timeout: float | None,
    ) -> SendResult:
        watched = cast(WatchedSend | None, outgoing.watched)
        if watched is not None:
            with watched:
                args = (queue, selector, sharding_key, timeout)
                watched.result = await self._sent(outgoing, message, *args)
                return watched.result
        return await self._sent(outgoing, message, queue, selector, sharding_key, timeout)

    async def _sent(
        self,
        outgoing: Outgoing,
        message: Message | Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | int | None,
        timeout: float | None,
    ) -> SendResult:
        if len(outgoing.body) >= self._compress_over:
            await self._compress(outgoing)
        timeout = self.send_timeout if timeout is None else number("timeout", timeout)
        if queue is not None or selector is not None or sharding_key is not None:
            deadline = self._monotonic() + timeout
            queue = await self._bound_queue(message, queue, selector, sharding_key, deadline)
            timeout = deadline - self._monotonic()
        result = await self._delivery.deliver(outgoing, queue, timeout)
        return result if self._namespace is None else self._result(result)

    def send_soon(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> asyncio.Task[SendResult]:
        """``send`` as a task: await it later, or let ``stop`` wait for it. The message must not be
        changed meanwhile.

        Raises ``MessageError`` at once; everything else comes with the task.
        """
        loop = asyncio.get_running_loop()
        gathered = None
        if self._accumulator is not None and _is_plain(queue, selector, sharding_key, timeout):
            gathered = self._gathered(message)
        if gathered is not None:
            task = loop.create_task(_wait_for(gathered))
        elif (
            written := self._written(message, queue, selector, sharding_key, timeout)
        ) is not None:
            is_bound = sharding_key is not None or queue is not None
            task = loop.create_task(self._answered(message, is_bound, timeout, *written))  # type: ignore[arg-type]
        else:
            outgoing = self._outgoing(
                message
            )  # before the task: stop() may come before its first step
            task = loop.create_task(
                self._send(outgoing, message, queue, selector, sharding_key, timeout)
            )
        self._soon.add(task)
        task.add_done_callback(self._soon.discard)
        return task

    async def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send without waiting for an answer: nobody tells whether a broker has it.

        Arguments as for ``send``. Raises ``MessageError``, ``NoRouteError``, ``RemotingError`` when
        it could not be written.
        """
        outgoing = self._outgoing(message)
        with outgoing.watched or nullcontext():
            if len(outgoing.body) >= self._compress_over:
                await self._compress(outgoing)
            timeout = self.send_timeout if timeout is None else number("timeout", timeout)
            if queue is not None or selector is not None or sharding_key is not None:
                deadline = self._monotonic() + timeout
                queue = await self._bound_queue(message, queue, selector, sharding_key, deadline)
                timeout = deadline - self._monotonic()
            await self._delivery.deliver_oneway(outgoing, queue, timeout)

    # --- asking
    # ----------------------------------------------------------------------------------------------

    async def request(
        self,
        message: Message,
        *,
        timeout: float = 3.0,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
    ) -> MessageExt:
        """Send a message and wait until a consumer has replied to it (``reply``); ``timeout`` in
        seconds, for everything.

        Raises ``ReplyTimeout`` when it was sent and nobody replied, and whatever ``send`` raises.
        """
        clock, correlation_id = self.instance.clock, new_correlation_id()
        deadline = clock.monotonic() + positive("timeout", timeout)
        extra = request_properties(correlation_id, self.instance.client_id, timeout)
        outgoing = self._outgoing(message, extra)
        with outgoing.watched or nullcontext():
            await self._delivery.publish_queues(outgoing.topic, deadline)
            await learn_reply_routes(self.instance.routes, outgoing.topic)
            # Brokers have to know where replies go; one that does not answer brings none either.
            left = deadline - clock.monotonic()
            await happens_within(self.instance.greet_new(), left / 2, clock)
            with self.instance.requests.expect(correlation_id) as reply:
                await self._send(
                    outgoing, message, queue, selector, sharding_key, deadline - clock.monotonic()
                )
                try:
                    async with asyncio.timeout(deadline - clock.monotonic()):
                        return await reply
                except TimeoutError:
                    raise ReplyTimeout(
                        f"nobody replied within {timeout:g} s to {outgoing.msg_id} in "
                        f"{message.topic}"
                    ) from None

    async def reply(
        self,
        to: MessageExt,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Answer a request that was consumed: returns when the requester has the reply.

        Raises ``MessageError`` when ``to`` is no request, ``SendFailed`` when the requester is not
        there any more, and whatever ``send`` raises.
        """
        self._check_running()
        outgoing = reply_to(
            to, body, properties, next_message_id(self.instance.clock.time_ms()), self._max_size
        )
        return await self._send(outgoing, (), None, None, None, timeout)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of this topic can be sent to, sorted by broker name and queue
        id.

        Raises ``NoRouteError``, ``RemotingError``, ``BrokerError``.
        """
        self._check_running()
        return await self._queues(topic, None)

    async def _queues(self, topic: str, deadline: float | None) -> tuple[MessageQueue, ...]:
        queues = await self._delivery.publish_queues(
            with_namespace(topic, self._namespace), deadline
        )
        return unwrap_queues(queues, self._namespace)

    # --- one message
    # ----------------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if self._running and self.instance.stopped:
            raise ClientStateError(
                "the ClientInstance of this producer is stopped: make new ones of both, and let "
                "the producer end first"
            )
        if not self._running:
            if self._running is False:
                raise ClientStateError("this producer is stopped: make a new one")
            how = "use it inside of 'async with' ('with' in aiorocketmq.sync), or start it"
            raise ClientStateError(f"this producer is not running: {how}")
        if get_ident() != self._thread or not self._loop_runs():
            self.instance.check_loop()

    def _outgoing(
        self, message: Message | Sequence[Message], extra: Mapping[str, str] | None = None
    ) -> Outgoing:
        self._check_running()
        watched = self._begin(message, half=PropertyName.TRAN_MSG in (extra or {}))
        if watched is None:
            return self._encoded(message, message, extra)
        outgoing = watched.made(message, lambda marked: self._encoded(marked, message, extra))
        outgoing.watched = watched
        return outgoing

    def _begin(self, message: Message | Sequence[Message], *, half: bool) -> WatchedSend | None:
        """Tell observers. None: there are none."""
        if not self._hooks.observed:
            return None
        group = without_namespace(self.group, self._namespace)
        return self._hooks.begin(message, (group, self.instance.client_id, self._namespace), half)

    def _encoded(
        self,
        message: Message | Sequence[Message],
        given: Message | Sequence[Message],
        extra: Mapping[str, str] | None,
    ) -> Outgoing:
        """``given``: the same without what observers added."""
        now_ms = self.instance.clock.time_ms()
        if isinstance(message, Message):
            if self._namespace is not None:
                message, extra = (
                    self._in_cluster(message),
                    {**(extra or {}), PropertyName.INSTANCE_ID: self._namespace},
                )
            outgoing = single(message, next_message_id(now_ms), self._max_size, extra)
        else:
            if isinstance(message, str | bytes) or not isinstance(message, Sequence):
                raise MessageError(str(message_problem(message)))
            if self._namespace is not None:
                message = [self._in_cluster(each) for each in message]
            outgoing = batch(message, [next_message_id(now_ms) for _ in message], self._max_size)
        if self._idempotent:
            check_sequenced(outgoing, None)
        if self._hooks:
            outgoing.messages = (given,) if isinstance(given, Message) else given
        return outgoing

    def _in_cluster(self, message: Message) -> Message:
        """With the topic as the cluster knows it."""
        if self._namespace is None:
            return message
        return msgspec.structs.replace(
            message, topic=with_namespace(message.topic, self._namespace)
        )

    def _result(self, result: SendResult) -> SendResult:
        """With the topic as the program knows it."""
        return result._replace(queue=unwrap_queue(result.queue, self._namespace))

    async def _compress(self, outgoing: Outgoing) -> None:
        if outgoing.is_batch:
            return  # a reader would not know what to do with it
        kind, level = self._compression, self._compress_level
        if len(outgoing.body) <= _COMPRESS_INLINE:
            outgoing.body = compress_body(outgoing.body, kind, level)
        else:
            outgoing.body = await asyncio.to_thread(compress_body, outgoing.body, kind, level)
        outgoing.sys_flag |= MessageSysFlag.COMPRESSED | kind

    async def _bound_queue(
        self,
        message: Message | Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | int | None,
        deadline: float,
    ) -> MessageQueue:
        """``deadline``: until when to wait for queues, in seconds of the monotonic clock."""
        first = message if isinstance(message, Message) else message[0]
        if (queue is not None) + (selector is not None) + (sharding_key is not None) > 1:
            raise ConfigError("give one of queue, selector and sharding_key, not several")
        if (why := queue_problem(queue)) is not None:
            raise ConfigError(why)
        if queue is None:
            queues = await self._queues(first.topic, deadline)
            if selector is not None:
                queue = selector(queues, first)
                if (why := queue_problem(queue, by_selector=True)) is not None:
                    raise ConfigError(why)
            else:
                queue = choose_by_key(queues, sharding_key)  # type: ignore[arg-type]
        if queue.topic != first.topic:
            raise MessageError(
                f"the message's topic is {first.topic}, the queue's is {queue.topic}"
            )
        return wrap_queue(queue, self._namespace)


def _end(watched: WatchedSend, future: asyncio.Future[SendResult]) -> None:
    error = asyncio.CancelledError() if future.cancelled() else future.exception()
    if error is None:
        watched.result = future.result()
    watched.end(error)


def _is_plain(*wishes: object) -> bool:
    """Nobody says where it has to go, or how fast."""
    return all(wish is None for wish in wishes)


async def _wait_for(future: asyncio.Future[SendResult]) -> SendResult:
    return await future
