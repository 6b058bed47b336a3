"""OpenMessaging 0.1.0-alpha, the driver ``rocketmq`` (client.md §8.1; class
MessagingAccessPointImpl), in asyncio.

::

    url = "openmessaging:rocketmq://ns1:9876,ns2:9876/namespace"
    async with MessagingAccessPoint(url) as point:
        producer = await point.started(point.create_producer())
        await producer.send(producer.create_bytes_message_to_topic("Order", b"..."))

A thin layer over ``Producer``, ``PullConsumer`` and ``PushConsumer``: headers and properties of a
message travel as its properties. The namespace of the URL is kept and, as in the original's driver,
not used. A promise is an ``asyncio.Task``.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, NoReturn, Self, TypeVar

from ...remoting.errors import RocketMQError
from ...remoting.protocol.message.message import Message as RocketMQMessage
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.retries import MAX_RECONSUME_TIMES
from ...remoting.protocol.message.topic_names import retry_topic
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet
from ..consumer.options import PullConsumerSettings, PushConsumerSettings
from ..consumer.pull_consumer import PullConsumer as RocketMQPullConsumer
from ..consumer.push_consumer import PushConsumer as RocketMQPushConsumer
from ..consumer.send_back import SendBack
from ..consumer.start_offset import StartFrom
from ..errors import MessageError, NoRouteError, RetryLater
from ..lifecycle import Startable
from ..producer.batches import DEFAULT_MAX_BYTES, split
from ..producer.producer import Producer as RocketMQProducer
from ..producer.sending import SendStatus, item_of
from .messages import (
    BytesMessage,
    Headers,
    KeyValue,
    MessageFormatError,
    NotSupportedError,
    OMSError,
    OMSTimeout,
    PropertyKeys,
    from_rocketmq,
    to_rocketmq,
)

__all__ = [
    "BytesMessage",
    "Headers",
    "KeyValue",
    "MessageContext",
    "MessageFormatError",
    "MessagingAccessPoint",
    "NotSupportedError",
    "OMSError",
    "OMSTimeout",
    "Producer",
    "PropertyKeys",
    "PullConsumer",
    "PushConsumer",
    "SendResult",
    "SequenceProducer",
    "from_rocketmq",
    "to_rocketmq",
]

_URL: Final = re.compile(r"openmessaging:(?P<driver>[^:/]+)://(?P<hosts>[^/]+)/(?P<namespace>.*)")
_SEND_BACK_LEVEL: Final = 3
_EXPIRE_EVERY_S: Final = 60.0
_POLL_MESSAGES: Final = 1
_numbers = itertools.count()


class SendResult(NamedTuple):
    """Where to find what was sent."""

    message_id: str
    properties: KeyValue


Properties = Mapping[str, str] | None
_PULL: Final = PullConsumerSettings()
_PUSH: Final = PushConsumerSettings()
"""Our defaults are those of this API, too."""
R = TypeVar("R")


C = TypeVar("C", bound=Startable)


class MessagingAccessPoint:
    """Makes clients of one cluster; ``openmessaging:<driver>://<host:port>[,...]/<namespace>``.

    Use as ``async with``: at the end the clients that it ``started`` are stopped. Raises
    ``OMSError`` for a URL that is none, and for another driver's.
    """

    def __init__(self, url: str, properties: Properties = None) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise OMSError(
                f"{url!r} is no access point; write "
                "openmessaging:rocketmq://host:port[,host:port]/namespace"
            )
        if found["driver"] != "rocketmq":
            raise NotSupportedError(
                f"the driver {found['driver']!r} of {url!r} is not here; this is 'rocketmq'"
            )
        self.properties: KeyValue = KeyValue(properties or {})
        self.properties.put(PropertyKeys.NAMESPACE, found["namespace"])
        self.properties.put(PropertyKeys.ACCESS_POINTS, found["hosts"])
        self.properties.put(PropertyKeys.DRIVER_IMPL, "rocketmq")
        self._clients: list[Startable] = []

    async def startup(self) -> None:
        """Nothing is connected before a client starts."""

    async def shutdown(self) -> None:
        """Stop what ``started`` has started, the last first."""
        while self._clients:
            await self._clients.pop().stop()

    async def __aenter__(self) -> Self:
        await self.startup()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        await self.shutdown()

    async def started(self, client: C) -> C:
        """Start a client; it is stopped together with this access point."""
        await client.start()
        self._clients.append(client)
        return client

    def create_producer(self, properties: Properties = None) -> Producer:
        return Producer(self._merged(properties))

    def create_sequence_producer(self, properties: Properties = None) -> SequenceProducer:
        return SequenceProducer(self._merged(properties))

    def create_pull_consumer(self, queue: str, properties: Properties = None) -> PullConsumer:
        """Raises ``OMSError`` without ``rmq.consumer.group``."""
        return PullConsumer(queue, self._merged(properties))

    def create_push_consumer(self, properties: Properties = None) -> PushConsumer:
        """Raises ``OMSError`` without ``rmq.consumer.group``."""
        return PushConsumer(self._merged(properties))

    def create_iterable_consumer(self, *_: object) -> NoReturn:
        """Raises ``NotSupportedError``, as in the original's driver."""
        raise NotSupportedError("IterableConsumer is not supported by this driver")

    def resource_manager(self) -> NoReturn:
        """Raises ``NotSupportedError``; ``aiorocketmq.Admin`` makes topics."""
        raise NotSupportedError(
            "ResourceManager is not supported by this driver; aiorocketmq.Admin makes topics"
        )

    def create_service_end_point(self, *_: object) -> NoReturn:
        """Raises ``NotSupportedError``, as in the original's driver."""
        raise NotSupportedError("ServiceEndPoint is not supported by this driver")

    def _merged(self, properties: Properties) -> KeyValue:
        return KeyValue({**self.properties, **(properties or {})})


