"""Topics."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from ...remoting.dispatch import NOT_SET_REMARK
from ...remoting.errors import BrokerError
from ...remoting.protocol.bodies.lists import GroupList, TopicList
from ...remoting.protocol.bodies.route import TopicRouteData
from ...remoting.protocol.bodies.stats import TopicOffset, TopicStatsTable
from ...remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.base import TopicRequest
from ...remoting.protocol.commands.route import (
    DeleteTopicFromNamesrvRequest,
    GetTopicsByClusterRequest,
)
from ...remoting.protocol.commands.topic import CreateTopicRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import TopicName
from ..cluster.route_cache import subscribe_queues
from ..errors import ConfigError, NoRouteError
from ..usage_errors import checked_topic, positive
from .core import address_of, broker_names_of
from .name_servers import ORDER_NAMESPACE, NameServerOperations

log: Final = logging.getLogger(__name__)


class TopicOperations(NameServerOperations):
    # --- looking
    # ----------------------------------------------------------------------------------------------

    async def topic_list(self) -> tuple[str, ...]:
        """All topics, those of the system too."""
        found = await self._ask_name_server(
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, TopicList
        )
        return found.topic_list

    async def topics_of_cluster(self, cluster: str) -> tuple[str, ...]:
        """Topics that some broker of the cluster has; none for an unknown cluster."""
        header = GetTopicsByClusterRequest(cluster=cluster)
        return (
            await self._ask_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, header, TopicList)
        ).topic_list

    async def system_topics_of_broker(self, address: str) -> tuple[str, ...]:
        """Topics that a broker keeps for itself."""
        return (
            await self._ask(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, None, TopicList)
        ).topic_list

    async def topic_configs(self, address: str) -> TopicConfigTable:
        """All topics of one broker with their configuration, and the version of that table."""
        return await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, None, TopicConfigTable)

    async def topic_config(self, address: str, topic: str) -> TopicConfig | None:
        """One topic as a broker has it; None for one that it does not have. Of a broker that does
        not know this request (the original of 4.9) all topics are read for it."""
        header = TopicRequest(topic=topic)
        try:
            return await self._ask(address, RequestCode.GET_TOPIC_CONFIG, header, TopicConfig)
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
        return (await self.topic_configs(address)).topic_config_table.get(topic)

    async def topic_route(self, topic: str) -> TopicRouteData:
        """Which brokers have the topic. Raises ``NoRouteError`` for a topic that no broker has."""
        return await self._route(topic)

    async def clusters_of_topic(self, topic: str) -> list[str]:
        """Clusters that have the topic. Raises ``NoRouteError``."""
        clusters = (await self.cluster_info()).cluster_addr_table
        brokers = {broker.broker_name for broker in await self._brokers_of_topic(topic)}
        return sorted(name for name, members in clusters.items() if brokers.intersection(members))

    async def read_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues that can be read, sorted. Raises ``NoRouteError``."""
        return subscribe_queues(topic, await self._route(topic))

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """First and next offset of every queue, from all brokers of the topic. Raises
        ``NoRouteError``."""
        addresses = await self._addresses_of_topic(topic)
        table: dict[MessageQueue, TopicOffset] = {}
        for found in await self._each(partial(self._topic_stats_of, topic=topic), addresses):
            table |= found.offset_table
        return TopicStatsTable(offset_table=table)

    async def _topic_stats_of(self, address: str, topic: str) -> TopicStatsTable:
        return await self._ask(
            address, RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic=topic), TopicStatsTable
        )

    async def query_topic_consume_by_who(self, topic: str) -> tuple[str, ...]:
        """Consumer groups of a topic: those that are online and those that have offsets. Raises
        ``NoRouteError``."""
        addresses = await self._addresses_of_topic(topic)
        told = await self._each(partial(self._groups_of, topic=topic), addresses)
        return tuple(dict.fromkeys(group for groups in told for group in groups))

    async def _groups_of(self, address: str, topic: str) -> tuple[str, ...]:
        code, header = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicRequest(topic=topic)
        return (await self._ask(address, code, header, GroupList)).group_list

    # --- changing
    # ----------------------------------------------------------------------------------------------

    async def create_topic(
        self, topic: str, queues: int = 8, *, cluster: str | None = None
    ) -> list[str]:
        """Make a topic on all masters (of a cluster), or change its number of queues there; so many
        on each. Returns their addresses.

        All are asked before the error of the first one that refused is raised. Raises
        ``ConfigError`` for a bad name or number, an unknown cluster, and where there are several
        clusters but none is named; ``NoRouteError`` without a master.
        """
        config = TopicConfig(
            topic_name=checked_topic(topic),
            read_queue_nums=int(positive("queues", queues)),
            write_queue_nums=int(queues),
        )
        masters = await self._all_masters(cluster)
        outcomes = await asyncio.gather(
            *(self.create_topic_on(address, config) for address in masters), return_exceptions=True
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        return masters

    async def _all_masters(self, cluster: str | None) -> list[str]:
        if cluster is None:
            known = sorted((await self.cluster_info()).cluster_addr_table)
            if len(known) > 1:
                raise ConfigError(f"there are several clusters, name one: {', '.join(known)}")
            cluster = known[0] if known else None
        masters = [] if cluster is None else await self.masters_of(cluster)
        if not masters:
            raise NoRouteError("the name server knows no master; has a broker been started?")
        return masters

    async def create_topic_on(
        self, address: str, config: TopicConfig, *, template_topic: str = TopicName.AUTO_CREATE
    ) -> None:
        """Make a topic on one master, or change it. Raises ``ConfigError`` for what is no
        ``TopicConfig``."""
        if not isinstance(config, TopicConfig):
            raise ConfigError(
                f"the config is a TopicConfig(topic_name=...), not {config!r}; create_topic(name) "
                "makes a topic on all masters"
            )
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
        answer = await self._invoke(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        if answer.remark not in (None, NOT_SET_REMARK):  # from ours, which did it all the same
            log.warning("broker=%s says: %s", address, answer.remark)

    async def topic_config_on(
        self, topic: str, address: str | None = None
    ) -> dict[str, TopicConfig]:
        """How the topic looks on the master at ``address`` (default: on every master), by address,
        as its route says it.

        Raises ``NoRouteError``, and ``ConfigError`` when the broker at ``address`` is no master of
        the topic.
        """
        route = await self._route(topic)
        queues = {data.broker_name: data for data in route.queue_datas}
        found = {
            address_of(broker): TopicConfig(
                topic_name=topic,
                read_queue_nums=data.read_queue_nums,
                write_queue_nums=data.write_queue_nums,
                perm=data.perm,
                topic_sys_flag=data.topic_sys_flag,
            )
            for broker in sorted(route.broker_datas, key=lambda broker: broker.broker_name)
            if broker.master_addr is not None
            and (data := queues.get(broker.broker_name)) is not None
        }
        if address is None:
            return found
        if address not in found:
            known = ", ".join(found) or "none"
            raise ConfigError(
                f"{address} is no master of the topic {topic}; its masters are: {known}"
            )
        return {address: found[address]}

    async def delete_topic(self, topic: str, cluster: str) -> None:
        """Delete a topic on every master of a cluster, then in the name servers. A topic that
        nobody has is no error.

        All are asked, and the name servers told where one has done it, before the error of the
        first one that refused is raised. Raises ``ConfigError`` for an unknown cluster,
        ``NoRouteError`` without a master.
        """
        masters = await self._all_masters(cluster)
        outcomes = await asyncio.gather(
            *(self.delete_topic_in_broker(address, topic) for address in masters),
            return_exceptions=True,
        )
        if None in outcomes:
            await self.delete_topic_in_name_servers(topic, cluster)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def delete_topic_in_broker(self, address: str, topic: str) -> None:
        """Delete it on one master. The name servers still know it."""
        await self._invoke(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic=topic))

    async def delete_topic_in_name_servers(self, topic: str, cluster: str | None = None) -> None:
        """Make every name server forget it, for one cluster or for all."""
        header = DeleteTopicFromNamesrvRequest(topic=topic, cluster_name=cluster)
        await self._tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    # --- order
    # ----------------------------------------------------------------------------------------------

    async def order_config(self, topic: str) -> str | None:
        """``broker:queues;broker:queues`` of an ordered topic, ``None`` for others."""
        return await self.get_kv_config(ORDER_NAMESPACE, topic)

    async def set_order_config(self, topic: str, config: str) -> None:
        """Say that a topic is ordered: ``broker:queues;broker:queues``. Raises ``ConfigError`` for
        anything else."""
        check_order_config(config)
        await self.put_kv_config(ORDER_NAMESPACE, topic, config)

    async def delete_order_config(self, topic: str) -> None:
        """The topic is an ordinary one again."""
        await self.delete_kv_config(ORDER_NAMESPACE, topic)

    async def set_order_on_broker(self, topic: str, address: str, queue_nums: int) -> str:
        """Say that a topic is ordered and has so many queues on the broker at ``address``; others
        keep their entry.

        Returns the order configuration, ``broker:queues;broker:queues``. Raises ``ConfigError`` for
        an unknown address.
        """
        brokers = (await self.cluster_info()).broker_addr_table
        name = next(
            (name for name, b in sorted(brokers.items()) if address in b.broker_addrs.values()),
            None,
        )
        if name is None:
            raise ConfigError(f"the name server knows no broker at {address}")
        stored = await self.order_config(topic) or ""
        entries = dict(entry.rpartition(":")[::2] for entry in stored.split(";") if entry)
        entries[name] = str(queue_nums)
        return await self._put_order(topic, entries)

    async def set_order_on_cluster(self, topic: str, cluster: str, queue_nums: int) -> str:
        """Say that a topic is ordered and has so many queues on every broker of a cluster; replaces
        what was said before.

        Returns the order configuration. Raises ``ConfigError`` for an unknown cluster.
        """
        names = broker_names_of(await self.cluster_info(), cluster)
        return await self._put_order(topic, dict.fromkeys(names, str(queue_nums)))

    async def _put_order(self, topic: str, entries: dict[str, str]) -> str:
        conf = ";".join(f"{name}:{count}" for name, count in entries.items())
        await self.put_kv_config(ORDER_NAMESPACE, topic, conf)
        return conf

    async def first_address_of_topic(self, topic: str) -> str:
        """An address of the first broker of the topic, by name. Raises ``NoRouteError``."""
        addresses = await self._addresses_of_topic(topic)
        if not addresses:
            raise NoRouteError(f"no broker of {topic} is alive, as far as the name server knows")
        return addresses[0]


def check_order_config(config: str) -> None:
    """Whether it is ``broker:queues;broker:queues``. Raises ``ConfigError``."""
    for entry in config.split(";"):
        name, _, count = entry.rpartition(":")
        if not name or not count.isdecimal():
            raise ConfigError(
                f"an order configuration is broker:queues;broker:queues, {entry!r} is not"
            )
