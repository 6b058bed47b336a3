"""Registrations of very many topics: refused, or taken in turns with everything else."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiorocketmq.client.cluster.lost_brokers import LOST_BROKERS
from aiorocketmq.namesrv import registration_body, route_table
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody, pack_registration
from aiorocketmq.remoting.protocol.bodies.route import ClusterInfo
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.kv import GetKVListByNamespaceRequest
from aiorocketmq.remoting.protocol.commands.route import (
    BrokerRequest,
    GetRouteInfoRequest,
    RegisterBrokerRequest,
)
from aiorocketmq.remoting.protocol.wire import NoFields
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.flow import Limits

from ..sim import ManualClock, Pipe, SimOwner

ADDRESS = "10.0.0.1:10911"
NS, CLIENT = ("127.0.0.1", 9876), ("127.0.0.1", 50000)


class World:
    """A name server without sockets."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.config = NamesrvConfig(
            kv_config_path=str(folder / "kv"), config_store_path=str(folder / "ns")
        )
        self.server = NameServer(self.config, limits=limits, clock=ManualClock())
        self.owner = SimOwner(Dispatcher(self.server.table), limits=limits)
        self.owner.disconnected = self.server.brokers.connection_closed  # type: ignore[method-assign]

    def connect(self) -> Connection:
        here, there = Pipe(NS, CLIENT), Pipe(CLIENT, NS)
        here.other, there.other = there, here
        here.own, there.own = Connection(SimOwner(Dispatcher({}))), Connection(self.owner)
        here.own.connection_made(here)
        there.own.connection_made(there)
        return here.own


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "TOPICS_AT_ONCE", 100)
    monkeypatch.setattr(registration_body, "PIECE_BYTES", 10_000)


def topics(count: int, queues: int = 1) -> dict[str, TopicConfig]:
    names = (f"t{number}" for number in range(count))
    return {
        name: TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
        for name in names
    }


def register(
    peer: Connection,
    count: int,
    *,
    packed: bool = False,
    version: int = 1,
    name: str = "a",
    address: str = ADDRESS,
) -> asyncio.Task[Response]:
    table = TopicConfigTable(
        topic_config_table=topics(count, version), data_version=DataVersion(counter=version)
    )
    body = RegisterBrokerBody(topic_config_table=table)
    return asyncio.create_task(
        send(
            peer,
            pack_registration(body) if packed else encode_body(body),
            packed=packed,
            name=name,
            address=address,
        )
    )


async def send(
    peer: Connection, body: bytes, *, packed: bool, name: str = "a", address: str = ADDRESS
) -> Response:
    header = RegisterBrokerRequest(
        broker_name=name,
        broker_addr=address,
        cluster_name="C",
        ha_server_addr="h",
        broker_id=0,
        compressed=packed,
    )
    return await peer.invoke(RequestCode.REGISTER_BROKER, header, body, timeout=60)


async def knows(peer: Connection, topic: str) -> bool:
    return (
        await peer.invoke(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic), timeout=60
        )
    ).code == 0


@pytest.mark.parametrize("packed", [False, True])
def test_more_topics_than_allowed_are_refused_in_words(tmp_path: Path, packed: bool) -> None:
    async def scene() -> None:
        world = World(tmp_path, Limits(max_topics_per_registration=100))
        peer = world.connect()
        answer = await register(peer, 101, packed=packed)
        assert answer.code == 1
        assert "101 topics, the limit of this name server is maxTopicsPerRegistration=100" in (
            answer.remark or ""
        )
        assert (await register(peer, 100, packed=packed)).code == 0

    asyncio.run(scene())