class Producer(Startable):
    """Sends messages. Use as ``async with``, or ``start`` and ``stop``."""

    def __init__(self, properties: KeyValue) -> None:
        self.properties = properties
        self._timeout = properties.get_int(PropertyKeys.OPERATION_TIMEOUT, 5000) / 1000
        name = _instance_name()
        properties.put(PropertyKeys.PRODUCER_ID, name)
        group = properties.get(PropertyKeys.PRODUCER_GROUP, "__OMS_PRODUCER_DEFAULT_GROUP")
        self._producer = RocketMQProducer(
            group, namesrv=_namesrv(properties), instance_name=name, send_timeout=self._timeout
        )

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    def create_bytes_message_to_topic(self, topic: str, body: bytes) -> BytesMessage:
        return BytesMessage(body).put_header(Headers.TOPIC, topic)

    def create_bytes_message_to_queue(self, queue: str, body: bytes) -> BytesMessage:
        """A queue of OpenMessaging is a topic here; the receiver sees which of both it was."""
        return BytesMessage(body).put_header(Headers.QUEUE, queue)

    async def send(self, message: BytesMessage, properties: Properties = None) -> SendResult:
        """Send and wait; ``oms.operation.timeout`` for this one. Gives the message its id. Raises
        ``OMSError``."""
        timeout = (
            KeyValue(properties or {}).get_int(
                PropertyKeys.OPERATION_TIMEOUT, round(self._timeout * 1000)
            )
            / 1000
        )
        sent = await _as_oms_error(self._producer.send(to_rocketmq(message), timeout=timeout))
        if sent.status is not SendStatus.SEND_OK:
            raise OMSError(
                f"a broker has the message {sent.msg_id}, but not safely: {sent.status.name}"
            )
        message.put_header(Headers.MESSAGE_ID, sent.msg_id)
        return SendResult(sent.msg_id, KeyValue())

    def send_async(
        self, message: BytesMessage, properties: Properties = None
    ) -> asyncio.Task[SendResult]:
        """``send`` as a task. Await it before ``stop``."""
        return asyncio.get_running_loop().create_task(self.send(message, properties))

    async def send_oneway(self, message: BytesMessage, properties: Properties = None) -> None:
        """Send without waiting for an answer."""
        await _as_oms_error(self._producer.send_oneway(to_rocketmq(message)))


