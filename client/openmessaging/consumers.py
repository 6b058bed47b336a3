"""Consumers of OpenMessaging: one that asks, one that calls a listener per queue."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Self

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
            on_revoke=self._revoked,
        )  # fmt: skip
        self._send_back = SendBack(
            self._consumer.instance,
            group,
            _max_redelivery_times(properties),
        )
        self._unacked: dict[tuple[MessageQueue, int], _HandedOut] = {}
        """By queue and offset: an id may be that of two, where a producer has sent it twice."""
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
        self._next[message.queue] = message.queue_offset + 1
        now = self._consumer.instance.clock.monotonic()
        self._unacked[message.queue, message.queue_offset] = _HandedOut(
            message, message.msg_id, now
        )
        return from_rocketmq(message)

    async def ack(self, message_id: str, properties: Properties = None) -> None:
        """The message is done; one that is not known (any more) is ignored. Raises ``OMSError``."""
        for place in [at for at, each in self._unacked.items() if each.msg_id == message_id]:
            await self._finish(place)

    async def _finish(self, place: tuple[MessageQueue, int]) -> None:
        if self._unacked.pop(place, None) is None:
            return
        queue = place[0]
        others = [offset for other, offset in self._unacked if other == queue]
        offset = min([self._next[queue], *others])  # a reset may have put the next one back
        await in_words_of_oms(self._consumer.commit({queue: offset}))

    async def _revoked(self, queues: tuple[MessageQueue, ...]) -> None:
        """What was handed out of these is their next owner's now, whom nothing that is
        acknowledged, or expires, of it may move back."""
        self._unacked = {at: each for at, each in self._unacked.items() if at[0] not in queues}

    async def _give_back_expired(self) -> None:
        clock = self._consumer.instance.clock
        while True:
            await clock.sleep(min(_EXPIRE_EVERY_S, self._expires_after))
            before = clock.monotonic() - self._expires_after
            for place, each in list(self._unacked.items()):
                if each.since <= before and place in self._unacked:
                    try:
                        await self._send_back(each.message, FIRST_DELAY_LEVEL)
                        await self._finish(place)
                    except RocketMQError:
                        continue  # it is tried again in a minute


class _HandedOut(NamedTuple):
    """A message that was handed out, and when (monotonic seconds)."""

    message: MessageExt
    msg_id: str
    since: float


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
