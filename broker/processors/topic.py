"""Topics: 17, 21, 202, 215, 300, 305, 316, and 18 and 351 of 5.x (class AdminBrokerProcessor;
``headers.md`` part C)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from msgspec.structs import replace

from ...remoting.dispatch import NOT_SET_REMARK, Body, Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import encode_body, encode_in_slices
from ...remoting.protocol.bodies.lists import GroupList, TopicList
from ...remoting.protocol.bodies.stats import TopicOffset, TopicStatsTable
from ...remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigList, TopicFilterType
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.base import TopicRequest
from ...remoting.protocol.commands.topic import CreateTopicRequest, KnownTableRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.wire import EmptyFields, NoFields
from ...remoting.sliced_requests import SlicedRequests, in_slices
from ...remoting.slices import Steps, at_once, slices
from ...store.message_store import MessageStore
from ..config.config import BrokerConfig
from ..monitoring.consume_progress import QUEUES_AT_ONCE, check_queue_count
from ..registry.name_servers import NameServers
from ..state.clients import Consumers
from ..state.config_files import Settled
from ..state.consumer_offsets import ConsumerOffsets
from ..state.topics import MAX_QUEUES_PER_TOPIC, Topic, Topics
from .lists import PER_TURN, decode_request_list

log: Final = logging.getLogger(__name__)

_TOLD: Final = 10
"""So many queues are named."""


class TopicProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        settled: Settled,
        name_servers: NameServers,
        consumers: Consumers,
        offsets: ConsumerOffsets,
        store: MessageStore,
        max_queues: int,
    ) -> None:
        """``max_queues``: of an answer."""
        self._max_queues = max_queues
        self._sliced = SlicedRequests()
        self._config = config
        self._topics = topics
        self._settled = settled
        self._name_servers = name_servers
        self._consumers = consumers
        self._offsets = offsets
        self._store = store

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.update,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.update_all,
            RequestCode.GET_TOPIC_CONFIG: self.config_of,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._sliced.handler(self.all_configs),
            RequestCode.GET_TOPIC_STATS_INFO: self._sliced.handler(self.stats),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self._sliced.handler(self.consumed_by),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
        }

    async def update(self, request: CreateTopicRequest, _body: Body, ctx: Context) -> Reply:
        """Answers when the topic is on the disk and the name servers that can be reached know
        it."""
        log.info("topic wanted by=%s %s", ctx.peer, request)
        self._topics.check_name(request.topic)
        known = self._made(_topic_config(request))
        await self._settled()
        await self._name_servers.announce(known)
        return Reply(remark=await self._tell_hidden(known) or NOT_SET_REMARK)

    async def update_all(self, _request: NoFields, body: Body, ctx: Context) -> Reply:
        """Several topics; none of them if there is one that cannot be."""
        wanted = decode_request_list(TopicConfigList, body).topic_config_list
        log.info("topics wanted by=%s count=%d", ctx.peer, len(wanted))
        for config in wanted:
            self._topics.check_name(config.topic_name)
            _check_queue_nums(config.read_queue_nums, config.write_queue_nums)
        made = await self._sliced.alone(self._make_in_slices(wanted), ctx.connection)
        await self._settled()
        await self._name_servers.announce(*made)
        for topic in made:
            await self._tell_hidden(topic)
        return Reply()

    def _make_in_slices(self, wanted: Iterable[TopicConfig]) -> Steps[list[Topic]]:
        made: list[Topic] = []
        for some in slices(wanted, PER_TURN):
            made += [self._made(replace(config, order=False)) for config in some]
            yield
        return made

    def _made(self, config: TopicConfig) -> Topic:
        known = self._topics.get(config.topic_name)
        return self._topics.update(config) if known is None or known.config != config else known

    async def _tell_hidden(self, topic: Topic) -> str | None:
        """That there are queues whose messages nobody is given: the original takes such numbers
        without a word."""
        name, read, written = topic.name, topic.read_queue_nums, topic.write_queue_nums
        if not topic.readable:
            return None
        problems = []
        if read < written and topic.writeable:
            problems.append(f"what is sent to the queues {read}..{written - 1} is not given out")
        if unread := await self._unread_behind(name, read):
            queues = ", ".join(map(str, unread[:_TOLD]))
            problems.append(f"messages in {len(unread)} queues ({queues}) are not given out")
        if not problems:
            return None
        text = f"{' and '.join(problems)}: the topic {name} has readQueueNums={read}"
        log.warning("%s", text)
        return text

    async def _unread_behind(self, topic: str, read_queues: int) -> list[int]:
        """Queues from that number on, with messages that a group of the topic, or nobody, has
        had."""
        store = self._store
        queues = [number for number in store.queue_ids(topic) if number >= read_queues]
        groups = await in_slices(self._offsets.groups_of(topic)) if queues else []
        had = [self._offsets.queues(group, topic) for group in groups]
        return [
            number
            for number in sorted(queues)
            if min((each.get(number, 0) for each in had), default=0)
            < store.max_offset(topic, number)
            and store.min_offset(topic, number) < store.max_offset(topic, number)
        ]

    def config_of(self, request: TopicRequest, _body: Body, _ctx: Context) -> Reply:
        """The topic as 5.x wants it: what it has besides (attributes, queues of static topics) is
        absent here."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {request.topic}"
            )
        return Reply(body=encode_body(topic.config))

    def all_configs(self, request: KnownTableRequest, _body: Body, _ctx: Context) -> Steps[Reply]:
        """None, to a slave that has them."""
        if request.known == self._topics.data_version.text:
            return Reply(header=EmptyFields())
        return Reply(
            header=EmptyFields(), body=(yield from encode_in_slices(self._topics.record()))
        )

    def stats(self, request: TopicRequest, _body: Body, _ctx: Context) -> Steps[Reply]:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist")
        broker = self._config.broker_name
        check_queue_count(topic.write_queue_nums, self._max_queues)
        table: dict[MessageQueue, TopicOffset] = {}
        for some in slices(range(topic.write_queue_nums), QUEUES_AT_ONCE):
            for queue_id in some:
                table[MessageQueue(topic.name, broker, queue_id)] = self._offsets_of(
                    topic.name, queue_id
                )
            yield
        return Reply(body=(yield from encode_in_slices(TopicStatsTable(offset_table=table))))

    def _offsets_of(self, topic: str, queue_id: int) -> TopicOffset:
        low = max(0, self._store.min_offset(topic, queue_id))
        high = max(0, self._store.max_offset(topic, queue_id))
        updated = self._store.entries.last_stored_at(topic, queue_id)
        return TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=updated)

    def consumed_by(self, request: TopicRequest, _body: Body, _ctx: Context) -> Steps[Reply]:
        """Groups that are online, and those that have ever committed an offset."""
        groups = self._consumers.groups_subscribed(request.topic) + (
            yield from self._offsets.groups_of(request.topic)
        )
        return Reply(body=encode_body(GroupList(group_list=tuple(dict.fromkeys(groups)))))

    def system_topics(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        return Reply(body=encode_body(TopicList(topic_list=tuple(self._topics.system_topics()))))


class TopicDeletionProcessor:
    """Topics that go, with their queues and with how far groups are in them; and queues of which no
    topic is left."""

    def __init__(
        self,
        topics: Topics,
        settled: Settled,
        in_log: Callable[[str], Awaitable[None]],
        name_servers: NameServers,
        offsets: ConsumerOffsets,
        store: MessageStore,
        leads: Callable[[], bool],
    ) -> None:
        """``in_log`` has the deletion of a topic committed, where this is the leader of a group
        (``TableLog.deleted``). ``leads``: it is that, or no member of one."""
        self._sliced = SlicedRequests()
        self._topics = topics
        self._settled = settled
        self._in_log = in_log
        self._name_servers = name_servers
        self._offsets = offsets
        self._store = store
        self._leads = leads

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_unused,
        }

    async def delete(self, request: TopicRequest, _body: Body, ctx: Context) -> Reply:
        """Also a topic that nobody knows is deleted. The name servers are told by whoever asked
        (code 216)."""
        log.info("topic to be deleted by=%s topic=%s", ctx.peer, request.topic)
        self._topics.check_name(request.topic)
        await self._delete(request.topic, ctx)
        await self._settled(offsets_too=True)
        await self._name_servers.have_heard()
        return Reply()

    async def clean_unused(self, _request: NoFields, _body: Body, ctx: Context) -> Reply:
        """Delete the queues of topics that are not in the table any more. A member of a group that
        does not lead has nothing to do: its table may lack what is new, and the log tells."""
        deleted = []
        for topic in self._store.deletable_topics() if self._leads() else ():
            if topic not in self._topics:
                await self._delete(topic, ctx)
                deleted.append(topic)
        log.info("unused topics cleaned by=%s topics=%s", ctx.peer, deleted)
        return Reply()

    async def _delete(self, topic: str, ctx: Context) -> None:
        """Once begun it is done to the end, also when the broker stops meanwhile: else a topic of
        that name that is made later would go on with the old numbers in the queues that are left,
        and its groups would pass over as many messages as the old one had. In a group the queues go
        when the log says so: a leader that is none any more may lead again, and then all messages
        have to be there."""
        with self._topics.deleting(topic):
            self._topics.delete(topic)
            await self._in_log(topic)
            try:
                await self._sliced.alone(self._forget(topic), ctx.connection)
            except asyncio.CancelledError:
                at_once(self._forget(topic))
                raise

    def _forget(self, topic: str) -> Steps[None]:
        yield from self._store.delete_topic_in_slices(topic)
        yield from self._offsets.remove_topic(topic)


def _topic_config(request: CreateTopicRequest) -> TopicConfig:
    """Raises ``RequestError`` for what cannot be. ``order`` does not count: the name servers say
    what is ordered."""
    if request.topic_filter_type not in TopicFilterType.__members__:
        known = ", ".join(TopicFilterType.__members__)
        remark = (
            f"topicFilterType = [{request.topic_filter_type}] value invalid, it must be one of "
            f"{known}"
        )
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
    _check_queue_nums(request.read_queue_nums, request.write_queue_nums)
    return TopicConfig(
        topic_name=request.topic,
        read_queue_nums=request.read_queue_nums,
        write_queue_nums=request.write_queue_nums,
        perm=request.perm,
        topic_filter_type=TopicFilterType[request.topic_filter_type],
        topic_sys_flag=request.topic_sys_flag or 0,
    )


def _check_queue_nums(read: int, write: int) -> None:
    for name, queue_nums in (("read", read), ("write", write)):
        if not 0 <= queue_nums <= MAX_QUEUES_PER_TOPIC:
            remark = f"{name}QueueNums must be from 0 to {MAX_QUEUES_PER_TOPIC}, not {queue_nums}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
