"""Consumer groups: 200, 201, 207, 208 (class AdminBrokerProcessor; ``headers.md`` part C)."""

from __future__ import annotations

import logging

from ...remoting.dispatch import Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import decode_request_body, encode_body
from ...remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.group import DeleteSubscriptionGroupRequest, GetConsumeStatsRequest
from ...remoting.protocol.message import MessageQueue
from ...remoting.protocol.topic_names import group_error
from ...remoting.protocol.wire import NoFields
from ...store.message_store import MessageStore
from ..clients import Consumers
from ..config import BrokerConfig
from ..config_files import ConfigFile
from ..consumer_offsets import ConsumerOffsets
from ..subscription_groups import SubscriptionGroups
from ..topics import MAX_QUEUES_PER_TOPIC, Topic, Topics

log = logging.getLogger(__name__)


class GroupProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        groups: SubscriptionGroups,
        file: ConfigFile,
        topics: Topics,
        consumers: Consumers,
        offsets: ConsumerOffsets,
        store: MessageStore,
    ) -> None:
        self._config = config
        self._groups = groups
        self._file = file
        self._topics = topics
        self._consumers = consumers
        self._offsets = offsets
        self._store = store

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_configs,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
        }

    async def update(self, _request: NoFields, body: memoryview, ctx: Context) -> Reply:
        """Answers when the group is on the disk."""
        group = decode_request_body(SubscriptionGroupConfig, body)
        log.info("group wanted by=%s %s", ctx.peer, group)
        if error := group_error(group.group_name):
            raise RequestError(ResponseCode.SYSTEM_ERROR, error)
        if not 0 <= group.retry_queue_nums <= MAX_QUEUES_PER_TOPIC:
            remark = f"retryQueueNums must be from 0 to {MAX_QUEUES_PER_TOPIC}, not {group.retry_queue_nums}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        self._groups.update(group)
        await self._file.saved()
        return Reply()

    def all_configs(self, _request: NoFields, _body: memoryview, _ctx: Context) -> Reply:
        return Reply(body=encode_body(self._groups.record()))

    async def delete(self, request: DeleteSubscriptionGroupRequest, _body: memoryview, ctx: Context) -> Reply:
        """Also a group that nobody knows is deleted."""
        log.info("group to be deleted by=%s %s", ctx.peer, request)
        self._groups.delete(request.group_name)
        if request.remove_offset or request.clean_offset:
            self._offsets.remove_group(request.group_name)
        await self._file.saved()
        return Reply()

    def consume_stats(self, request: GetConsumeStatsRequest, _body: memoryview, _ctx: Context) -> Reply:
        """How far a group is in its topics. What an online group does not subscribe any more is left out."""
        group = self._consumers.get(request.consumer_group)
        subscribed = group.subscriptions if group is not None else {}
        names = [request.topic] if request.topic else self._offsets.topics_of(request.consumer_group)
        topics = [topic for name in names if (topic := self._topics.get(name)) is not None]
        table: dict[MessageQueue, OffsetWrapper] = {}
        for topic in topics:
            if not subscribed or topic.name in subscribed:
                table.update(self._progress(request.consumer_group, topic))
        return Reply(body=encode_body(ConsumeStats(offset_table=table)))

    def _progress(self, group: str, topic: Topic) -> dict[MessageQueue, OffsetWrapper]:
        committed = self._offsets.queues(group, topic.name)
        progress = {}
        for queue_id in range(topic.read_queue_nums):
            offset = max(0, committed.get(queue_id, 0))
            stored_at = self._store.store_timestamp_at(topic.name, queue_id, offset - 1) if offset > 0 else 0
            progress[MessageQueue(topic.name, self._config.broker_name, queue_id)] = OffsetWrapper(
                broker_offset=max(0, self._store.max_offset(topic.name, queue_id)),
                consumer_offset=offset,
                last_timestamp=max(0, stored_at),
            )
        return progress
