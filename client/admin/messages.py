"""Messages: by id, by key, by queue and offset; their trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ...remoting.errors import BrokerError, QueryNotFound, RemotingError, RocketMQError
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.pull import (
    PullMessageRequest,
    PullSysFlag,
    QueryMessageRequest,
    ViewMessageRequest,
)
from ...remoting.protocol.commands.transaction import ResumeCheckHalfMessageRequest
from ...remoting.protocol.message.message_id import format_host, parse_offset_message_id
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import PropertyName, encode_properties
from ...remoting.protocol.message.topic_names import TopicName, retry_topic
from ...remoting.protocol.record import RecordError, decode_record
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.protocol.record.salvage import read_salvaged
from ..consumer.pulling import Pulled, read_pulled, tell_damaged
from ..errors import ConfigError
from ..producer.delivery import Delivery
from ..producer.sending import Outgoing, SendResult
from ..producer.trace_records import TraceRecord, decode_trace
from .core import SLOW, TOOLS_GROUP, AdminCore

RESEND_GROUP: Final = "ReSendMsgById"
_FOREVER: Final = (1 << 63) - 1


class Traced(NamedTuple):
    """What a client told of a message."""

    record: TraceRecord
    client_host: str
    """As the broker saw it."""


class MessageOperations(AdminCore):
    async def view_message(self, offset_msg_id: str) -> MessageExt:
        """The message with this id of the broker (not of the producer). Raises ``ConfigError`` for
        what is no such id."""
        address, phy_offset = place_of(offset_msg_id)
        answer = await self._invoke(
            address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=phy_offset)
        )
        try:
            return decode_record(answer.body, check_crc=True)
        except RecordError as error:
            raise ConfigError(f"{address} has no intact message at {phy_offset}: {error}") from None

    async def query_messages(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = _FOREVER,
        missing: dict[str, RocketMQError] | None = None,
    ) -> list[MessageExt]:
        """The newest messages with this key, from all brokers of the topic, in the order they were
        stored.

        A broker gives out 64 at most (``maxMsgsNumBatch``). Delayed messages are found once they
        are delivered. Raises ``NoRouteError``.

        ``missing``: for who can do with a part. Brokers that fail are put there, by address, and it
        is raised only where the others have nothing either.
        """
        header = QueryMessageRequest(
            topic=topic,
            key=key,
            max_num=max_messages,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=False,
        )
        return await self._query(header, lambda message: key in message.keys, missing)

    async def query_by_unique_key(
        self, topic: str, unique_key: str, *, missing: dict[str, RocketMQError] | None = None
    ) -> list[MessageExt]:
        """The messages with this id of their producer, ``message.msg_id``: usually one, more when a
        send was repeated. ``missing``: as for ``query_messages``. Raises ``NoRouteError``.
        """
        header = QueryMessageRequest(
            topic=topic,
            key=unique_key,
            max_num=32,
            begin_timestamp=0,
            end_timestamp=_FOREVER,
            unique_key_query=True,
        )
        return await self._query(header, lambda message: message.msg_id == unique_key, missing)

    async def _query(
        self,
        header: QueryMessageRequest,
        wanted: Callable[[MessageExt], bool],
        missing: dict[str, RocketMQError] | None,
    ) -> list[MessageExt]:
        """``wanted``: the index of the original knows hashes only."""
        failed: dict[str, RocketMQError] = {}

        async def ask(address: str) -> list[MessageExt]:
            try:
                return await self._indexed(address, header)
            except (BrokerError, RemotingError) as error:
                if missing is None:
                    raise
                missing[address] = failed[address] = error
                return []

        told = await self._each(ask, await self._addresses_of_topic(header.topic))
        found = [m for each in told for m in each if m.topic == header.topic and wanted(m)]
        if failed and not found:
            raise next(iter(failed.values()))
        return sorted(found, key=lambda message: message.store_timestamp)[-header.max_num :]

    async def _indexed(self, address: str, header: QueryMessageRequest) -> list[MessageExt]:
        try:
            answer = await self._invoke(address, RequestCode.QUERY_MESSAGE, header, times=SLOW)
        except QueryNotFound:
            return []
        return read_salvaged(answer.body, "")[0]

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        *,
        expression: str = "*",
        expression_type: str = "TAG",
        group: str = TOOLS_GROUP,
    ) -> Pulled:
        """Messages of a queue from ``offset`` on, without waiting for new ones; nothing is
        committed. ``expression_type``: ``TAG`` or ``SQL92``; a broker compares tags by their hash
        only."""
        address = await self.instance.master_address(queue.broker_name, queue.topic)
        header = PullMessageRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_messages,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=expression,
            sub_version=0,
            expression_type=expression_type,
            bname=queue.broker_name,
        )
        answer = await self.instance.remoting.invoke(
            address, RequestCode.PULL_MESSAGE, header, timeout=self.instance.request_timeout
        )
        pulled = read_pulled(answer, address, queue)
        tell_damaged(pulled.damaged, group, queue, address)
        return pulled

    async def message_trace(
        self,
        msg_id: str,
        trace_topic: str = TopicName.TRACE,
        *,
        missing: dict[str, RocketMQError] | None = None,
    ) -> list[Traced]:
        """What producers and consumers told of a message (its ``msg_id``), in the order it was
        stored; the newest 64. ``missing``: as for ``query_messages``.

        Raises ``NoRouteError`` when nothing was ever traced.
        """
        told = await self.query_messages(trace_topic, msg_id, missing=missing)
        found = [
            (each, record)
            for each in told
            for record in decode_trace(each.body.decode("utf-8", "replace"))
        ]
        return [
            Traced(record, each.born_host.rpartition(":")[0])
            for each, record in found
            if record.msg_id == msg_id
        ]

    async def send_again(
        self, message: MessageExt, *, topic: str | None = None, group: str | None = None
    ) -> SendResult:
        """Store a copy of a message, with its id, keys, tags and own properties: in its topic, in
        ``topic``, or for ``group`` alone, which gets it as a retry of that topic. Raises
        ``NoRouteError``, ``SendFailed``."""
        topic = topic or message.topic
        system = (PropertyName.KEYS, PropertyName.TAGS, PropertyName.UNIQ_KEY)
        kept = {
            name: value for name in system if (value := message.properties.get(name)) is not None
        }
        if group is not None:
            kept[PropertyName.RETRY_TOPIC] = topic
        outgoing = Outgoing(
            topic if group is None else retry_topic(group),
            RequestCode.SEND_MESSAGE_V2,
            message.body,
            encode_properties({**message.user_properties, **kept}).decode(),
            message.msg_id,
            flag=message.flag,
        )
        return await Delivery(self.instance, RESEND_GROUP).deliver(
            outgoing, None, self.instance.request_timeout
        )

    async def resume_check_half_message(self, offset_msg_id: str) -> None:
        """Have the producer of a half message asked again that was given up. Raises ``ConfigError``
        for what is no id."""
        address, _ = place_of(offset_msg_id)
        header = ResumeCheckHalfMessageRequest(msg_id=offset_msg_id)
        await self._invoke(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)


def place_of(offset_msg_id: str) -> tuple[str, int]:
    """The address of its broker, and its phy_offset. Raises ``ConfigError``."""
    try:
        where = parse_offset_message_id(offset_msg_id)
        return format_host(where.store_host), where.phy_offset
    except ValueError as error:
        raise ConfigError(f"{offset_msg_id!r} is no offset message id: {error}") from None
