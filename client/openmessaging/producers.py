"""Producers of OpenMessaging, for single messages and for sequences."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ...remoting.protocol.message.message import Message as RocketMQMessage
from ..errors import MessageError
from ..lifecycle import Startable
from ..producer.batches import DEFAULT_MAX_BYTES, split
from ..producer.producer import Producer as RocketMQProducer
from ..producer.sending import SendStatus, item_of
from .driver import (
    Properties,
    in_words_of_oms,
    name_servers_of,
    new_instance_name,
)
from .messages import (
    BytesMessage,
    Headers,
    KeyValue,
    MessageFormatError,
    OMSError,
    PropertyKeys,
    to_rocketmq,
)


class SendResult(NamedTuple):
    """Where to find what was sent."""

    message_id: str
    properties: KeyValue


class Producer(Startable):
    """Sends messages. Use as ``async with``, or ``start`` and ``stop``."""

    def __init__(self, properties: KeyValue) -> None:
        self.properties = properties
        self._timeout = properties.get_int(PropertyKeys.OPERATION_TIMEOUT, 5000) / 1000
        name = new_instance_name()
        properties.put(PropertyKeys.PRODUCER_ID, name)
        group = properties.get(PropertyKeys.PRODUCER_GROUP, "__OMS_PRODUCER_DEFAULT_GROUP")
        self._producer = RocketMQProducer(
            group,
            namesrv=name_servers_of(properties),
            instance_name=name,
            send_timeout=self._timeout,
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
        sent = await in_words_of_oms(self._producer.send(to_rocketmq(message), timeout=timeout))
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
        await in_words_of_oms(self._producer.send_oneway(to_rocketmq(message)))


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
        Raises ``OMSError``: what no broker has taken is kept for the next time."""
        left, self._gathered = self._gathered, []
        try:
            for part in split(rocketmq for _, rocketmq in left):
                sent = await in_words_of_oms(self._producer.send(part))
                taken, left = left[: len(part)], left[len(part) :]
                for (message, _), msg_id in zip(taken, sent.msg_id.split(","), strict=True):
                    message.put_header(Headers.MESSAGE_ID, msg_id)
        finally:
            self._gathered[:0] = left

    def rollback(self) -> None:
        """Forget what was gathered."""
        self._gathered = []
