"""Looks at a cluster: asks everybody at the same time, reads only, waits for nobody for ever."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from typing import Final, NamedTuple, TypeVar

from ...client.admin import Admin, Member
from ...client.cluster.answers import answer_body
from ...client.cluster.lost_brokers import LOST_BROKERS
from ...client.options import vip_address
from ...remoting.clock import Clock
from ...remoting.errors import RocketMQError
from ...remoting.protocol.bodies.connection import ConsumerConnection
from ...remoting.protocol.bodies.kv import KVTable
from ...remoting.protocol.bodies.route import ClusterInfo, TopicRouteData
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.kv import GetKVListByNamespaceRequest
from ...remoting.protocol.commands.route import GetRouteInfoRequest
from ...remoting.protocol.wire import Record
from ...remoting.responses import Response
from ...remoting.signature import Credentials
from ...remoting.transport.client import RemotingClient
from .reach import Way, speaks_tls, way_to
from .seen import Broker, Kind, NameServer, Seen, Server, Speech, Trouble, trouble_of, whole
from .slaves import END, bytes_behind

MOST_BROKERS: Final = 200
"""More are not looked at: a name server that talks nonsense may name any number."""
_AT_ONCE: Final = 32
_WORTH_THE_OTHER_WAY: Final = (Kind.SILENT, Kind.CLOSED, Kind.NONSENSE)

T = TypeVar("T")


class Question(NamedTuple):
    """What is to be looked at, and how."""

    namesrv: tuple[str, ...]
    topic: str | None = None
    group: str | None = None
    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None
    timeout_s: float = 3.0


async def look(question: Question) -> Seen:
    """At name servers, then at the brokers that they tell of. Each answer has its timeout."""
    async with Admin(
        namesrv=question.namesrv,
        tls=question.tls,
        credentials=question.credentials,
        request_timeout=question.timeout_s,
    ) as admin:
        looking = _Looking(admin, question)
        name_servers = await asyncio.gather(*map(looking.at_name_server, question.namesrv))
        members = _members(name_servers)
        brokers = await asyncio.gather(*map(looking.at_broker, members[:MOST_BROKERS]))
        brokers = await asyncio.gather(*(looking.at_slave(each, brokers) for each in brokers))
    return Seen(
        tuple(name_servers),
        tuple(brokers),
        left_out=max(0, len(members) - MOST_BROKERS),
        topic=question.topic,
        group=question.group,
        tls=question.tls is not None,
        signed=question.credentials is not None,
        timeout_s=question.timeout_s,
        waited_s=question.timeout_s,
    )


def _members(name_servers: list[NameServer]) -> list[Member]:
    """What any of them tells of, each once."""
    members = {
        Member(broker.cluster or "", name, number, address)
        for each in name_servers
        if each.cluster is not None
        for name, broker in each.cluster.broker_addr_table.items()
        for number, address in broker.broker_addrs.items()
    }
    return sorted(members)


class _Looking:
    """One look at one cluster."""

    def __init__(self, admin: Admin, question: Question) -> None:
        self._admin = admin
        self._question = question
        self._timeout_s = question.timeout_s
        self._clock: Clock = admin.instance.clock
        self._turns = asyncio.Semaphore(_AT_ONCE)

    # --- name servers
    # ----------------------------------------------------------------------------------------------

    async def at_name_server(self, address: str) -> NameServer:
        """Whatever it is."""
        way = await self._way_to(address)
        if way.trouble is not None:
            return NameServer(await self._unanswered(address, way, way.trouble))
        answer = await _tried(self._ask(address, RequestCode.GET_BROKER_CLUSTER_INFO))
        if isinstance(answer, Trouble):
            return NameServer(await self._unanswered(address, way, answer))
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            asked = await _tried(self._admin.broker_runtime_info(address))
            is_broker = not isinstance(asked, Trouble) or asked.kind is Kind.ACCESS
            trouble = Trouble(Kind.NONSENSE, "it does not know the requests of a name server")
            return NameServer(Server(address, trouble), is_broker=is_broker)
        cluster = await _tried(_body(answer, ClusterInfo, address))
        if isinstance(cluster, Trouble):
            return NameServer(Server(address, cluster, is_loopback=way.is_loopback))
        return NameServer(
            Server(address, is_loopback=way.is_loopback),
            version=answer.version,
            cluster=cluster,
            route=await self._route(address),
            lost=await self._lost(address),
        )

    async def _route(self, address: str) -> TopicRouteData | Trouble | None:
        if self._question.topic is None:
            return None
        header = GetRouteInfoRequest(topic=self._question.topic, accept_standard_json_only=True)
        answer = await _tried(self._ask(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
        if isinstance(answer, Trouble):
            return answer
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return await _tried(_body(answer, TopicRouteData, address))

    async def _lost(self, address: str) -> dict[str, str]:
        """Those of the original remember none."""
        header = GetKVListByNamespaceRequest(namespace=LOST_BROKERS)
        answer = await _tried(self._ask(address, RequestCode.GET_KVLIST_BY_NAMESPACE, header))
        if isinstance(answer, Trouble):
            return {}
        found = await _tried(_body(answer, KVTable, address))
        return {} if isinstance(found, Trouble) else found.table

    # --- brokers
    # ----------------------------------------------------------------------------------------------

    async def at_broker(self, member: Member) -> Broker:
        """As a client reaches it."""
        async with self._turns:
            way = await self._way_to(member.address)
            if way.trouble is not None:
                server = await self._unanswered(member.address, way, way.trouble)
                return Broker(member.cluster, member.broker_name, member.broker_id, server)
            return await self._answering(member, way)

    async def _answering(self, member: Member, way: Way) -> Broker:
        address, admin = member.address, self._admin
        asked_ms = self._clock.time_ms()
        runtime = await _tried(admin.broker_runtime_info(address))
        answered_ms = self._clock.time_ms()
        server = Server(address, is_loopback=way.is_loopback)
        if isinstance(runtime, Trouble) and runtime.kind in _WORTH_THE_OTHER_WAY:
            server = await self._unanswered(address, way, runtime)
        broker = Broker(member.cluster, member.broker_name, member.broker_id, server, runtime)
        if server.trouble is not None:
            return broker
        config, vip, consumers = await asyncio.gather(
            _tried(admin.broker_config(address)), self._vip(member), self._consumers(address)
        )
        return broker._replace(
            config=config,
            vip=vip,
            consumers=consumers,
            asked_ms=asked_ms,
            answered_ms=answered_ms,
        )

    async def _vip(self, member: Member) -> Trouble | None:
        """Producers only use that of a master."""
        if not member.is_master:
            return None
        return (await way_to(vip_address(member.address), None, self._timeout_s)).trouble

    async def _consumers(self, address: str) -> ConsumerConnection | Trouble | None:
        group = self._question.group
        if group is None:
            return None
        return await _tried(self._admin.consumer_connection(group, address))

    async def at_slave(self, slave: Broker, brokers: list[Broker]) -> Broker:
        """Whether it gets to where its master was, as long as for an answer."""
        lacks = await bytes_behind(slave, brokers, self._end_of, self._clock, self._timeout_s)
        return slave._replace(behind_bytes=lacks)

    async def _end_of(self, address: str) -> int | None:
        found = await _tried(self._admin.broker_runtime_info(address))
        return None if isinstance(found, Trouble) else whole(found.get(END, ""))

    # --- asking
    # ----------------------------------------------------------------------------------------------

    async def _way_to(self, address: str) -> Way:
        return await way_to(address, self._question.tls, self._timeout_s)

    async def _ask(self, address: str, code: RequestCode, header: Record | None = None) -> Response:
        return await self._admin.instance.remoting.invoke(
            address, code, header, timeout=self._timeout_s
        )

    async def _unanswered(self, address: str, way: Way, trouble: Trouble) -> Server:
        """With the way in which it would answer, if there is one."""
        speaks = None
        if self._question.tls is None:
            if trouble.kind in _WORTH_THE_OTHER_WAY and await speaks_tls(address, self._timeout_s):
                speaks = Speech.TLS
        elif trouble.kind is Kind.NO_HANDSHAKE and await self._answers_plain(address):
            speaks = Speech.PLAIN
        return Server(address, trouble, speaks, way.is_loopback)

    async def _answers_plain(self, address: str) -> bool:
        async with RemotingClient(name="doctor") as client:
            code = RequestCode.GET_BROKER_CLUSTER_INFO
            answer = await _tried(client.invoke(address, code, timeout=self._timeout_s))
        return not isinstance(answer, Trouble)


async def _tried(question: Awaitable[T]) -> T | Trouble:
    try:
        return await question
    except RocketMQError as error:
        return trouble_of(error)


async def _body(answer: Response, body_type: type[T], address: str) -> T:
    return answer_body(answer, body_type, address)
