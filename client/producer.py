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
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from ..remoting.protocol.compression import compress_body
from ..remoting.protocol.message import Message, MessageQueue, MessageSysFlag
from ..remoting.protocol.topic_names import TopicName
from .delivery import DEFAULT_ATTEMPTS, DEFAULT_TOPIC_QUEUE_NUMS, Delivery
from .errors import ClientStateError, ConfigError, MessageError
from .instance import ClientInstance
from .message_ids import next_message_id
from .options import ClientOptions, checked_group, positive
from .queue_choice import QueueSelector, choose_by_key
from .sending import Outgoing, SendResult, batch, single

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
        retries: int = DEFAULT_ATTEMPTS - 1,
        retry_other_broker_on_not_ok: bool = False,
        compress_over: int = 4096,
        compress_level: int = 5,
        max_message_size: int = 4 << 20,
        topic_queue_nums: int = DEFAULT_TOPIC_QUEUE_NUMS,
        template_topic: str = TopicName.AUTO_CREATE,
        **options: Unpack[ClientOptions],
    ) -> None:
        if instance is not None and options:
            raise ConfigError(f"these options belong to the instance that was given: {', '.join(options)}")
        self.group = checked_group(group)
        self._owns_instance = instance is None
        self.instance = instance if instance is not None else ClientInstance(**options)
        self._send_timeout = positive("send_timeout", send_timeout)
        self._compress_over = compress_over
        self._compress_level = compress_level
        self._max_size = int(positive("max_message_size", max_message_size))
        self._delivery = Delivery(
            self.instance,
            group,
            attempts=1 + max(0, retries),
            retry_not_ok=retry_other_broker_on_not_ok,
            topic_queue_nums=int(positive("topic_queue_nums", topic_queue_nums)),
            template_topic=template_topic,
        )
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
        return await self._send(self._outgoing(message), message, queue, selector, sharding_key, timeout)

    async def _send(
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
        if queue is not None or selector is not None or sharding_key is not None:
            queue = await self._bound_queue(message, queue, selector, sharding_key)
        return await self._delivery.deliver(outgoing, queue, self._send_timeout if timeout is None else timeout)

    def send_soon(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> asyncio.Task[SendResult]:
        """``send`` as a task: await it later, or let ``stop`` wait for it. The message must not be changed meanwhile.

        Raises ``MessageError`` at once; everything else comes with the task.
        """
        outgoing = self._outgoing(message)  # before the task: stop() may come before its first step
        task = asyncio.get_running_loop().create_task(self._send(outgoing, message, queue, selector, sharding_key, timeout))
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
        outgoing = self._outgoing(message)
        if len(outgoing.body) >= self._compress_over:
            await self._compress(outgoing)
        if queue is not None or selector is not None or sharding_key is not None:
            queue = await self._bound_queue(message, queue, selector, sharding_key)
        await self._delivery.deliver_oneway(outgoing, queue, self._send_timeout if timeout is None else timeout)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of this topic can be sent to, sorted by broker name and queue id.

        Raises ``NoRouteError``, ``RemotingError``, ``BrokerError``.
        """
        self._check_running()
        return await self._delivery.publish_queues(topic)

    # --- one message ------------------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if not self._running:
            raise ClientStateError("this producer is not running: use it inside of 'async with', or start it")

    def _outgoing(self, message: Message | Sequence[Message]) -> Outgoing:
        if not self._running:
            self._check_running()
        now_ms = self.instance.clock.time_ms()
        if isinstance(message, Message):
            return single(message, next_message_id(now_ms), self._max_size)
        return batch(message, [next_message_id(now_ms) for _ in message], self._max_size)

    async def _compress(self, outgoing: Outgoing) -> None:
        if outgoing.is_batch:
            return  # a reader would not know what to do with it
        kind, level = MessageSysFlag.COMPRESSION_ZLIB, self._compress_level
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
    ) -> MessageQueue:
        first = message if isinstance(message, Message) else message[0]
        if (queue is not None) + (selector is not None) + (sharding_key is not None) > 1:
            raise ConfigError("give one of queue, selector and sharding_key, not several")
        if queue is None:
            queues = await self._delivery.publish_queues(first.topic)
            queue = choose_by_key(queues, sharding_key) if selector is None else selector(queues, first)  # type: ignore[arg-type]
        if queue.topic != first.topic:
            raise MessageError(f"the message's topic is {first.topic}, the queue's is {queue.topic}")
        return queue
