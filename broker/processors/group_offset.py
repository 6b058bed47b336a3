"""Where groups stand, and moving them: 222, 303, 308, 314 (classes AdminBrokerProcessor,
Broker2Client; ``headers.md`` B.7 and part C)."""

from __future__ import annotations

import logging
import time
from typing import Final

from ...remoting.clock import Clock
from ...remoting.dispatch import NOT_SET_REMARK, Body, Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import encode_in_slices
from ...remoting.protocol.bodies.consumer_offsets import QueryCorrectionOffsetBody
from ...remoting.protocol.bodies.reset import MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC
from ...remoting.protocol.bodies.stats import QueryConsumeTimeSpanBody, QueueTimeSpan
from ...remoting.protocol.codes import (
    V3_0_7_SNAPSHOT,
    LanguageCode,
    RequestCode,
    ResponseCode,
    version_name,
)
from ...remoting.protocol.commands.offset import (
    CloneGroupOffsetRequest,
    QueryConsumeTimeSpanRequest,
    QueryCorrectionOffsetRequest,
    ResetOffsetRequest,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.sliced_requests import SlicedRequests
from ...remoting.slices import Steps, slices
from ...remoting.transport.direct_write import MUCH_BYTES
from ...store.message_store import MessageStore
from ..config.config import BrokerConfig
from ..monitoring.consume_progress import check_queue_count
from ..state.client_watch import TOLD_AT_ONCE
from ..state.clients import ClientChannel, Consumers
from ..state.consumer_offsets import NO_OFFSET, ConsumerOffsets
from ..state.topics import Topic, Topics

log: Final = logging.getLogger(__name__)

TO_THE_END: Final = -1
"""The ``timestamp`` of a reset that skips everything."""
NOBODY_BEHIND: Final = 2**63 - 1
_CLONED_AT_ONCE: Final = 1000
_AT_ONCE: Final = 16
"""Queues that are looked at in one turn of the loop."""


class GroupOffsetProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        consumers: Consumers,
        offsets: ConsumerOffsets,
        store: MessageStore,
        clock: Clock,
        max_queues: int,
    ) -> None:
        """``max_queues``: of an answer."""
        self._max_queues = max_queues
        self._sliced = SlicedRequests()
        self._broker_name = config.broker_name
        self._topics = topics
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._clock = clock

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self._sliced.handler(self.reset),
            RequestCode.QUERY_CONSUME_TIME_SPAN: self._sliced.handler(self.time_span),
            RequestCode.QUERY_CORRECTION_OFFSET: self._sliced.handler(self.correction),
            RequestCode.CLONE_GROUP_OFFSET: self._sliced.handler(self.clone),
        }

    # --- reset
    # ----------------------------------------------------------------------------------------------

    def reset(self, request: ResetOffsetRequest, _body: Body, ctx: Context) -> Steps[Reply]:
        """Tell every consumer of the group where to go on; they commit it themselves.

        The table of this broker is left alone: whatever the consumers still hold would be committed
        over it. For a group that is not online (206) administrators commit the offsets themselves
        (code 15).
        """
        log.info("offsets to be reset by=%s %s", ctx.peer, request)
        topic = self._topics.get(request.topic)
        if topic is None:
            remark = (
                "[reset-offset] reset offset failed, no topic in this broker. "
                f"topic={request.topic}"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        check_queue_count(topic.write_queue_nums, self._max_queues)
        targets = yield from self._reset_targets(topic, request)
        channels = self._channels_to_reset(request)
        if ctx.language is LanguageCode.CPP:
            rows = [
                MessageQueueForC(
                    topic=q.topic, broker_name=q.broker_name, queue_id=q.queue_id, offset=offset
                )
                for q, offset in targets.items()
            ]
            pushed = yield from encode_in_slices(ResetOffsetBodyForC(offset_table=rows))
        else:
            pushed = yield from encode_in_slices(ResetOffsetBody(offset_table=targets))
        header = ResetOffsetRequest(
            topic=request.topic, group=request.group, timestamp=request.timestamp
        )
        for some in slices(channels, TOLD_AT_ONCE if len(pushed) < MUCH_BYTES else 1):
            for channel in some:
                if not channel.connection.closed:
                    channel.connection.invoke_oneway(
                        RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, pushed
                    )
            yield  # it leaves, and counts for the memory budget, before there is more
        answer = yield from encode_in_slices(ResetOffsetBody(offset_table=targets))
        return Reply(body=answer, remark=NOT_SET_REMARK)

    def _reset_targets(
        self, topic: Topic, request: ResetOffsetRequest
    ) -> Steps[dict[MessageQueue, int]]:
        """Raises ``RequestError`` when the group has no offset in one of the queues."""
        targets: dict[MessageQueue, int] = {}
        for queue_id in range(topic.write_queue_nums):
            offset = self._offsets.get(request.group, topic.name, queue_id)
            if offset == NO_OFFSET:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR, f"THe consumer group <{request.group}> not exist"
                )
            target = self._offset_at(topic.name, queue_id, request.timestamp)
            if not request.is_force:
                target = min(target, offset)
            targets[MessageQueue(topic.name, self._broker_name, queue_id)] = target
            if queue_id % _AT_ONCE == _AT_ONCE - 1:
                yield
        return targets

    def _offset_at(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp == TO_THE_END:
            return self._store.max_offset(topic, queue_id)
        return max(0, self._store.entries.offset_by_time(topic, queue_id, timestamp))

    def _channels_to_reset(self, request: ResetOffsetRequest) -> list[ClientChannel]:
        """All members of the group. Raises ``RequestError`` when there is none, or one that would
        not understand."""
        group = self._consumers.get(request.group)
        if group is None:
            raise RequestError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"the consumer group[{request.group}] is not online, its offsets cannot be reset "
                "through its consumers, "
                f"topic[{request.topic}]",
            )
        channels = list(group.channels.values())
        for channel in channels:
            check_version(channel, V3_0_7_SNAPSHOT)
        return channels

    # --- looking
    # ----------------------------------------------------------------------------------------------

    def time_span(
        self, request: QueryConsumeTimeSpanRequest, _body: Body, _ctx: Context
    ) -> Steps[Reply]:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist")
        check_queue_count(topic.write_queue_nums, self._max_queues)
        spans = []
        for queue_id in range(topic.write_queue_nums):
            spans.append(self._span(topic.name, queue_id, request.group))
            if queue_id % _AT_ONCE == _AT_ONCE - 1:
                yield
        return Reply(
            body=(
                yield from encode_in_slices(QueryConsumeTimeSpanBody(consume_time_span_set=spans))
            )
        )

    def _span(self, topic: str, queue_id: int, group: str) -> QueueTimeSpan:
        """When the first, the last and the last consumed message were stored; how long the next one
        waits already."""
        stored_at = self._store.entries.stored_at
        end = self._store.max_offset(topic, queue_id)
        offset = self._offsets.get(group, topic, queue_id)
        first, last = (
            self._store.entries.first_stored_at(topic, queue_id),
            stored_at(topic, queue_id, end - 1),
        )
        consumed = stored_at(topic, queue_id, offset - 1) if offset > 0 else first
        waits_since = stored_at(topic, queue_id, offset) if offset < end else -1
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._broker_name, queue_id),
            min_time_stamp=first,
            max_time_stamp=last,
            consume_time_stamp=consumed,
            delay_time=self._clock.time_ms() - waits_since if waits_since >= 0 else 0,
            min_time_stamp_str=_local_time(first),
            max_time_stamp_str=_local_time(last),
            consume_time_stamp_str=_local_time(consumed),
        )

    def correction(
        self, request: QueryCorrectionOffsetRequest, _body: Body, _ctx: Context
    ) -> Steps[Reply]:
        """Of each queue the offset of the group that is furthest back, where that is behind
        ``compare_group``.

        Groups in ``filter_groups`` do not count (the original forgets their offsets for good when
        it is asked this).
        """
        without = frozenset((request.filter_groups or "").split(","))
        topic, store = request.topic, self._store
        least = yield from self._offsets.least(
            topic, lambda queue_id: store.min_offset(topic, queue_id), without
        )
        for queue_id, offset in self._offsets.queues(request.compare_group, topic).items():
            if least.get(queue_id, NOBODY_BEHIND) > offset:
                least[queue_id] = NOBODY_BEHIND
        return Reply(
            body=(yield from encode_in_slices(QueryCorrectionOffsetBody(correction_offsets=least)))
        )

    # --- clone
    # ----------------------------------------------------------------------------------------------

    def clone(self, request: CloneGroupOffsetRequest, _body: Body, ctx: Context) -> Steps[Reply]:
        """``dest_group`` goes on where ``src_group`` stands, in one topic or in all (the original
        does nothing then)."""
        source = request.src_group
        named = request.topic and request.topic.strip()
        names = (
            [request.topic]
            if request.topic and named
            else (yield from self._offsets.topics_of(source))
        )
        cloned: list[str] = []
        for some in slices(names, _CLONED_AT_ONCE):
            cloned += [
                name
                for name in some
                if self._may_clone(request, name) and self._clone(request, name)
            ]
            yield
        log.info(
            "offsets cloned by=%s from=%s to=%s count=%d topics=%s",
            ctx.peer, source, request.dest_group, len(cloned), ",".join(cloned[:20]),
        )  # fmt: skip
        return Reply()

    def _clone(self, request: CloneGroupOffsetRequest, topic: str) -> bool:
        return self._offsets.clone(request.src_group, request.dest_group, topic)

    def _may_clone(self, request: CloneGroupOffsetRequest, topic: str) -> bool:
        """Not for a topic that is gone; nor, unless ``offline``, for one that the online group does
        not subscribe."""
        if self._topics.get(topic) is None:
            return False
        group = self._consumers.get(request.src_group)
        return (
            request.offline
            or group is None
            or not group.subscriptions
            or topic in group.subscriptions
        )


def check_version(channel: ClientChannel, least: int) -> None:
    """Raises ``RequestError`` for a client that is too old to be asked."""
    if channel.version < least:
        remark = (
            f"the client {channel.client_id} does not support this, its version is "
            f"{version_name(channel.version)}"
        )
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark)


def _local_time(ms: int) -> str:
    """As the original writes it: ``1970-01-01#00:00:00:000``."""
    seconds, millis = divmod(ms, 1000)
    return f"{time.strftime('%Y-%m-%d#%H:%M:%S', time.localtime(seconds))}:{millis:03d}"
