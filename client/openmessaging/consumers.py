"""Consumers of OpenMessaging: one that asks, one that calls a listener per queue."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final, Self

from ...remoting.errors import RocketMQError
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.retries import FIRST_DELAY_LEVEL, MAX_RECONSUME_TIMES
from ...remoting.protocol.message.topic_names import retry_topic
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet
from ..consumer.options import PullConsumerSettings, PushConsumerSettings
from ..consumer.pull_consumer import PullConsumer as RocketMQPullConsumer
from ..consumer.push_consumer import PushConsumer as RocketMQPushConsumer
from ..consumer.send_back import SendBack
from ..errors import RetryLater
from ..lifecycle import Startable
from ..offsets.start_offset import StartFrom
from .driver import (
    Properties,
    group_of,
    in_words_of_oms,
    name_servers_of,
    new_instance_name,
)
from .messages import (
    BytesMessage,
    Headers,
    KeyValue,
    PropertyKeys,
    from_rocketmq,
)

_EXPIRE_EVERY_S: Final = 60.0
_POLL_MESSAGES: Final = 1
_PULL: Final = PullConsumerSettings()
_PUSH: Final = PushConsumerSettings()
"""Our defaults are those of this API, too."""


class PullConsumer(Startable):
    """Hands out the messages of a queue one by one; each is to be acknowledged. Use as ``async
    with``."""

    def __init__(self, queue: str, properties: KeyValue) -> None:
        self.properties = properties
        self._timeout = properties.get_int(PropertyKeys.OPERATION_TIMEOUT, 5000) / 1000
        self._expires_after = 60.0 * properties.get_int(PropertyKeys.CONSUME_TIMEOUT, 15)
        group, name = group_of(properties), new_instance_name()
        properties.put(PropertyKeys.CONSUMER_ID, name)
        self._consumer = RocketMQPullConsumer(
            group, queue, retry_topic(group),
            namesrv=name_servers_of(properties), instance_name=name, auto_commit=False,
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
        messages = await in_words_of_oms(self._consumer.poll(timeout, _POLL_MESSAGES))
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
        await in_words_of_oms(
            self._consumer.commit({queue: next(iter(offsets), self._next[queue])})
        )

    async def _give_back_expired(self) -> None:
        clock = self._consumer.instance.clock
        while True:
            await clock.sleep(min(_EXPIRE_EVERY_S, self._expires_after))
            before = clock.monotonic() - self._expires_after
            for msg_id, (message, queue, since) in list(self._unacked.items()):
                if since <= before:
                    try:
                        await self._send_back(message, FIRST_DELAY_LEVEL)
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
        name = new_instance_name()
        properties.put(PropertyKeys.CONSUMER_ID, name)
        self._consumer = RocketMQPushConsumer(
            group_of(properties), namesrv=name_servers_of(properties), instance_name=name,
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
