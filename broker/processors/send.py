"""Storing messages: SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE (class SendMessageProcessor; ``headers.md`` §A.1,
``broker-services.md`` §2).

The hot path of the broker. One message costs its header, its checks, one ``put`` and one answer; no dict of properties is
made, the property string is looked at and passed on as bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from ...remoting.dispatch import PENDING, Context, Handler, Outcome, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.codes import V3_4_9, RequestCode, ResponseCode
from ...remoting.protocol.commands.send import SendErrorFields, SendMessageRequest, SendMessageResponse
from ...remoting.protocol.message import BatchError, MessageSysFlag
from ...remoting.protocol.message_id import pack_host
from ...remoting.protocol.topic_names import SEND_FORBIDDEN_TOPICS, dlq_topic, is_retry_topic, topic_error
from ...store.message_store import MessageStore
from ...store.status import PutResult, PutStatus
from ..config import BrokerConfig
from ..stats import BrokerStats
from ..stored_properties import StoredProperties, not_served_yet, waits_for_store
from ..subscription_groups import SubscriptionGroups
from ..topics import Topic, Topics, topic_sys_flag

FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

_CODES: Final = {
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
}
"""Everything else is SYSTEM_ERROR."""
_PUT_OK: Final = PutStatus.PUT_OK
_NOT_HOSTS: Final = ~(MessageSysFlag.BORN_HOST_V6 | MessageSysFlag.STORE_HOST_V6)

_ILLEGAL: Final = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit %dB, msg properties length limit 32KB."
)


class SendProcessor:
    """Checks a message, stores it, answers where it lies."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        stats: BrokerStats,
        store_address: tuple[str, int],
        *,
        max_message_size: int,
        sync_flush: bool = False,
        is_writeable: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._put = store.put_message
        self._topics = topics
        self._topic_of = topics.get
        self._groups = groups
        self._stats = stats
        self._sync_flush = sync_flush
        self._is_writeable = is_writeable
        self._accept_from_ms = config.start_accept_send_request_time_stamp
        self._max_message_size = max_message_size
        self._address = store_address[0]
        self._region = config.region_id
        self._trace_on = config.trace_on
        self._refusal_fields = SendErrorFields(msg_region=config.region_id, trace_on=config.trace_on)
        self._properties = StoredProperties(config.broker_cluster_name)
        self._stored_properties = self._properties.rewrite
        self._id_prefix = pack_host(*store_address).hex().upper()
        self._random = random.Random()

    @property
    def table(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
        }

    def send(self, request: SendMessageRequest, body: memoryview, ctx: Context) -> Outcome:
        """Store a message, or a batch of them when the header says so (the request code does not)."""
        topic = self._topic_of(request.topic)
        if topic is None or not topic.sendable or ctx.received_at_ms < self._accept_from_ms:
            try:
                topic = self._unusual_topic(request, ctx)
            except RequestError as error:
                return self._refused(error.code, error.remark)
        if topic.order and not self._is_writeable():
            return self._refused(ResponseCode.NO_PERMISSION, f"the broker[{self._address}] sending message is forbidden")
        queue_id = request.queue_id
        if queue_id >= topic.max_queue_nums:
            return self._refused(ResponseCode.SYSTEM_ERROR, _bad_queue(request, topic, ctx))
        if queue_id < 0:
            queue_id = self._random.randrange(99999999) % max(1, topic.write_queue_nums)
        if request.batch:
            return self._send_batch(request, topic, queue_id, body, ctx)
        return self._send_one(request, topic, queue_id, body, ctx)

    def _send_one(self, request: SendMessageRequest, topic: Topic, queue_id: int, body: memoryview, ctx: Context) -> Outcome:
        text = request.properties or ""
        stored = self._stored_properties(text)
        if isinstance(stored, str):
            return self._refused(ResponseCode.SYSTEM_ERROR, stored)
        if topic.retry_of is not None:
            target = self._retry_target(request, topic, topic.retry_of, ctx)
            if isinstance(target, Reply):
                return target
            topic, queue_id = target, queue_id if target is topic else 0
        result = self._put(
            topic.name,
            queue_id,
            body,
            stored[0],
            ctx.connection.packed_peer,
            request.born_timestamp,
            ctx.received_at_ms,
            stored[1],
            request.flag,
            _sys_flag(request, topic),
            request.reconsume_times or 0,
        )
        if result.status is not _PUT_OK:
            return self._not_stored(result)
        msg_id = f"{self._id_prefix}{result.phy_offset:016X}"
        return self._stored(topic, queue_id, result, msg_id, ctx, self._sync_flush and waits_for_store(text))

    def _send_batch(
        self, request: SendMessageRequest, topic: Topic, queue_id: int, body: memoryview, ctx: Context
    ) -> Outcome:
        """Every message of the batch becomes a record of its own, all in one queue, one after the other."""
        text = request.properties or ""
        if (refusal := not_served_yet(text)) is not None:
            return self._refused(ResponseCode.MESSAGE_ILLEGAL, refusal)  # as the original, which never serves it in batches
        try:
            result = self._store.put_batch(
                topic.name,
                queue_id,
                body,
                self._properties.rewrite_batch(text),
                sys_flag=_sys_flag(request, topic),
                born_timestamp=request.born_timestamp,
                born_host=ctx.connection.packed_peer,
                store_timestamp=ctx.received_at_ms,
                reconsume_times=request.reconsume_times or 0,
            )
        except BatchError as error:
            return self._refused(ResponseCode.MESSAGE_ILLEGAL, f"the batch cannot be read: {error}")
        if result.status is not _PUT_OK:
            return self._not_stored(result)
        prefix = self._id_prefix
        msg_id = ",".join([f"{prefix}{offset:016X}" for offset in result.phy_offsets])
        return self._stored(topic, queue_id, result, msg_id, ctx, self._sync_flush and waits_for_store(text))

    def _stored(self, topic: Topic, queue_id: int, result: PutResult, msg_id: str, ctx: Context, wait: bool) -> Outcome:
        """Count and answer; with SYNC_FLUSH the answer waits for the disk, together with all that wait."""
        topic.put_nums += result.count
        topic.put_size_bytes += result.size
        stats = self._stats
        stats.put_messages += result.count
        stats.put_bytes += result.size
        header = SendMessageResponse(
            msg_id=msg_id,
            queue_id=queue_id,
            queue_offset=result.queue_offset,
            trace_on=self._trace_on,
            msg_region=self._region,
        )
        if not wait:
            return Reply(0, header)

        def flushed(in_time: bool) -> None:
            ctx.reply(Reply(ResponseCode.SUCCESS if in_time else ResponseCode.FLUSH_DISK_TIMEOUT, header))

        self._store.when_flushed(result.phy_offset + result.size, flushed)
        return PENDING

    # --- off the usual way ------------------------------------------------------------------------------------------

    def _unusual_topic(self, request: SendMessageRequest, ctx: Context) -> Topic:
        """The checks that a topic in daily use passes unseen. Raises ``RequestError``."""
        if ctx.received_at_ms < self._accept_from_ms:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {self._accept_from_ms} (ms since 1970)"
            )
        name = request.topic
        if (error := topic_error(name)) is not None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, error)
        if name in SEND_FORBIDDEN_TOPICS:
            raise RequestError(ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
        topic = self._topics.get(name)
        sys_flag = topic_sys_flag(name, unit_mode=request.unit_mode)
        if topic is None:
            topic = self._topics.create_on_send(
                name,
                default_topic=request.default_topic,
                queue_nums=request.default_topic_queue_nums,
                sys_flag=sys_flag,
            )
        if topic is None and is_retry_topic(name):
            topic = self._topics.create_for_broker(name, sys_flag=sys_flag)
        if topic is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!{FAQ}")
        return topic

    def _retry_target(self, request: SendMessageRequest, topic: Topic, group_name: str, ctx: Context) -> Topic | Reply:
        """A message that a consumer gives back through its producer goes to the dead letter queue after its last try."""
        group = self._groups.get(group_name)
        if group is None:
            return self._refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group_name}{FAQ}"
            )
        limit = group.retry_max_times
        if ctx.version >= V3_4_9 and request.max_reconsume_times is not None:
            limit = request.max_reconsume_times
        if (request.reconsume_times or 0) < limit:
            return topic
        return self._topics.create_for_broker(dlq_topic(group_name))

    def _not_stored(self, result: PutResult) -> Reply:
        self._stats.put_failed += 1
        code = _CODES.get(result.status, ResponseCode.SYSTEM_ERROR)
        if code is ResponseCode.MESSAGE_ILLEGAL:
            remark = _ILLEGAL % self._max_message_size
        elif result.status is PutStatus.CREATE_MAPEDFILE_FAILED:
            remark = f"create mapped file failed, server is busy or broken. {result.remark}".rstrip()
        else:
            remark = result.remark or result.status.name
        return self._refused(code, remark)

    def _refused(self, code: int, remark: str) -> Reply:
        return Reply(code, self._refusal_fields, remark=remark)


def _sys_flag(request: SendMessageRequest, topic: Topic) -> int:
    """Which addresses a record holds is for the store to say: a client's bits would make the record unreadable."""
    sys_flag = request.sys_flag & _NOT_HOSTS
    return sys_flag | MessageSysFlag.MULTI_TAGS if topic.multi_tag else sys_flag


def _bad_queue(request: SendMessageRequest, topic: Topic, ctx: Context) -> str:
    return f"request queueId[{request.queue_id}] is illegal, {topic.config} Producer: {ctx.peer}"
