"""What an administrator does, one coroutine per operation (``headers.md`` parts B to D; class DefaultMQAdminExtImpl).

::

    async with Admin(namesrv="ns1:9876") as admin:
        for address in await admin.masters_of("DefaultCluster"):
            await admin.create_topic(address, TopicConfig(topic_name="Order", read_queue_nums=8, write_queue_nums=8))

Every operation raises ``RemotingError`` when a server cannot be asked and ``BrokerError`` (by code) when it refuses.
Addresses are ``host:port``; times are milliseconds since 1970 as everywhere in the cluster; offsets count the entries of a
queue.
``mqadmin`` is made of nothing else.
"""

from __future__ import annotations

import random
from types import TracebackType
from typing import Self, TypeVar, Unpack

from ..remoting.errors import QueryNotFound
from ..remoting.invocations import Response
from ..remoting.protocol.bodies import encode_body
from ..remoting.protocol.bodies.connection import ConsumerConnection, ProducerConnection
from ..remoting.protocol.bodies.kv import KVTable
from ..remoting.protocol.bodies.lists import GroupList, TopicList
from ..remoting.protocol.bodies.route import ClusterInfo, TopicRouteData
from ..remoting.protocol.bodies.running_info import ConsumerRunningInfo
from ..remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper, TopicOffset, TopicStatsTable
from ..remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ..remoting.protocol.bodies.topic_config import TopicConfig
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.commands.base import ConsumerGroupRequest, TopicRequest
from ..remoting.protocol.commands.client import GetConsumerRunningInfoRequest, ProducerGroupRequest
from ..remoting.protocol.commands.group import GetConsumeStatsRequest
from ..remoting.protocol.commands.kv import (
    GetKVListByNamespaceRequest,
    KVConfigRequest,
    PutKVConfigRequest,
)
from ..remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag, QueryMessageRequest, ViewMessageRequest
from ..remoting.protocol.commands.route import DeleteTopicFromNamesrvRequest
from ..remoting.protocol.commands.topic import CreateTopicRequest
from ..remoting.protocol.java_properties import format_properties, parse_properties
from ..remoting.protocol.message import MessageExt, MessageQueue, format_host, parse_offset_message_id
from ..remoting.protocol.record import RecordError, decode_messages, decode_record
from ..remoting.protocol.topic_names import TopicName, retry_topic
from ..remoting.protocol.wire import Record
from .answers import answer_body
from .errors import ConfigError, NoRouteError
from .instance import ClientInstance
from .offset_store import BrokerOffsets
from .options import ClientOptions
from .pulling import Pulled, PullStatus, read_pulled
from .route_cache import TopicRoute
from .start_offset import earliest_store_time, max_offset, min_offset, offset_at

__all__ = ["Admin", "PullStatus", "Pulled"]

TOOLS_GROUP = "TOOLS_CONSUMER"
ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
_SLOW = 3
"""Some operations make a broker look at many queues, or ask a client: they get so many times the usual time."""

_FOREVER = (1 << 63) - 1

B = TypeVar("B")


