"""Brokers: who they are, how they are, their configuration and upkeep."""

from __future__ import annotations

from typing import NamedTuple

from ...remoting.protocol.bodies.connection import ProducerTable
from ...remoting.protocol.bodies.kv import KVTable
from ...remoting.protocol.bodies.route import MASTER_ID, ClusterInfo
from ...remoting.protocol.bodies.stats import BrokerStatsData, ConsumeStatsList
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.admin import ViewBrokerStatsDataRequest
from ...remoting.protocol.commands.group import GetConsumeStatsInBrokerRequest
from ...remoting.protocol.java_properties import format_properties, parse_properties
from ..errors import ConfigError
from .core import AdminCore, broker_names_of


class Member(NamedTuple):
    """One broker of a cluster."""

    cluster: str
    broker_name: str
    broker_id: int
    """0 is the master."""
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


def members_of(info: ClusterInfo, cluster: str | None = None) -> list[Member]:
    """Every broker, by cluster, name and id. Raises ``ConfigError`` for an unknown cluster."""
    return [
        Member(name, broker_name, broker_id, address)
        for name in (sorted(info.cluster_addr_table) if cluster is None else [cluster])
        for broker_name in broker_names_of(info, name)
        if (broker := info.broker_addr_table.get(broker_name)) is not None
        for broker_id, address in sorted(broker.broker_addrs.items())
    ]


class BrokerOperations(AdminCore):
    async def members(self, cluster: str | None = None) -> list[Member]:
        """Every broker of a cluster (default: of all), by cluster, name, id. Raises ``ConfigError``
        for an unknown one."""
        return members_of(await self.cluster_info(), cluster)

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        """What a broker says of itself: version, disk, rates."""
        return (await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, None, KVTable)).table

    async def broker_config(self, address: str) -> dict[str, str]:
        """Every property of a broker's configuration."""
        answer = await self._invoke(address, RequestCode.GET_BROKER_CONFIG)
        return {
            found.name: found.value
            for found in parse_properties(answer.body.decode("utf-8", "replace"))
        }

    async def update_broker_config(self, address: str, properties: dict[str, str]) -> str | None:
        """Change properties of a running broker; it keeps them in its configuration file.

        Returns what the broker says to that although it took them, if anything: that it has no
        property of some name, or that a change only counts at its next start (one of Java says
        nothing).
        """
        body = format_properties(properties).encode()
        return (await self._invoke(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)).remark

    async def producers_of_broker(self, address: str) -> ProducerTable:
        """All producers that are connected to a broker, by group."""
        return await self._ask(address, RequestCode.GET_ALL_PRODUCER_INFO, None, ProducerTable)

    async def broker_consume_stats(
        self, address: str, *, ordered: bool = False, timeout: float | None = None
    ) -> ConsumeStatsList:
        """How far every group of a broker is behind; ``ordered``: only topics that are consumed in
        order.

        ``timeout`` (seconds): it makes the broker look at every queue of every group. Default:
        three times the usual one.
        """
        if timeout is not None and not timeout > 0:
            raise ConfigError(f"a timeout is more than 0 seconds, not {timeout}")
        times = 3.0 if timeout is None else timeout / self.instance.request_timeout
        header = GetConsumeStatsInBrokerRequest(is_order=ordered)
        return await self._ask(
            address, RequestCode.GET_BROKER_CONSUME_STATS, header, ConsumeStatsList, times=times
        )

    async def broker_stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """A statistic over a minute, an hour, a day: ``("TOPIC_PUT_NUMS", topic)``,
        ``("GROUP_GET_NUMS", topic@group)``.

        Raises ``BrokerError`` (code 1) for one that nothing was counted for.
        """
        header = ViewBrokerStatsDataRequest(stats_name=name, stats_key=key)
        return await self._ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header, BrokerStatsData)

    async def clean_expired_consume_queues(self, address: str) -> None:
        """Make a broker delete consume queues whose messages have all expired."""
        await self._invoke(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def delete_expired_commit_logs(self, address: str) -> None:
        """Make a broker delete files of the commit log that are past their time, at whatever
        hour."""
        await self._invoke(address, RequestCode.DELETE_EXPIRED_COMMITLOG)

    async def clean_unused_topics(self, address: str) -> None:
        """Make a broker delete the consume queues of topics that it does not know any more."""
        await self._invoke(address, RequestCode.CLEAN_UNUSED_TOPIC)
