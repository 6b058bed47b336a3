"""Giving a message back that could not be consumed (client.md §4.8;
DefaultMQPushConsumerImpl.sendMessageBack)."""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.errors import BrokerError, RocketMQError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import ConsumerSendMsgBackRequest
from ...remoting.protocol.message.properties import (
    MessageError,
    PropertyName,
    encode_properties,
)
from ...remoting.protocol.message.retries import retry_delay_level, retry_limit_of_consumer
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.message.topic_names import retry_topic
from ...remoting.protocol.record.decode import MessageExt
from ..cluster.instance import ClientInstance
from ..namespaces import with_namespace, wrap_queue
from ..producer.delivery import Delivery
from ..producer.sending import Outgoing, SendStatus

log: Final = logging.getLogger(__name__)

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
_TIMEOUT = 5.0
_COMPRESSION = MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_MASK


class SendBack:
    """Hands messages of one group back to the brokers, which bring them again later."""

    def __init__(self, instance: ClientInstance, group: str, max_reconsume_times: int) -> None:
        self._instance = instance
        self._group = group
        self._max = retry_limit_of_consumer(max_reconsume_times)
        self._delivery = Delivery(instance, INNER_PRODUCER_GROUP)

    async def __call__(self, message: MessageExt, delay_level: int) -> None:
        """Back to the broker that it came from or, where that fails, as a new message to any
        broker's retry topic.

        ``delay_level`` as in ``RetryLater``. Raises ``RocketMQError`` when nobody takes it.
        """
        try:
            await self._to_its_broker(message, delay_level)
        except RocketMQError as error:
            log.info(
                "message not taken back, sent anew group=%s message=%r error=%s",
                self._group,
                message,
                error,
            )
            try:
                anew = self._as_new_message(message, delay_level)
            except MessageError:
                raise error from None
            await self._send(anew)

    async def to_dead_letters(self, message: MessageExt) -> None:
        """As a new message to the retry topic, tried as often as it may be: the broker keeps it as
        a dead letter. One whose properties leave no space for that its own broker has to take.

        Raises ``RocketMQError``.
        """
        try:
            anew = self._as_new_message(message, -1)
        except MessageError:
            await self._to_its_broker(message, -1)
        else:
            await self._send(anew)

    async def _send(self, anew: Outgoing) -> None:
        """A broker whose disk was not in time may forget it with its power: whoever hands it back
        keeps the message, which may come twice then. (The original takes any answer for success.)
        """
        result = await self._delivery.deliver(anew, None, _TIMEOUT)
        if result.status is SendStatus.FLUSH_DISK_TIMEOUT:
            raise BrokerError(
                ResponseCode.FLUSH_DISK_TIMEOUT, "not known to be on the disk", str(result.queue)
            )

    async def _to_its_broker(self, message: MessageExt, delay_level: int) -> None:
        header = ConsumerSendMsgBackRequest(
            offset=message.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=self._topic(message),
            max_reconsume_times=self._max,
            bname=message.broker_name,
        )
        queue = wrap_queue(message.queue, self._instance.namespace)
        await self._instance.ask_master(
            queue, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout=_TIMEOUT
        )

    def _topic(self, message: MessageExt) -> str:
        """As the cluster knows it."""
        return with_namespace(message.topic, self._instance.namespace)

    def _as_new_message(self, message: MessageExt, delay_level: int) -> Outgoing:
        """Raises ``MessageError`` where the properties get too long."""
        times = message.reconsume_times + 1 if delay_level >= 0 else self._max
        most = self._max + (delay_level >= 0)  # it counts as tried: its last attempt is to come
        properties = dict(message.properties)
        properties.pop(PropertyName.TRAN_MSG, None)
        properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, message.msg_id)
        properties |= {
            PropertyName.RETRY_TOPIC: self._topic(message),
            PropertyName.RECONSUME_TIME: str(times),
            PropertyName.MAX_RECONSUME_TIMES: str(most),
        }
        if delay_level >= 0:
            properties[PropertyName.DELAY] = str(
                retry_delay_level(delay_level, message.reconsume_times)
            )
        else:
            properties.pop(PropertyName.DELAY, None)  # a dead letter is one at once
        return Outgoing(
            retry_topic(self._group),
            RequestCode.SEND_MESSAGE_V2,
            message.stored_body,
            encode_properties(properties).decode("utf-8", "replace"),
            message.msg_id,
            flag=message.flag,
            sys_flag=message.sys_flag & _COMPRESSION,
            reconsume_times=times,
            max_reconsume_times=most,
        )