class SequenceProducer(Producer):
    """Gathers messages and sends them together, as one batch."""

    def __init__(self, properties: KeyValue) -> None:
        super().__init__(properties)
        self._gathered: list[tuple[BytesMessage, RocketMQMessage]] = []

    def gather(self, message: BytesMessage) -> None:
        """Keep a message for ``commit`` (``send`` of the original). Raises
        ``MessageFormatError``."""
        try:
            rocketmq = to_rocketmq(message)
            item_of(rocketmq, "0" * 32, DEFAULT_MAX_BYTES)
        except MessageError as error:
            raise MessageFormatError(str(error)) from error
        self._gathered.append((message, rocketmq))

    async def commit(self) -> None:
        """Send what was gathered, in one frame as far as it fits; gives the messages their ids.
        Raises ``OMSError``."""
        if not self._gathered:
            return
        gathered = self._gathered
        ids: list[str] = []
        for part in split(rocketmq for _, rocketmq in gathered):
            ids += (await _as_oms_error(self._producer.send(part))).msg_id.split(",")
        for (message, _), msg_id in zip(gathered, ids, strict=True):
            message.put_header(Headers.MESSAGE_ID, msg_id)
        self._gathered = []

    def rollback(self) -> None:
        """Forget what was gathered."""
        self._gathered = []


class PullConsumer(Startable):
    """Hands out the messages of a queue one by one; each is to be acknowledged. Use as ``async
    with``."""

    def __init__(self, queue: str, properties: KeyValue) -> None:
        self.properties = properties
        self._timeout = properties.get_int(PropertyKeys.OPERATION_TIMEOUT, 5000) / 1000
        self._expires_after = 60.0 * properties.get_int(PropertyKeys.CONSUME_TIMEOUT, 15)
        group, name = _group(properties), _instance_name()
        properties.put(PropertyKeys.CONSUMER_ID, name)
        self._consumer = RocketMQPullConsumer(
            group, queue, retry_topic(group),
            namesrv=_namesrv(properties), instance_name=name, auto_commit=False,
            start_from=StartFrom.FIRST,
            pull_batch=properties.get_int(PropertyKeys.PULL_BATCH, _PULL.pull_batch),
            max_cached=properties.get_int(PropertyKeys.PULL_CACHE, _PULL.max_cached),
        )  # fmt: skip
        self._send_back = SendBack(
            self._consumer.instance,
            group,
            _max_redelivery_times(properties),
        )
        self._unacked: dict[str, tuple[MessageExt, MessageQueue, float]] = {}
        self._open: dict[MessageQueue, dict[int, None]] = {}
        """Offsets that were handed out and not acknowledged, in order."""
        self._next: dict[MessageQueue, int] = {}
        self._tasks = TaskSet(f"openmessaging {group}")

    async def start(self) -> None:
        await self._consumer.start()
        self._tasks.spawn(self._give_back_expired(), name="expired")

    async def stop(self) -> None:
        await self._tasks.close()
        await self._consumer.stop()

    async def poll(self, properties: Properties = None) -> BytesMessage | None:
        """The next message, or ``None`` after ``oms.operation.timeout``."""
        timeout = (
            KeyValue(properties or {}).get_int(
                PropertyKeys.OPERATION_TIMEOUT, round(self._timeout * 1000)
            )
            / 1000
        )
        messages = await _as_oms_error(self._consumer.poll(timeout, _POLL_MESSAGES))
        if not messages:
            return None
        message = messages[0]
        queue, offset = message.queue, message.queue_offset
        self._open.setdefault(queue, {})[offset] = None
        self._next[queue] = offset + 1
        self._unacked[message.msg_id] = (message, queue, self._consumer.instance.clock.monotonic())
        return from_rocketmq(message)

    async def ack(self, message_id: str, properties: Properties = None) -> None:
        """The message is done; one that is not known (any more) is ignored. Raises ``OMSError``."""
        found = self._unacked.pop(message_id, None)
        if found is not None:
            await self._finish(found[0], found[1])

    async def _finish(self, message: MessageExt, queue: MessageQueue) -> None:
        offsets = self._open.get(queue, {})
        offsets.pop(message.queue_offset, None)
        await _as_oms_error(self._consumer.commit({queue: next(iter(offsets), self._next[queue])}))

    async def _give_back_expired(self) -> None:
        clock = self._consumer.instance.clock
        while True:
            await clock.sleep(min(_EXPIRE_EVERY_S, self._expires_after))
            before = clock.monotonic() - self._expires_after
            for msg_id, (message, queue, since) in list(self._unacked.items()):
                if since <= before:
                    try:
                        await self._send_back(message, _SEND_BACK_LEVEL)
                        self._unacked.pop(msg_id, None)
                        await self._finish(message, queue)
                    except RocketMQError:
                        continue  # it is tried again in a minute


