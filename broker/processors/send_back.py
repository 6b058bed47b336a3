"""A consumer gives a message back: CONSUMER_SEND_MSG_BACK (36; class SendMessageProcessor; ``broker-services.md`` §2.5).

A copy with one attempt more goes to the retry topic of the group, after its last attempt to the dead letter queue. Without a
schedule service a copy that waits would never come back: it is stored in the retry topic at once (``docs/differences.md``).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Final

from ...remoting.dispatch import Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.codes import V3_4_9, RequestCode, ResponseCode
from ...remoting.protocol.commands.send import ConsumerSendMsgBackRequest
from ...remoting.protocol.message import MessageExt
from ...remoting.protocol.properties import MessageError, PropertyName, encode_properties, tags_code_of
from ...remoting.protocol.record import RecordError, decode_record
from ...remoting.protocol.sys_flag import MessageSysFlag
from ...remoting.protocol.topic_names import dlq_topic, retry_topic
from ...store.message_store import MessageStore
from ...store.status import PutStatus
from ..config import BrokerConfig
from ..stats import BrokerStats
from ..subscription_groups import SubscriptionGroups
from ..topics import Topic, Topics, topic_sys_flag
from .send import FAQ

log = logging.getLogger(__name__)

FIRST_DELAY_LEVEL: Final = 3
"""The first retry of a message waits 10 s, each one longer than the one before."""
_HOSTS: Final = MessageSysFlag.BORN_HOST_V6 | MessageSysFlag.STORE_HOST_V6


class SendBackProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        stats: BrokerStats,
        *,
        is_writeable: Callable[[], bool] = lambda: True,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._stats = stats
        self._is_writeable = is_writeable
        self._random = random.Random()

    @property
    def table(self) -> ProcessorTable:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    def send_back(self, request: ConsumerSendMsgBackRequest, _body: memoryview, ctx: Context) -> Reply:
        group = self._groups.get(request.group)
        if group is None:
            remark = f"subscription group not exist, {request.group} {FAQ}"
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not self._is_writeable():
            remark = f"the broker[{self._config.broker_ip1}] sending message is forbidden"
            raise RequestError(ResponseCode.NO_PERMISSION, remark)
        if group.retry_queue_nums <= 0:
            return Reply()  # a group without retry queues drops what it could not consume
        target = self._retry_topic(request, group.retry_queue_nums)
        message = self._look_up(request.offset)
        properties = message.properties
        properties.setdefault(PropertyName.RETRY_TOPIC, message.topic)
        properties[PropertyName.WAIT] = "false"
        limit = group.retry_max_times
        if ctx.version >= V3_4_9 and request.max_reconsume_times is not None:
            limit = request.max_reconsume_times
        if message.reconsume_times >= limit or request.delay_level < 0:
            target = self._topics.create_for_broker(dlq_topic(request.group))
            properties[PropertyName.DELAY] = "0"
        else:
            level = request.delay_level or FIRST_DELAY_LEVEL + message.reconsume_times
            properties[PropertyName.DELAY] = str(level)
        properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, self._store.message_id(request.offset))
        self._put(message, target, properties, ctx)
        return Reply()

    def _retry_topic(self, request: ConsumerSendMsgBackRequest, queue_nums: int) -> Topic:
        """Raises ``RequestError`` when it cannot be made or must not be written to."""
        name = retry_topic(request.group)
        sys_flag = topic_sys_flag(name, unit_mode=request.unit_mode)
        topic = self._topics.create_for_broker(name, queue_nums=queue_nums, sys_flag=sys_flag)
        if not topic.writeable:
            raise RequestError(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
        return topic

    def _look_up(self, phy_offset: int) -> MessageExt:
        record = self._store.message_by_offset(phy_offset)
        try:
            if record is not None and (message := decode_record(record)).commit_log_offset == phy_offset:
                return message
        except RecordError as error:
            log.warning("record cannot be read phy_offset=%d error=%s", phy_offset, error)
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {phy_offset}")

    def _put(self, message: MessageExt, target: Topic, properties: dict[str, str], ctx: Context) -> None:
        """Raises ``RequestError`` for anything but success, also when the message is stored but not safe yet."""
        try:
            encoded = encode_properties(properties)
        except MessageError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        result = self._store.put_message(
            target.name,
            self._random.randrange(max(1, target.write_queue_nums)),
            message.stored_body,
            encoded,
            tags_code=tags_code_of(encoded),
            flag=message.flag,
            sys_flag=message.sys_flag & ~_HOSTS,
            born_timestamp=message.born_timestamp,
            born_host=message.head.born_host,
            store_timestamp=ctx.received_at_ms,
            reconsume_times=message.reconsume_times + 1,
        )
        if result.status is not PutStatus.PUT_OK:
            self._stats.put_failed += 1
            raise RequestError(ResponseCode.SYSTEM_ERROR, result.status.name)
        self._stats.put_messages += 1
        self._stats.put_bytes += result.size
        self._stats.send_back_messages += 1
        target.put_nums += 1
        target.put_size_bytes += result.size
