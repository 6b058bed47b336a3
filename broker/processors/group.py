"""Consumer groups: 200, 201, 207, 208, and 225 of 5.x (class AdminBrokerProcessor; ``headers.md``
part C)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import decode_request_body, encode_in_slices
from ...remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from ...remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
)
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.group import (
    DeleteSubscriptionGroupRequest,
    GetConsumeStatsRequest,
)
from ...remoting.protocol.commands.topic import KnownTableRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import group_error
from ...remoting.protocol.wire import NoFields
from ...remoting.sliced_requests import SlicedRequests
from ...remoting.slices import Steps, slices
from ..monitoring.consume_progress import ConsumeProgress, check_queue_count
from ..state.config_files import Settled
from ..state.consumer_offsets import ConsumerOffsets
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import MAX_QUEUES_PER_TOPIC
from .lists import PER_TURN, decode_request_list

log: Final = logging.getLogger(__name__)


class GroupProcessor:
    def __init__(
        self,
        groups: SubscriptionGroups,
        settled: Settled,
        offsets: ConsumerOffsets,
        progress: ConsumeProgress,
        max_queues: int,
    ) -> None:
        """``max_queues``: of an answer."""
        self._max_queues = max_queues
        self._sliced = SlicedRequests()
        self._groups = groups
        self._settled = settled
        self._offsets = offsets
        self._progress = progress

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.update_all,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._sliced.handler(self.all_configs),
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_CONSUME_STATS: self._sliced.handler(self.consume_stats),
        }

    async def update(self, _request: NoFields, body: Body, ctx: Context) -> Reply:
        """Answers when the group is on the disk."""
        group = decode_request_body(SubscriptionGroupConfig, body)
        log.info("group wanted by=%s %s", ctx.peer, group)
        _check(group)
        self._groups.update(group)
        await self._settled()
        return Reply()

    async def update_all(self, _request: NoFields, body: Body, ctx: Context) -> Reply:
        """Several groups; none of them if there is one that cannot be."""
        wanted = decode_request_list(SubscriptionGroupList, body).group_config_list
        log.info("groups wanted by=%s count=%d", ctx.peer, len(wanted))
        for group in wanted:
            _check(group)
        await self._sliced.alone(self._update_in_slices(wanted), ctx.connection)
        await self._settled()
        return Reply()

    def _update_in_slices(self, wanted: Iterable[SubscriptionGroupConfig]) -> Steps[None]:
        for some in slices(wanted, PER_TURN):
            for group in some:
                self._groups.update(group)
            yield

    def all_configs(self, request: KnownTableRequest, _body: Body, _ctx: Context) -> Steps[Reply]:
        """None, to a slave that has them."""
        if request.known == self._groups.data_version.text:
            return Reply()
        return Reply(body=(yield from encode_in_slices(self._groups.record())))

    async def delete(
        self, request: DeleteSubscriptionGroupRequest, _body: Body, ctx: Context
    ) -> Reply:
        """Also a group that nobody knows is deleted."""
        log.info("group to be deleted by=%s %s", ctx.peer, request)
        self._groups.delete(request.group_name)
        offsets_too = bool(request.remove_offset or request.clean_offset)
        if offsets_too:
            await self._sliced.alone(self._offsets.remove_group(request.group_name), ctx.connection)
        await self._settled(offsets_too=offsets_too)
        return Reply()

    def consume_stats(
        self, request: GetConsumeStatsRequest, _body: Body, _ctx: Context
    ) -> Steps[Reply]:
        """How far a group is in its topics. What an online group does not subscribe any more is
        left out."""
        group, progress = request.consumer_group, self._progress
        if request.topic:
            topic = progress.topic_of(group, request.topic)
            topics = [] if topic is None else [topic]
        else:
            topics = yield from progress.topics_of(group)
        check_queue_count(sum(topic.read_queue_nums for topic in topics), self._max_queues)
        table: dict[MessageQueue, OffsetWrapper] = {}
        tps = 0.0
        for topic in topics:
            found = yield from progress.of_topic(group, topic, topic.read_queue_nums)
            table.update(found.offset_table)
            tps += found.consume_tps
        return Reply(
            body=(yield from encode_in_slices(ConsumeStats(offset_table=table, consume_tps=tps)))
        )


def _check(group: SubscriptionGroupConfig) -> None:
    """Raises ``RequestError`` for a group that cannot be."""
    if error := group_error(group.group_name):
        raise RequestError(ResponseCode.SYSTEM_ERROR, error)
    if not 0 <= group.retry_queue_nums <= MAX_QUEUES_PER_TOPIC:
        remark = (
            f"retryQueueNums must be from 0 to {MAX_QUEUES_PER_TOPIC}, not {group.retry_queue_nums}"
        )
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