def test_more_topics_than_the_name_server_has_room_for_are_refused_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        peer = world.connect()
        await peer.invoke(
            RequestCode.UPDATE_NAMESRV_CONFIG, NoFields(), b"maxTopics=1000", timeout=60
        )
        assert (await register(peer, 1000)).code == 0
        answer = await register(peer, 1001, version=2)
        assert answer.code == 1
        assert (
            "a has 1 more topics, all brokers have 1000: the limit of this name server is "
            "maxTopics=1000" in (answer.remark or "")
        )
        assert (
            f"registration refused broker=a addr={ADDRESS} error={answer.remark}" in caplog.messages
        )
        assert await knows(peer, "t999")
        await peer.invoke(RequestCode.UPDATE_NAMESRV_CONFIG, NoFields(), b"maxTopics=0", timeout=60)
        assert (await register(peer, 1001, version=2)).code == 0

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("module", "step"),
    [(registration_body, "_decode_topics"), (route_table, "check_names")],
    ids=["read", "checked"],
)
def test_who_goes_while_its_topics_are_looked_at_is_not_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str
) -> None:
    steps = 0
    really = getattr(module, step)

    def counted(some: Any) -> Any:
        nonlocal steps
        steps += 1
        return really(some)

    monkeypatch.setattr(module, step, counted)

    async def scene() -> None:
        world = World(tmp_path)
        broker, client = world.connect(), world.connect()
        done = register(broker, 3000)
        while steps < 3:
            await asyncio.sleep(0)
        broker.close()
        assert not await knows(client, "t0")
        await asyncio.gather(done, return_exceptions=True)
        await asyncio.gather(*world.owner.tasks)
        answer = await client.invoke(RequestCode.GET_BROKER_CLUSTER_INFO, NoFields(), timeout=60)
        assert answer.body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'

    asyncio.run(scene())


def test_a_bomb_is_refused_before_it_has_grown(tmp_path: Path) -> None:
    async def scene() -> None:
        peer = World(tmp_path, Limits(max_inflated_bytes=2 << 20)).connect()
        answer = await send(peer, zlib.compress(bytes(3 << 20)), packed=True)
        assert answer.code == 1
        assert "2097152 bytes, the limit of this name server (maxInflatedBytes)" in (
            answer.remark or ""
        )

    asyncio.run(scene())


def test_a_packed_registration_that_never_ends_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        peer = World(tmp_path).connect()
        whole = zlib.compress(struct.pack(">i", 2) + b"{}" + bytes(5000))
        for cut in (0, 1, 5, len(whole) - 1):
            assert (await send(peer, whole[:cut], packed=True)).code == (1 if cut else 0)

    asyncio.run(scene())


@pytest.mark.parametrize("packed", [False, True])
def test_others_are_served_while_a_long_one_is_taken(tmp_path: Path, packed: bool) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        broker, client = world.connect(), world.connect()
        done = register(broker, 1200, packed=packed)
        asked = 0
        while not done.done():
            await client.invoke(RequestCode.GET_BROKER_CLUSTER_INFO, NoFields(), timeout=60)
            asked += 1
        assert (await done).code == 0
        assert asked > 2
        assert await knows(client, "t1199")

    asyncio.run(scene())


def test_registrations_are_taken_in_their_order(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        peer = world.connect()
        first, second, third = (
            register(peer, 1200),
            register(peer, 1200, version=2),
            register(peer, 3, version=3),
        )
        assert [(await each).code for each in (first, second, third)] == [0, 0, 0]
        answer = await peer.invoke(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic="t2"), timeout=60
        )
        assert b'"readQueueNums":3' in answer.body
        answer = await peer.invoke(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic="t1199"), timeout=60
        )
        assert b'"readQueueNums":2' in answer.body

    asyncio.run(scene())


async def unregister(peer: Connection) -> Response:
    gone = BrokerRequest(broker_name="a", broker_addr=ADDRESS, cluster_name="C", broker_id=0)
    return await peer.invoke(RequestCode.UNREGISTER_BROKER, gone, timeout=60)


