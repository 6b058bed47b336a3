"""A consumer gives a message back: CONSUMER_SEND_MSG_BACK (36; class SendMessageProcessor;
``broker-services.md`` §2.5).

A copy with one attempt more goes to the retry topic of the group, by way of the schedule topic:
each attempt waits longer than the one before. After its last attempt it goes to the dead letter
queue.
"""

from __future__ import annotations

import logging
import random
from typing import Final

from ...remoting.dispatch import PENDING, Body, Context, Outcome, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import ConsumerSendMsgBackRequest
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.retries import (
    is_dead_letter,
    retry_delay_level,
    retry_limit_at_broker,
)
from ...remoting.protocol.message.topic_names import dlq_topic, retry_topic
from ...remoting.protocol.record import RecordError, decode_record
from ...remoting.protocol.record.decode import MessageExt
from ...store.model.status import PutResult, PutStatus
from ..config.config import BrokerConfig
from ..sends.dead_letters import tell_given_up
from ..sends.durability import REMARKS, Durability
from ..sends.new_topics import NewTopics
from ..sends.placement import encoded_properties, put_copy
from ..sends.put_context import PutContext
from ..sends.send_gate import SendGate
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import Topic, topic_sys_flag
from .send import FAQ

log: Final = logging.getLogger(__name__)

_DLQ_QUEUE_ID: Final = 0
_AS_SAFE_AS_SENDS: Final = {
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
}
"""The producer of a message takes it for sent; asked for another copy, a consumer would have two.
"""


class SendBackProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        context: PutContext,
        groups: SubscriptionGroups,
        gate: SendGate,
        durability: Durability,
        new_topics: NewTopics,
    ) -> None:
        """``durability``, ``new_topics``: what answers wait for, as those to sends do: a consumer
        goes past a message once it was taken back. (In the original a power failure may lose it
        then.)"""
        self._durability = durability
        self._new_topics = new_topics
        self._config = config
        self._store = context.store
        self._topics = context.topics
        self._groups = groups
        self._stats = context.stats
        self._placements = context.placements
        self._dead_letters = context.dead_letters
        self._gate = gate
        self._random = random.Random()

    @property
    def table(self) -> ProcessorTable:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    def send_back(self, request: ConsumerSendMsgBackRequest, _body: Body, ctx: Context) -> Outcome:
        self._gate.check_busy()
        group = self._groups.get(request.group)
        if group is None:
            remark = f"subscription group not exist, {request.group} {FAQ}"
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not self._config.is_writeable:
            remark = f"the broker[{self._config.broker_ip1}] sending message is forbidden"
            raise RequestError(ResponseCode.NO_PERMISSION, remark)
        if group.retry_queue_nums <= 0:  # as in the original, but for the line
            ctx.connection.outages.occurs(
                log,
                ("dropped", request.group),
                "a message that could not be consumed is dropped, its group has retryQueueNums=0 "
                "group=%s phy_offset=%d",
                request.group,
                request.offset,
            )
            return Reply()
        topic = self._retry_topic(request, group.retry_queue_nums)
        queue_id = self._random.randrange(
            max(1, min(group.retry_queue_nums, topic.write_queue_nums))
        )
        message = self._look_up(request.offset, ctx)
        properties = message.properties
        properties.setdefault(PropertyName.RETRY_TOPIC, message.topic)
        properties[PropertyName.WAIT] = "false"  # as the original, which waits for nobody here
        limit = retry_limit_at_broker(
            group.retry_max_times, request.max_reconsume_times, ctx.version
        )
        if is_dead_letter(message.reconsume_times, limit, request.delay_level):
            topic, queue_id = (
                self._topics.create_for_broker(dlq_topic(request.group)),
                _DLQ_QUEUE_ID,
            )
            properties[PropertyName.DELAY] = "0"
            tell_given_up(ctx.connection.outages, request.group, message.msg_id)
        else:
            level = retry_delay_level(request.delay_level, message.reconsume_times)
            properties[PropertyName.DELAY] = str(level)
        properties.setdefault(
            PropertyName.ORIGIN_MESSAGE_ID, self._store.message_id(request.offset)
        )
        self._put(message, topic, queue_id, properties, ctx)
        places = topic.name, dlq_topic(request.group)
        if ctx.oneway or not (self._durability.waits or self._new_topics.lacks(places)):
            return Reply()

        def stored(code: int) -> None:
            self._new_topics.when_saved(places, lambda unsaved: ctx.reply(_answer(unsaved or code)))

        if self._durability.waits:
            self._durability.when_all_stored(stored)
        else:
            stored(ResponseCode.SUCCESS)
        return PENDING

    def _retry_topic(self, request: ConsumerSendMsgBackRequest, queue_nums: int) -> Topic:
        """Raises ``RequestError`` when it cannot be made or must not be written to."""
        name = retry_topic(request.group)
        sys_flag = topic_sys_flag(name, unit_mode=request.unit_mode)
        topic = self._topics.create_for_broker(name, queue_nums=queue_nums, sys_flag=sys_flag)
        if not topic.writeable:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden"
            )
        return topic

    def _look_up(self, phy_offset: int, ctx: Context) -> MessageExt:
        record = self._store.message_by_offset(phy_offset)
        try:  # with its CRC: it gets a new one when it is stored again
            if (
                record is not None
                and (message := decode_record(record, check_crc=True)).commit_log_offset
                == phy_offset
            ):
                return message
        except RecordError as error:
            ctx.connection.outages.occurs(
                log,
                ("send back",),
                "record cannot be read phy_offset=%d error=%s",
                phy_offset,
                error,
            )
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {phy_offset}"
        )

    def _put(
        self,
        message: MessageExt,
        topic: Topic,
        queue_id: int,
        properties: dict[str, str],
        ctx: Context,
    ) -> None:
        """Raises ``RequestError`` for anything but success. What is refused for good goes to the
        dead letters of the group: its consumer would give it back again and again, and never get
        past it."""
        group = ctx.request.group
        placement = self._placements.place(
            topic.name, queue_id, properties, message.sys_flag, ctx.received_at_ms
        )
        result = put_copy(
            self._store.put_message, message, placement, ctx.received_at_ms, attempts=1
        )
        refusal: PutResult | None = result
        if result.status is PutStatus.PUT_OK:
            refusal = None
            self._stats.stored(
                result, self._topics.get(placement.topic) or topic, placement.queue_id
            )
        elif result.status.is_for_good:
            kept = encoded_properties(properties)
            refusal = self._dead_letters.take(
                message, result, dlq_topic(group), ctx.received_at_ms, kept
            )
        if refusal is not None:
            self._stats.put_failed += 1
            raise RequestError(ResponseCode.SYSTEM_ERROR, refusal.status.name)
        self._stats.sent_back(message.topic, group)


def _answer(code: int) -> Reply:
    """For a message that was stored, and is as safe as ``code`` says."""
    if code in _AS_SAFE_AS_SENDS:
        return Reply()
    if code == ResponseCode.FLUSH_DISK_TIMEOUT:
        return Reply(ResponseCode.SYSTEM_ERROR, remark=PutStatus.FLUSH_DISK_TIMEOUT.name)
    return Reply(code, remark=REMARKS.get(code))