class Admin:
    """Looks after a cluster. ``request_timeout`` (seconds, 5) is for each request; see ``ClientOptions`` for the others."""

    def __init__(self, *, instance: ClientInstance | None = None, **options: Unpack[ClientOptions]) -> None:
        if instance is not None and options:
            raise ConfigError(f"these options belong to the instance that was given: {', '.join(options)}")
        self._owns_instance = instance is None
        options.setdefault("request_timeout", 5.0)
        self.instance = instance if instance is not None else ClientInstance(**options)

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises ``ClientStateError`` when started twice."""
        if self._owns_instance:
            await self.instance.start()

    async def stop(self) -> None:
        """Close all connections."""
        if self._owns_instance:
            await self.instance.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.stop()

    # --- the cluster ------------------------------------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """All brokers by name, all broker names by cluster."""
        return await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, None, ClusterInfo)

    async def masters_of(self, cluster: str) -> list[str]:
        """Addresses of the masters of a cluster, by broker name. Raises ``ConfigError`` for an unknown cluster."""
        info = await self.cluster_info()
        if cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ConfigError(f"there is no cluster {cluster}; the name server knows: {known}")
        brokers = [info.broker_addr_table.get(name) for name in sorted(info.cluster_addr_table[cluster])]
        return [broker.master_addr for broker in brokers if broker is not None and broker.master_addr is not None]

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        """What a broker says of itself: version, disk, rates."""
        return (await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, None, KVTable)).table

    async def broker_config(self, address: str) -> dict[str, str]:
        """Every property of a broker's configuration."""
        answer = await self._invoke(address, RequestCode.GET_BROKER_CONFIG)
        return {found.name: found.value for found in parse_properties(answer.body.decode("utf-8", "replace"))}

    async def update_broker_config(self, address: str, properties: dict[str, str]) -> None:
        """Change properties of a running broker; it keeps them in its configuration file."""
        await self._invoke(address, RequestCode.UPDATE_BROKER_CONFIG, body=format_properties(properties).encode())

    # --- topics -----------------------------------------------------------------------------------------------------

    async def topic_list(self) -> tuple[str, ...]:
        """All topics, those of the system too."""
        found = await self._ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, TopicList)
        return found.topic_list

    async def topic_route(self, topic: str) -> TopicRouteData:
        """Which brokers have the topic. Raises ``NoRouteError`` for a topic that no broker has."""
        return (await self._route(topic)).data

    async def read_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues that can be read, sorted. Raises ``NoRouteError``."""
        return (await self._route(topic)).subscribe_queues

    async def create_topic(self, address: str, config: TopicConfig, *, template_topic: str = TopicName.AUTO_CREATE) -> None:
        """Make a topic on a master, or change it."""
        header = CreateTopicRequest(
            topic=config.topic_name,
            default_topic=template_topic,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type.value,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
        )
        await self._invoke(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, topic: str, cluster: str) -> None:
        """Delete a topic on every master of a cluster, then in the name servers. A topic that nobody has is no error."""
        for address in await self.masters_of(cluster):
            await self.delete_topic_in_broker(address, topic)
        await self.delete_topic_in_name_servers(topic, cluster)

    async def delete_topic_in_broker(self, address: str, topic: str) -> None:
        """Delete it on one master. The name servers still know it."""
        await self._invoke(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic=topic))

    async def delete_topic_in_name_servers(self, topic: str, cluster: str | None = None) -> None:
        """Make every name server forget it, for one cluster or for all."""
        header = DeleteTopicFromNamesrvRequest(topic=topic, cluster_name=cluster)
        await self._tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """First and next offset of every queue, from all masters of the topic. Raises ``NoRouteError``."""
        header = TopicRequest(topic=topic)
        table: dict[MessageQueue, TopicOffset] = {}
        for address in await self._masters_of_topic(topic):
            found = await self._ask(address, RequestCode.GET_TOPIC_STATS_INFO, header, TopicStatsTable)
            table |= found.offset_table
        return TopicStatsTable(offset_table=table)

    async def query_topic_consume_by_who(self, topic: str) -> tuple[str, ...]:
        """Consumer groups of a topic: those that are online and those that have offsets. Raises ``NoRouteError``."""
        header = TopicRequest(topic=topic)
        groups: dict[str, None] = {}
        for address in await self._masters_of_topic(topic):
            found = await self._ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header, GroupList)
            groups |= dict.fromkeys(found.group_list)
        return tuple(groups)

    # --- groups -----------------------------------------------------------------------------------------------------

    async def create_subscription_group(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Make a consumer group on a master, or change it."""
        await self._invoke(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(config))

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """How far a group is behind, for one topic or for all. Raises ``NoRouteError`` for a group that nobody knows."""
        header = GetConsumeStatsRequest(consumer_group=group, topic=topic)
        table: dict[MessageQueue, OffsetWrapper] = {}
        tps = 0.0
        for address in await self._masters_of_topic(retry_topic(group)):
            found = await self._ask(address, RequestCode.GET_CONSUME_STATS, header, ConsumeStats, times=_SLOW)
            table |= found.offset_table
            tps += found.consume_tps
        return ConsumeStats(offset_table=table, consume_tps=tps)

    async def consumer_connection(self, group: str, address: str | None = None) -> ConsumerConnection:
        """The clients of a group and what they subscribe, from one broker (default: any of the group).

        Raises ``ConsumerNotOnline`` when nobody of the group is connected, ``NoRouteError`` for a group that nobody knows.
        """
        header = ConsumerGroupRequest(consumer_group=group)
        address = address or await self._any_broker_of(retry_topic(group))
        return await self._ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header, ConsumerConnection)

    async def producer_connection(self, group: str, topic: str) -> ProducerConnection:
        """The clients of a producer group, from any broker of the topic. Raises ``NoRouteError``."""
        header = ProducerGroupRequest(producer_group=group)
        address = await self._any_broker_of(topic)
        return await self._ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header, ProducerConnection)

    async def consumer_running_info(
        self, group: str, client_id: str, *, jstack: bool = False, address: str | None = None
    ) -> ConsumerRunningInfo:
        """What one client of a group is doing: the broker asks it and passes its answer on."""
        header = GetConsumerRunningInfoRequest(consumer_group=group, client_id=client_id, jstack_enable=jstack)
        address = address or await self._any_broker_of(retry_topic(group))
        return await self._ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, ConsumerRunningInfo, times=_SLOW)

    # --- offsets ----------------------------------------------------------------------------------------------------

    async def min_offset(self, queue: MessageQueue) -> int:
        """Offset of the oldest message that is kept."""
        return await min_offset(self.instance, queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Offset that the next message will get."""
        return await max_offset(self.instance, queue)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Offset of the first message stored at or after that time, of the last one when all are older."""
        return await offset_at(self.instance, queue, timestamp_ms)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the oldest message was stored (ms), -1 for an empty queue."""
        return await earliest_store_time(self.instance, queue)

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group stands in a queue; ``None`` when it never consumed it."""
        return await BrokerOffsets(self.instance, group).fetch(queue)

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Move a group in a queue, also backwards. Clients that are online do not notice and may write over it."""
        await BrokerOffsets(self.instance, group).commit({queue: offset})

    # --- messages ---------------------------------------------------------------------------------------------------

    async def view_message(self, offset_msg_id: str) -> MessageExt:
        """The message with this id of the broker (not of the producer). Raises ``ConfigError`` for what is no such id."""
        try:
            where = parse_offset_message_id(offset_msg_id)
            address = format_host(where.store_host)
        except ValueError as error:
            raise ConfigError(f"{offset_msg_id!r} is no offset message id: {error}") from None
        header = ViewMessageRequest(offset=where.phy_offset)
        answer = await self._invoke(address, RequestCode.VIEW_MESSAGE_BY_ID, header)
        try:
            return decode_record(answer.body)
        except RecordError as error:
            raise ConfigError(f"{address} has no message at {where.phy_offset}: {error}") from None

    async def query_messages(
        self, topic: str, key: str, *, max_messages: int = 64, begin_ms: int = 0, end_ms: int = _FOREVER
    ) -> list[MessageExt]:
        """The newest messages with this key, from all masters of the topic, in the order they were stored.

        A broker gives out 64 at most (``maxMsgsNumBatch``). Delayed messages are found once they are delivered. Raises
        ``NoRouteError``.
        """
        return await self._query(topic, key, max_messages, begin_ms, end_ms, unique=False)

    async def query_by_unique_key(self, topic: str, unique_key: str) -> list[MessageExt]:
        """The messages with this id of their producer, ``message.msg_id``: usually one, more when a send was repeated.
        Raises ``NoRouteError``.
        """
        return await self._query(topic, unique_key, 32, 0, _FOREVER, unique=True)

    async def _query(
        self, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int, *, unique: bool
    ) -> list[MessageExt]:
        header = QueryMessageRequest(
            topic=topic,
            key=key,
            max_num=max_messages,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=unique,
        )
        found: list[MessageExt] = []
        for address in await self._masters_of_topic(topic):
            try:
                answer = await self._invoke(address, RequestCode.QUERY_MESSAGE, header, times=_SLOW)
            except QueryNotFound:
                continue
            found += decode_messages(answer.body)
        # The index of the original knows hashes only.
        found = [m for m in found if m.topic == topic and (m.msg_id == key if unique else key in m.keys)]
        return sorted(found, key=lambda message: message.store_timestamp)[-max_messages:]

    async def pull(
        self, queue: MessageQueue, offset: int, max_messages: int = 32, *, expression: str = "*", group: str = TOOLS_GROUP
    ) -> Pulled:
        """Messages of a queue from ``offset`` on, without waiting for new ones; nothing is committed."""
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
            expression_type="TAG",
            bname=queue.broker_name,
        )
        answer = await self.instance.remoting.invoke(
            address, RequestCode.PULL_MESSAGE, header, timeout=self.instance.request_timeout
        )
        return read_pulled(answer, address, queue.broker_name)

    # --- the name servers' own configuration ------------------------------------------------------------------------

    async def get_kv_config(self, namespace: str, key: str) -> str | None:
        """One value, ``None`` when there is none."""
        header = KVConfigRequest(namespace=namespace, key=key)
        name_servers = self.instance.name_servers
        answer = await name_servers.ask(RequestCode.GET_KV_CONFIG, header, timeout=self.instance.request_timeout)
        try:
            value: str | None = answer.check(name_servers.current).header.value
        except QueryNotFound:
            return None
        return value

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All values of a namespace. Raises ``QueryNotFound`` for one that does not exist."""
        header = GetKVListByNamespaceRequest(namespace=namespace)
        return (await self._ask_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, header, KVTable)).table

    async def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Set one value on every name server; the error of the last one that failed is raised."""
        header = PutKVConfigRequest(namespace=namespace, key=key, value=value)
        await self._tell_name_servers(RequestCode.PUT_KV_CONFIG, header)

    async def delete_kv_config(self, namespace: str, key: str) -> None:
        """Remove one value from every name server."""
        await self._tell_name_servers(RequestCode.DELETE_KV_CONFIG, KVConfigRequest(namespace=namespace, key=key))

    async def set_order_on_broker(self, topic: str, address: str, queue_nums: int) -> str:
        """Say that a topic is ordered and has so many queues on the broker at ``address``; others keep their entry.

        Returns the order configuration, ``broker:queues;broker:queues``. Raises ``ConfigError`` for an unknown address.
        """
        brokers = (await self.cluster_info()).broker_addr_table
        name = next((name for name, b in sorted(brokers.items()) if address in b.broker_addrs.values()), None)
        if name is None:
            raise ConfigError(f"the name server knows no broker at {address}")
        stored = await self.get_kv_config(ORDER_NAMESPACE, topic) or ""
        entries = dict(entry.rpartition(":")[::2] for entry in stored.split(";") if entry)
        entries[name] = str(queue_nums)
        return await self._put_order(topic, entries)

    async def set_order_on_cluster(self, topic: str, cluster: str, queue_nums: int) -> str:
        """Say that a topic is ordered and has so many queues on every broker of a cluster; replaces what was said before.

        Returns the order configuration. Raises ``ConfigError`` for an unknown cluster.
        """
        info = await self.cluster_info()
        if cluster not in info.cluster_addr_table:
            raise ConfigError(f"there is no cluster {cluster}")
        names = sorted(info.cluster_addr_table[cluster])
        return await self._put_order(topic, dict.fromkeys(names, str(queue_nums)))

    async def _put_order(self, topic: str, entries: dict[str, str]) -> str:
        conf = ";".join(f"{name}:{count}" for name, count in entries.items())
        await self.put_kv_config(ORDER_NAMESPACE, topic, conf)
        return conf

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _invoke(
        self, address: str, code: RequestCode, header: Record | None = None, body: bytes = b"", *, times: int = 1
    ) -> Response:
        timeout = self.instance.request_timeout * times
        return (await self.instance.remoting.invoke(address, code, header, body, timeout=timeout)).check(address)

    async def _ask(self, address: str, code: RequestCode, header: Record | None, body_type: type[B], *, times: int = 1) -> B:
        return answer_body(await self._invoke(address, code, header, times=times), body_type, address)

    async def _ask_name_server(self, code: RequestCode, header: Record | None, body_type: type[B]) -> B:
        name_servers = self.instance.name_servers
        answer = await name_servers.ask(code, header, timeout=self.instance.request_timeout)
        return answer_body(answer, body_type, name_servers.current)

    async def _tell_name_servers(self, code: RequestCode, header: Record) -> None:
        await self.instance.name_servers.tell_all(code, header, timeout=self.instance.request_timeout)

    async def _route(self, topic: str) -> TopicRoute:
        """As it is now: an administrator looks at what has just changed."""
        route = await self.instance.routes.look_up(topic)
        if route is None:
            raise NoRouteError(f"no broker has the topic {topic}, as far as the name server knows")
        return route

    async def _masters_of_topic(self, topic: str) -> list[str]:
        brokers = sorted((await self._route(topic)).data.broker_datas, key=lambda b: b.broker_name)
        return [broker.master_addr for broker in brokers if broker.master_addr is not None]

    async def _any_broker_of(self, topic: str) -> str:
        """A random broker of the topic; its master or, without one, a slave."""
        brokers = [b for b in (await self._route(topic)).data.broker_datas if b.broker_addrs]
        if not brokers:
            raise NoRouteError(f"no broker of {topic} is alive, as far as the name server knows")
        chosen = random.choice(brokers)
        return chosen.master_addr or random.choice(sorted(chosen.broker_addrs.values()))
