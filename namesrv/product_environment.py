"""``clusterTest``: a topic that is not known here is looked for in another cluster (class
ClusterTestRequestProcessor).

A few brokers under test, everything else as in the "product environment": clients that ask this
name server find the test brokers' topics here and all others there. Where the name servers of the
product environment are is told by ``clusterTestNamesrvAddr``, or by an address server over HTTP
(class TopAddressing; ``client.md`` §2.5), whose answer begins with a line ``host:port;host:port``.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from ..client.cluster.address_server import SUBGROUP_VARIABLE, AddressServer, address_server_url
from ..client.cluster.answers import answer_body
from ..client.cluster.name_servers import NameServers
from ..client.cluster.server_addresses import parse_addresses
from ..remoting.clock import Clock
from ..remoting.dispatch import Body, Context, ProcessorTable, Reply
from ..remoting.errors import RocketMQError
from ..remoting.protocol.bodies.route import TopicRouteData
from ..remoting.protocol.codes import RequestCode, ResponseCode
from ..remoting.protocol.commands.route import GetRouteInfoRequest
from ..remoting.transport.client import RemotingClient
from .config import ClusterTestConfig
from .processors import RouteProcessor, wants_standard_json
from .route_table import encode_route

log: Final = logging.getLogger(__name__)

ASK_TIMEOUT_S = 3.0


class ProductEnvironment:
    """The other cluster: its name servers and what they know. A service: ``run`` keeps the
    addresses fresh."""

    def __init__(
        self,
        name: str,
        config: ClusterTestConfig,
        clock: Clock,
        *,
        tls: ssl.SSLContext | None = None,
        fetch: Callable[[str], str] | None = None,
    ) -> None:
        """``fetch`` is an HTTP GET, called in a thread. Raises ``ConfigError`` when
        ``clusterTestNamesrvAddr`` is wrong."""
        self._name = name
        self._remoting = RemotingClient(clock=clock, tls=tls, name="cluster test")
        told = config.cluster_test_namesrv_addr
        self._servers = NameServers(parse_addresses(told) if told else (), self._remoting)
        url = address_server_url(config.domain, name, {SUBGROUP_VARIABLE: config.domain_subgroup})
        self._address_server = (
            None if told or url is None else AddressServer(url, self._servers, clock, fetch=fetch)
        )

    async def run(self) -> None:
        async with self._remoting:
            if self._address_server is None:
                await asyncio.Event().wait()
            else:
                await self._address_server.look_up()
                await self._address_server.run()

    async def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic is in the other cluster, ``None`` when it is not there or nobody can be
        asked."""
        header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        try:
            answer = await self._servers.ask(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout=ASK_TIMEOUT_S
            )
            return answer_body(answer, TopicRouteData, self._servers.current)
        except RocketMQError as error:
            log.info(
                "no route in the product environment name=%s topic=%s error=%s",
                self._name,
                topic,
                error,
            )
            return None


class ClusterTestProcessor:
    """Takes the place of ``RouteProcessor.route``."""

    def __init__(self, local: RouteProcessor, product: ProductEnvironment) -> None:
        self._local = local
        self._product = product

    @property
    def table(self) -> ProcessorTable:
        return {RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route}

    async def route(self, request: GetRouteInfoRequest, body: Body, ctx: Context) -> Reply:
        reply = self._local.route(request, body, ctx)
        if reply.code != ResponseCode.TOPIC_NOT_EXIST:
            return reply
        route = await self._product.route(request.topic)
        return (
            reply
            if route is None
            else Reply(body=encode_route(route, standard=wants_standard_json(request, ctx)))
        )
