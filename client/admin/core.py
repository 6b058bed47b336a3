"""What all operations of an administrator are made of: life, asking brokers and name servers,
looking up routes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar, Unpack

from ...remoting.protocol.bodies.route import BrokerData, ClusterInfo, TopicRouteData
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.wire import Record
from ...remoting.responses import Response
from ..cluster.answers import answer_body
from ..cluster.instance import ClientInstance, instance_for
from ..errors import ConfigError, NoRouteError
from ..lifecycle import Startable
from ..options import ClientOptions, Settings, settings_of, takes

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""In whose name tools read."""
SLOW: Final = 3
"""Some operations make a broker look at many queues, or ask a client: they get so many times the
usual time."""

AT_ONCE: Final = 32
"""Of those that one operation asks, so many are asked side by side: all brokers of most clusters,
and some of the groups of a topic that has hundreds."""

B = TypeVar("B")
K = TypeVar("K")


class AdminOptions(ClientOptions, total=False):
    """See ``Admin``."""

    instance: ClientInstance | None


class AdminSettings(Settings, frozen=True, kw_only=True):
    """See ``Admin``."""

    instance: ClientInstance | None = None


class AdminCore(Startable):
    """A client that belongs to no group. All that asks something raises ``ClientStateError`` before
    ``start`` and after ``stop``."""

    @takes(AdminSettings)
    def __init__(self, **options: Unpack[AdminOptions]) -> None:
        settings, others = settings_of(AdminSettings, options)
        self._owns_instance = settings.instance is None
        if self._owns_instance:
            others.setdefault("request_timeout", 5.0)
        self.instance: ClientInstance = instance_for(self, settings.instance, others)

    # --- life
    # ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises ``ClientStateError`` when started twice."""
        if self._owns_instance:
            await self.instance.start()

    async def stop(self) -> None:
        """Close all connections."""
        if self._owns_instance:
            await self.instance.stop()

    # --- asking
    # ----------------------------------------------------------------------------------------------

    async def _invoke(
        self,
        address: str,
        code: RequestCode,
        header: Record | None = None,
        body: bytes = b"",
        *,
        times: float = 1,
    ) -> Response:
        self.instance.check_loop()
        self.instance.check_running()
        timeout = self.instance.request_timeout * times
        address = self.instance.vip(address)
        return (
            await self.instance.remoting.invoke(address, code, header, body, timeout=timeout)
        ).check(address)

    async def _ask(
        self,
        address: str,
        code: RequestCode,
        header: Record | None,
        body_type: type[B],
        *,
        times: float = 1,
    ) -> B:
        return answer_body(
            await self._invoke(address, code, header, times=times), body_type, address
        )

    async def _ask_name_server(
        self, code: RequestCode, header: Record | None, body_type: type[B]
    ) -> B:
        self.instance.check_running()
        name_servers = self.instance.name_servers
        answer = await name_servers.ask(code, header, timeout=self.instance.request_timeout)
        return answer_body(answer, body_type, name_servers.current)

    async def _each(self, question: Callable[[K], Awaitable[B]], names: Iterable[K]) -> list[B]:
        """The answers in the order of ``names``, asked for side by side. Raises as if one had been
        asked after another: what the first of them that fails says; those behind it are not waited
        for."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(name: K) -> B:
            async with turns:
                return await question(name)

        tasks = [asyncio.create_task(ask(name)) for name in names]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell_name_servers(self, code: RequestCode, header: Record) -> None:
        self.instance.check_running()
        await self.instance.name_servers.tell_all(
            code, header, timeout=self.instance.request_timeout
        )

    # --- routes
    # ----------------------------------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """All brokers by name, all broker names by cluster."""
        return await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, None, ClusterInfo)

    async def masters_of(self, cluster: str) -> list[str]:
        """Addresses of the masters of a cluster, by broker name. Raises ``ConfigError`` for an
        unknown cluster."""
        info = await self.cluster_info()
        brokers = [info.broker_addr_table.get(name) for name in broker_names_of(info, cluster)]
        return [
            broker.master_addr
            for broker in brokers
            if broker is not None and broker.master_addr is not None
        ]

    async def _route(self, topic: str) -> TopicRouteData:
        """As it is now: an administrator looks at what has just changed. Raises
        ``NoRouteError``."""
        self.instance.check_running()
        route = await self.instance.routes.look_at(topic)
        if route is None:
            raise NoRouteError(f"no broker has the topic {topic}, as far as the name server knows")
        return route

    async def _brokers_of_topic(self, topic: str) -> list[BrokerData]:
        """Those that are alive, by name. Raises ``NoRouteError``."""
        brokers = [
            broker for broker in (await self._route(topic)).broker_datas if broker.broker_addrs
        ]
        return sorted(brokers, key=lambda broker: broker.broker_name)

    async def _live_brokers_of_topic(self, topic: str) -> list[BrokerData]:
        """The same, and at least one: nothing can be done at none. Raises ``NoRouteError``."""
        brokers = await self._brokers_of_topic(topic)
        if not brokers:
            raise NoRouteError(f"no broker of {topic} is alive, as far as the name server knows")
        return brokers

    async def _addresses_of_topic(self, topic: str) -> list[str]:
        """An address of every broker: its master or, without one, a slave. Raises
        ``NoRouteError``."""
        return [address_of(broker) for broker in await self._brokers_of_topic(topic)]

    async def _any_broker_of(self, topic: str) -> str:
        """The address of a random broker of the topic. Raises ``NoRouteError``."""
        return address_of(random.choice(await self._live_brokers_of_topic(topic)))


def broker_names_of(info: ClusterInfo, cluster: str) -> list[str]:
    """Sorted. Raises ``ConfigError`` for an unknown cluster."""
    if cluster not in info.cluster_addr_table:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise ConfigError(f"there is no cluster {cluster}; the name server knows: {known}")
    return sorted(info.cluster_addr_table[cluster])


def address_of(broker: BrokerData) -> str:
    """Its master or, without one, a random slave."""
    return broker.master_addr or random.choice(sorted(broker.broker_addrs.values()))
