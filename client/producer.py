"""Sending messages (client.md §3; class DefaultMQProducer).

::

    async with Producer("orders", namesrv="ns1:9876") as producer:
        result = await producer.send(Message("Order", b"...", tags="new", keys=["42"]), sharding_key=42)

Many sends may be under way at once: ``await asyncio.gather(...)`` over ``send``, or ``send_soon``. Everything that is
sent in one turn of the event loop leaves in one write per broker. A send that is cancelled, that timed out or whose
connection was lost may still have been stored: consumers must be able to see a message twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from ..remoting.errors import BrokerError, RemotingError
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.commands.send import SendMessageRequestV2
from ..remoting.protocol.compression import compress_body
from ..remoting.protocol.message import Message, MessageQueue, MessageSysFlag
from ..remoting.protocol.topic_names import TopicName
from .errors import Attempt, ClientStateError, ConfigError, MessageError, SendFailed, SendTimedOut
from .instance import ClientInstance
from .message_ids import next_message_id
from .options import ClientOptions, checked_group, positive
from .queue_choice import QueueSelector, RoundRobin, choose_by_key
from .sending import Outgoing, SendResult, SendStatus, batch, may_retry, send_result, single

_COMPRESS_INLINE = 32 << 10
"""Longer bodies are compressed in a thread: the loop must not stand still for more than a millisecond."""


class Producer:
    """Sends messages for one producer group.

    ``send_timeout`` (seconds) is the time for a send in all, retries included. ``retries`` counts further attempts on other
    brokers after a failure; a message that is bound to a queue has one attempt. ``retry_other_broker_on_not_ok`` also tries
    again when a message was stored but less safely than asked. Bodies of ``compress_over`` bytes and more are compressed
    (zlib, ``compress_level``), longer ones than ``max_message_size`` refused. A topic that does not exist gets up to
    ``topic_queue_nums`` queues on each broker that offers ``template_topic``.
    """

    def __init__(
        self,
        group: str,
        *,
        instance: ClientInstance | None = None,
        send_timeout: float = 3.0,
        retries: int = 2,
        retry_other_broker_on_not_ok: bool = False,
        compress_over: int = 4096,
        compress_level: int = 5,
        max_message_size: int = 4 << 20,
        topic_queue_nums: int = 4,
        template_topic: str = TopicName.AUTO_CREATE,
        **options: Unpack[ClientOptions],
    ) -> None:
        if instance is not None and options:
            raise ConfigError(f"these options belong to the instance that was given: {', '.join(options)}")
        self.group = checked_group(group)
        self._owns_instance = instance is None
        self.instance = instance if instance is not None else ClientInstance(**options)
        self._send_timeout = positive("send_timeout", send_timeout)
        self._attempts = 1 + max(0, retries)
        self._retry_not_ok = retry_other_broker_on_not_ok
        self._compress_over = compress_over
        self._compress_level = compress_level
        self._max_size = int(positive("max_message_size", max_message_size))
        self._topic_queue_nums = int(positive("topic_queue_nums", topic_queue_nums))
        self._template_topic = template_topic
        self._turns = RoundRobin(random.randrange(1 << 16))
        self._soon: set[asyncio.Task[SendResult]] = set()
        self._running = False

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to nothing yet, but be ready. Raises ``ClientStateError`` when started twice."""
        if self._owns_instance:
            await self.instance.start()
        self.instance.register_producer(self.group)
        self._running = True

    async def stop(self) -> None:
        """Wait for what ``send_soon`` has begun, then take leave of the brokers."""
        if not self._running:
            return
        self._running = False
        if self._soon:
            await asyncio.wait(self._soon)
        if self._owns_instance:
            await self.instance.stop()
        else:
            await self.instance.unregister_producer(self.group)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.stop()

    # --- sending ----------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send one message, or a list of messages of one topic as one frame, and wait until a broker has it.

        At most one of: ``queue`` sends there; ``selector`` chooses a queue; ``sharding_key`` sends equal keys to the same
        queue (Java's rule). Without them the queues take turns. ``timeout`` in seconds, for everything.

        Raises ``MessageError`` (cannot be sent as it is), ``NoRouteError`` (no such topic), ``SendFailed`` (no broker took
        it), ``SendTimedOut`` (also a ``TimeoutError``), ``BrokerError`` (refused for a reason that others would have too).
        """
        outgoing = await self._outgoing(message)
        if queue is not None or selector is not None or sharding_key is not None:
            queue = await self._bound_queue(message, queue, selector, sharding_key)
        return await self._deliver(outgoing, queue, self._send_timeout if timeout is None else timeout)

    def send_soon(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> asyncio.Task[SendResult]:
        """``send`` as a task: await it later, or let ``stop`` wait for it. The message must not be changed meanwhile."""
        self._check_running()
        task = asyncio.get_running_loop().create_task(
            self.send(message, queue=queue, selector=selector, sharding_key=sharding_key, timeout=timeout)
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

        Arguments as for ``send``. Raises ``MessageError``, ``NoRouteError``, ``RemotingError`` when it could not be written.
        """
        outgoing = await self._outgoing(message)
        if queue is not None or selector is not None or sharding_key is not None:
            queue = await self._bound_queue(message, queue, selector, sharding_key)
        else:
            queue = self._turns.choose(await self._publish_queues(outgoing.topic))
        address = await self.instance.master_address(queue.broker_name, outgoing.topic)
        await self.instance.remoting.invoke_oneway(
            address,
            outgoing.code,
            self._header(outgoing, queue),
            outgoing.body,
            timeout=self._send_timeout if timeout is None else timeout,
        )

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of this topic can be sent to, sorted by broker name and queue id.

        Raises ``NoRouteError``, ``RemotingError``, ``BrokerError``.
        """
        self._check_running()
        return await self._publish_queues(topic)

    # --- one message ------------------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if not self._running:
            raise ClientStateError("this producer is not running: use it inside of 'async with', or start it")

    async def _outgoing(self, message: Message | Sequence[Message]) -> Outgoing:
        self._check_running()
        now_ms = self.instance.clock.time_ms()
        if not isinstance(message, Message):
            return batch(message, [next_message_id(now_ms) for _ in message], self._max_size)
        outgoing = single(message, next_message_id(now_ms), self._max_size)
        size = len(outgoing.body)
        if size >= self._compress_over:
            kind, level = MessageSysFlag.COMPRESSION_ZLIB, self._compress_level
            if size <= _COMPRESS_INLINE:
                outgoing.body = compress_body(outgoing.body, kind, level)
            else:
                outgoing.body = await asyncio.to_thread(compress_body, outgoing.body, kind, level)
            outgoing.sys_flag |= MessageSysFlag.COMPRESSED | kind
        return outgoing

    async def _bound_queue(
        self,
        message: Message | Sequence[Message],
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | int | None,
    ) -> MessageQueue:
        first = message if isinstance(message, Message) else message[0]
        if (queue is not None) + (selector is not None) + (sharding_key is not None) > 1:
            raise ConfigError("give one of queue, selector and sharding_key, not several")
        if queue is None:
            queues = await self._publish_queues(first.topic)
            queue = choose_by_key(queues, sharding_key) if selector is None else selector(queues, first)  # type: ignore[arg-type]
        if queue.topic != first.topic:
            raise MessageError(f"the message's topic is {first.topic}, the queue's is {queue.topic}")
        return queue

    async def _publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        routes = self.instance.routes
        route = routes.cached(topic)
        if route is None or not route.publish_queues:
            route = await routes.get_for_sending(topic, self._template_topic, self._topic_queue_nums)
        return route.publish_queues

    async def _deliver(self, outgoing: Outgoing, bound: MessageQueue | None, timeout: float) -> SendResult:
        """Attempt after attempt until one broker has it, the attempts are used up, or the time is."""
        clock = self.instance.clock
        started = clock.monotonic()
        deadline = started + timeout
        failures: list[Attempt] = []
        not_ok: SendResult | None = None
        avoid: str | None = None
        for _ in range(self._attempts if bound is None else 1):
            queue = bound or self._turns.choose(await self._publish_queues(outgoing.topic), avoid)
            left = deadline - clock.monotonic()
            if left <= 0:
                break
            try:
                result = await self._attempt(outgoing, queue, left)
            except (RemotingError, BrokerError) as error:
                if not may_retry(error):
                    if not_ok is not None:
                        return not_ok
                    raise
                failures.append(self._failed(queue, error, timeout - left, clock.monotonic() - started))
            else:
                if result.status is SendStatus.SEND_OK or not self._retry_not_ok:
                    return result
                not_ok = result
            avoid = queue.broker_name
        if not_ok is not None:
            return not_ok
        kind = SendTimedOut if clock.monotonic() >= deadline else SendFailed
        raise kind(outgoing.topic, tuple(failures)) from (failures[-1].error if failures else None)

    def _failed(self, queue: MessageQueue, error: RemotingError | BrokerError, began: float, ended: float) -> Attempt:
        address = self.instance.routes.master(queue.broker_name) or ""
        return Attempt(queue.broker_name, address, error, ended - began)

    async def _attempt(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        address = self.instance.routes.master(queue.broker_name)
        if address is None:
            address = await self.instance.master_address(queue.broker_name, outgoing.topic)
        answer = await self.instance.remoting.invoke(
            address, outgoing.code, self._header(outgoing, queue), outgoing.body, timeout=timeout
        )
        return send_result(answer, outgoing, queue, address)

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> SendMessageRequestV2:
        return SendMessageRequestV2(
            producer_group=self.group,
            topic=outgoing.topic,
            default_topic=self._template_topic,
            default_topic_queue_nums=self._topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=self.instance.clock.time_ms(),
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=outgoing.reconsume_times,
            max_reconsume_times=outgoing.max_reconsume_times,
            batch=outgoing.code is RequestCode.SEND_BATCH_MESSAGE,
            bname=queue.broker_name,
        )