async def is_empty(peer: Connection) -> bool:
    """Nobody is there, and nobody is missed."""
    brokers = await peer.invoke(RequestCode.GET_BROKER_CLUSTER_INFO, NoFields(), timeout=60)
    topics = await peer.invoke(
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NoFields(), timeout=60
    )
    assert brokers.body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    assert topics.body == b'{"topicList":[]}'
    lost = GetKVListByNamespaceRequest(namespace=LOST_BROKERS)
    answer = await peer.invoke(RequestCode.GET_KVLIST_BY_NAMESPACE, lost, timeout=60)
    return answer.code == ResponseCode.QUERY_NOT_FOUND


def test_who_goes_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        broker, client = world.connect(), world.connect()
        done = register(broker, 3000)
        while not await knows(client, "t0"):
            pass
        assert not await knows(client, "t2999")
        broker.close()
        await asyncio.gather(*world.owner.tasks)
        await asyncio.gather(done, return_exceptions=True)
        assert not await knows(client, "t0")
        assert not await knows(client, "t2999")
        assert not await is_empty(client), "it went without a word"

    asyncio.run(scene())


@pytest.mark.parametrize("slices", [1, 100])
def test_who_leaves_behind_its_registration_is_gone_and_not_missed(
    tmp_path: Path, slices: int
) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        broker, client = world.connect(), world.connect()
        done = register(broker, 12_000)
        for _ in range(slices):
            await asyncio.sleep(0)
        assert not done.done()
        assert (await unregister(broker)).code == 0
        assert (await done).code == 0
        assert await is_empty(client)
        broker.close()
        assert await is_empty(client)

    asyncio.run(scene())


async def brokers(peer: Connection) -> set[str]:
    answer = await peer.invoke(RequestCode.GET_BROKER_CLUSTER_INFO, NoFields(), timeout=60)
    return set(decode_body(ClusterInfo, answer.body).broker_addr_table)


async def missed(peer: Connection) -> set[str]:
    lost = GetKVListByNamespaceRequest(namespace=LOST_BROKERS)
    answer = await peer.invoke(RequestCode.GET_KVLIST_BY_NAMESPACE, lost, timeout=60)
    return set(json.loads(answer.body)["table"]) if answer.body else set()


def test_who_leaves_does_not_wait_for_the_registrations_of_others(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        broker, other, client = world.connect(), world.connect(), world.connect()
        assert (await register(broker, 1)).code == 0
        done = register(other, 12_000, name="b", address="10.0.0.2:10911")
        while not await knows(client, "t500"):
            pass
        assert (await unregister(broker)).code == 0
        assert not done.done()
        broker.close()
        assert (await done).code == 0
        assert (await brokers(client), await missed(client)) == ({"b"}, set())

    asyncio.run(scene())


@pytest.mark.parametrize("is_followed", [False, True])
def test_who_goes_while_its_leave_waits_has_left(tmp_path: Path, is_followed: bool) -> None:
    """Its successor at the same address stays."""

    async def scene() -> None:
        world = World(tmp_path)
        broker, other, client, after = (world.connect() for _ in range(4))
        assert (await register(broker, 1)).code == 0
        third = register(other, 12_000, name="b", address="10.0.0.2:10911")
        while not await knows(client, "t500"):
            pass
        asked = [register(broker, 2, version=2), asyncio.create_task(unregister(broker))]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asked[1].done()
        broker.close()
        await asyncio.gather(*asked, return_exceptions=True)
        if is_followed:
            registration = RegisterBrokerRequest(
                broker_name="a",
                broker_addr=ADDRESS,
                cluster_name="C",
                ha_server_addr="h",
                broker_id=0,
            )
            routes = world.server.brokers._routes
            routes.register(registration, DataVersion(counter=3), None, dict, after, 0)
        assert not third.done()
        assert (await third).code == 0
        await asyncio.gather(*world.owner.tasks)
        there = {"a", "b"} if is_followed else {"b"}
        assert (await brokers(client), await missed(client)) == (there, set())

    asyncio.run(scene())