class MessageContext:
    """What a listener gets with a message."""

    def __init__(self, message_id: str) -> None:
        self.properties: KeyValue = KeyValue({Headers.MESSAGE_ID: message_id})
        self.acked: asyncio.Event = asyncio.Event()
        self.status: str = "RECONSUME_LATER"

    def ack(self, properties: Properties = None) -> None:
        """The message is consumed; or what ``rmq.message.consume.status`` says: CONSUME_SUCCESS,
        RECONSUME_LATER."""
        self.status = (properties or {}).get(PropertyKeys.CONSUME_STATUS, "CONSUME_SUCCESS")
        self.acked.set()


Listener = Callable[[BytesMessage, MessageContext], Awaitable[None] | None]
"""Gets a message on the event loop; must call ``context.ack()``, then or later."""


class PushConsumer(Startable):
    """Calls a listener per queue. ``attach_queue`` first, then ``start`` or ``async with``."""

    def __init__(self, properties: KeyValue) -> None:
        self.properties = properties
        self._timeout = 60.0 * properties.get_int(PropertyKeys.CONSUME_TIMEOUT, 15)
        name = _instance_name()
        properties.put(PropertyKeys.CONSUMER_ID, name)
        self._consumer = RocketMQPushConsumer(
            _group(properties), namesrv=_namesrv(properties), instance_name=name,
            concurrency=properties.get_int(PropertyKeys.MIN_CONSUME_THREADS, _PUSH.concurrency),
            max_reconsume_times=_max_redelivery_times(properties),
        )  # fmt: skip
        self._consumer.on_message(self._handle)
        self._listeners: dict[str, Listener] = {}
        self._suspended = False

    def attach_queue(self, queue: str, listener: Listener) -> Self:
        """Consume a queue (a topic), all of it."""
        self._listeners[queue] = listener
        self._consumer.subscribe(queue)
        return self

    def suspend(self) -> None:
        """Pull nothing until ``resume``."""
        self._suspended = True
        self._consumer.suspend()

    def resume(self) -> None:
        self._suspended = False
        self._consumer.resume()

    @property
    def is_suspended(self) -> bool:
        return self._suspended

    async def start(self) -> None:
        await self._consumer.start()

    async def stop(self) -> None:
        await self._consumer.stop()

    async def _handle(self, message: MessageExt) -> None:
        listener = self._listeners[message.topic]
        context = MessageContext(message.msg_id)
        outcome = listener(from_rocketmq(message), context)
        if inspect.isawaitable(outcome):
            await outcome
        try:
            async with asyncio.timeout(self._timeout):
                await context.acked.wait()
        except TimeoutError:
            raise RetryLater from None
        if context.status != "CONSUME_SUCCESS":
            raise RetryLater


def _max_redelivery_times(properties: KeyValue) -> int:
    return properties.get_int(PropertyKeys.MAX_REDELIVERY_TIMES, MAX_RECONSUME_TIMES)


async def _as_oms_error(work: Awaitable[R]) -> R:
    """The result; errors in the words of OpenMessaging."""
    try:
        return await work
    except MessageError as error:
        raise MessageFormatError(str(error)) from error
    except TimeoutError as error:
        raise OMSTimeout(str(error)) from error
    except NoRouteError as error:
        raise OMSError(f"the topic does not exist: {error}") from error
    except RocketMQError as error:
        raise OMSError(str(error)) from error


def _namesrv(properties: KeyValue) -> Sequence[str]:
    return properties[PropertyKeys.ACCESS_POINTS].split(",")


def _group(properties: KeyValue) -> str:
    group = properties.get(PropertyKeys.CONSUMER_GROUP)
    if not group:
        raise OMSError(f"a consumer needs its group: the property {PropertyKeys.CONSUMER_GROUP}")
    return group


def _instance_name() -> str:
    return f"{os.getpid()}%OpenMessaging%{time.monotonic_ns() + next(_numbers)}"
