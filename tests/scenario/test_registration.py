"""A broker's registration with real name servers in one process: time is the test's, the network is
loopback."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.registry import name_servers
from aiorocketmq.broker.registry.address_server import BrokerAddressServer
from aiorocketmq.broker.registry.name_servers import NameServers
from aiorocketmq.broker.registry.registration import PART_BYTES, Identity, Registration
from aiorocketmq.broker.state.topics import Topic, TopicChange, Topics
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.namesrv.kv_config import KvConfig
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.lists import TopicList
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.route import TopicRouteData
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.kv import PutKVConfigRequest
from aiorocketmq.remoting.protocol.commands.route import (
    BrokerNameRequest,
    GetRouteInfoRequest,
    RegisterBrokerResponse,
)
from aiorocketmq.remoting.protocol.frames import frame
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.flow import Limits

from ..sim import ManualClock

WHO = Identity("b", "127.0.0.1:10911", "C", 0, "127.0.0.1:10912")


class World:
    """A broker's part that registers, a client that asks for routes, and a clock that runs when
    somebody waits."""

    def __init__(self, clock: ManualClock, **config: Any) -> None:
        self.clock = clock
        self.config = BrokerConfig(broker_name="b", broker_cluster_name="C", **config)
        self.topics = Topics(self.config, self.clock)
        self.client = RemotingClient(clock=self.clock)
        self.name_servers = NameServers(
            self.config, self.topics, self.client, self.clock, lambda: WHO
        )
        self.topics.listeners.append(self._changed)

    def _changed(self, topic: Topic, change: TopicChange) -> None:
        if change.is_for_name_servers:
            self.name_servers.register_topic(topic, self.topics.data_version)

    def registrations(self) -> list[tuple[set[str], DataVersion]]:
        """The topics and the version of every registration from now on."""
        sent: list[tuple[set[str], DataVersion]] = []
        invoke = self.client.invoke

        async def seen(
            address: str, code: RequestCode, header: Any = None, body: Any = b"", **more: Any
        ) -> Any:
            if code is RequestCode.REGISTER_BROKER:
                table = decode_body(RegisterBrokerBody, body).topic_config_table
                sent.append((set(table.topic_config_table), table.data_version))
            return await invoke(address, code, header, body, **more)

        self.client.invoke = seen  # type: ignore[method-assign]
        return sent

    async def until(
        self,
        condition: Callable[[], bool | Awaitable[bool]],
        *,
        step: float = 0.5,
        limit: float = 120.0,
    ) -> None:
        """Let time pass until the condition holds; fails when ``limit`` seconds of the clock are
        not enough."""
        end = self.clock.monotonic() + limit
        while True:
            for _ in range(5):  # what is on its way arrives before more time passes
                result = condition()
                if result if isinstance(result, bool) else await result:
                    return
                await asyncio.sleep(0.001)
            assert self.clock.monotonic() < end, "it never happened"
            self.clock.advance(step)

    async def perms(self, address: str, topic: str) -> set[int]:
        request = GetRouteInfoRequest(topic=topic)
        response = await self.client.invoke(
            address, RequestCode.GET_ROUTEINFO_BY_TOPIC, request, timeout=5
        )
        return {
            queue.perm for queue in decode_body(TopicRouteData, response.check().body).queue_datas
        }

    async def knows(self, address: str, topic: str) -> bool:
        try:
            response = await self.client.invoke(
                address,
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                GetRouteInfoRequest(topic=topic),
                timeout=5,
            )
        except RocketMQError:
            return False
        return response.code == 0 and bool(decode_body(TopicRouteData, response.body).queue_datas)


class RunningNameServer:
    """Started and stopped at will, always on its port."""

    def __init__(self, folder: Path, clock: ManualClock, limits: Limits | None = None) -> None:
        self.folder = folder
        self.clock = clock
        self.limits = limits
        self.port = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        config = NamesrvConfig(
            listen_port=self.port,
            bind_address="127.0.0.1",
            kv_config_path=str(self.folder / f"{id(self)}.json"),
        )
        server = NameServer(config, kv_config=KvConfig(), clock=self.clock, limits=self.limits)
        await server.listen()
        self.port = server.port
        self.task = asyncio.create_task(server.run())
        await asyncio.sleep(0.001)  # it serves before it can be stopped

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            while not self.task.done():  # closing is graceful: its grace is time of the clock
                self.clock.advance(0.5)
                await asyncio.sleep(0.001)
            self.task = None


@asynccontextmanager
async def running(world: World) -> AsyncIterator[asyncio.Task[None]]:
    async with world.client:
        service = asyncio.create_task(world.name_servers.run())
        try:
            yield service
        finally:
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)


def play(
    tmp_path: Path,
    count: int,
    scenario: Callable[[World, list[RunningNameServer]], Awaitable[None]],
    *,
    limits: Limits | None = None,
    **config: Any,
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            clock = ManualClock()
            servers = [RunningNameServer(tmp_path, clock, limits) for _ in range(count)]
            for server in servers:
                await server.start()
            world = World(
                clock, namesrv_addr=";".join(server.address for server in servers), **config
            )
            try:
                await scenario(world, servers)
            finally:
                for server in servers:
                    await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("leaves_as", [0, 1], ids=["as it came", "as a slave"])
def test_all_name_servers_know_the_broker_and_forget_it_when_it_leaves(
    tmp_path: Path, leaves_as: int
) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        async with running(world):
            for server in servers:
                await world.until(partial(world.knows, server.address, "TBW102"))
            assert all(link.registered for link in world.name_servers.links)
            world.name_servers.identity = lambda: WHO._replace(broker_id=leaves_as)
        async with RemotingClient(clock=world.clock) as client:
            world.client = client
            for server in servers:
                assert not await world.knows(server.address, "TBW102")

    play(tmp_path, 2, scenario)


def test_both_of_two_brokers_with_one_name_and_id_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World, _servers: list[RunningNameServer]) -> None:
        async with running(world), RemotingClient(clock=world.clock) as client:
            await world.until(lambda: world.name_servers.links[0].registered)
            other = WHO._replace(broker_addr="127.0.0.1:20911")
            second = NameServers(world.config, world.topics, client, world.clock, lambda: other)
            service = asyncio.create_task(second.run())
            says = f"says: two brokers have the name b and the id 0, {WHO.broker_addr} and "
            says_too = f"says: two brokers have the name b and the id 0, {other.broker_addr} and "
            await world.until(lambda: says in caplog.text and says_too in caplog.text)
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)

    play(tmp_path, 1, scenario)


def test_topics_that_are_made_are_registered_at_once_and_alone(tmp_path: Path) -> None:
    """Native clients ask for the route of a new retry topic 10 ms after their first heartbeat, and
    then not for 20 s."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        sent = world.registrations()
        async with running(world):
            await world.until(lambda: world.name_servers.links[0].registered)
            sent.clear()
            world.topics.create_on_send("T", default_topic="TBW102", queue_nums=4)
            await world.until(
                lambda: world.knows(servers[0].address, "T"), step=0.0
            )  # the clock stands still
            world.topics.create_for_group("%RETRY%g")
            world.topics.create_for_group("%RETRY%h")
            await world.until(lambda: world.knows(servers[0].address, "%RETRY%h"), step=0.0)
            assert await world.knows(servers[0].address, "%RETRY%g")
            assert [names for names, _ in sent] == [{"T"}, {"%RETRY%g", "%RETRY%h"}]
            assert sent[-1][1] == world.topics.data_version

    play(tmp_path, 1, scenario)


def test_no_topic_hides_behind_the_version_of_another(tmp_path: Path) -> None:
    """A name server takes no topics of a version that it has: that of one who waits for the disk
    would be lost."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        async with running(world):
            await world.until(lambda: world.name_servers.links[0].registered)
            wanted = world.topics.update(TopicConfig(topic_name="T"))
            world.topics.create_on_send("U", default_topic="TBW102", queue_nums=4)
            await world.until(lambda: world.knows(servers[0].address, "U"), step=0.0)
            await world.name_servers.announce(wanted)
            assert await world.knows(servers[0].address, "T")

    play(tmp_path, 1, scenario)


def test_a_deleted_topic_that_was_told_of_late_is_forgotten(tmp_path: Path) -> None:
    """And a new one, that is told of alone, keeps the others."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        address, link = servers[0].address, world.name_servers.links[0]
        async with running(world):
            await world.until(lambda: link.registered)
            for name in ("T", "X"):
                await world.name_servers.announce(world.topics.update(TopicConfig(topic_name=name)))
            world.topics.delete("X")
            late = await world.name_servers.request(
                TopicConfigTable(
                    topic_config_table={"X": TopicConfig(topic_name="X")},
                    data_version=world.topics.version_before,
                )
            )
            register = RequestCode.REGISTER_BROKER
            answer = await world.client.invoke(address, register, late.header, late.body, timeout=5)
            answer.check()
            await world.name_servers.announce(world.topics.update(TopicConfig(topic_name="U")))
            assert await world.knows(address, "T")
            assert await world.knows(address, "X")

            async def is_forgotten() -> bool:
                return not await world.knows(address, "X")

            await world.until(is_forgotten, limit=31.0)
            assert await world.knows(address, "T")
            assert await world.knows(address, "U")

    play(tmp_path, 1, scenario)


@pytest.mark.parametrize(
    ("part_bytes", "said"), [(PART_BYTES, {(True, True), (False, None)}), (100, {(False, None)})]
)
def test_only_all_topics_in_one_request_are_called_all(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part_bytes: int,
    said: set[tuple[bool, bool | None]],
) -> None:
    """Parts are not: the name server would have to know that none is missing."""
    monkeypatch.setattr(name_servers, "PART_BYTES", part_bytes)
    monkeypatch.setattr(name_servers, "AT_ONCE", 2)

    async def scenario(world: World, _servers: list[RunningNameServer]) -> None:
        link, heard = world.name_servers.links[0], set[tuple[bool, bool | None]]()
        request = world.name_servers.request

        async def seen(table: TopicConfigTable, *, whole: bool = False) -> Registration:
            written = await request(table, whole=whole)
            is_all = len(table.topic_config_table) == len(world.topics)
            heard.add((is_all, written.header.whole_table))
            return written

        world.name_servers.request = seen  # type: ignore[method-assign]
        async with running(world):
            await world.until(lambda: link.registered)
            await world.name_servers.announce(world.topics.update(TopicConfig(topic_name="T")))
        assert heard == said

    play(tmp_path, 1, scenario)


def test_what_begins_over_a_new_connection_begins_with_everything(tmp_path: Path) -> None:
    """A name server that was restarted knows nothing: one topic alone, in the version of all, would
    hide the others."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        link = world.name_servers.links[0]
        async with running(world):
            await world.until(lambda: link.registered)
            await servers[0].stop()
            await servers[0].start()
            link._lost, link.registered = False, True  # as if nobody had noticed yet
            link._wake.clear()
            world.topics.create_on_send("T", default_topic="TBW102", queue_nums=4)
            await world.until(lambda: world.knows(servers[0].address, "T"), limit=9.0)
            assert await world.knows(servers[0].address, "TBW102")

    play(tmp_path, 1, scenario)


def test_a_topic_made_by_an_administrator_is_known_when_he_is_told(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        async with running(world):
            await world.until(lambda: world.name_servers.links[0].registered)
            topic = world.topics.update(TopicConfig(topic_name="T"))
            await world.name_servers.announce(topic)
            assert await world.knows(servers[0].address, "T")

    play(tmp_path, 1, scenario)


def test_what_is_on_its_way_is_waited_for_before_a_topic_counts_as_deleted(tmp_path: Path) -> None:
    """Who deletes it tells the name servers next: what has it still must not come behind that."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        async with running(world):
            await world.until(lambda: world.name_servers.links[0].registered)
            await world.name_servers.have_heard()  # nothing is
            arrives, invoke = asyncio.Event(), world.client.invoke

            async def late(address: str, code: RequestCode, *args: Any, **more: Any) -> Any:
                if code is RequestCode.REGISTER_BROKER:
                    await arrives.wait()
                return await invoke(address, code, *args, **more)

            world.client.invoke = late  # type: ignore[method-assign]
            world.topics.update(TopicConfig(topic_name="T"))
            await world.until(lambda: world.name_servers.links[0].under_way is not None)
            world.topics.delete("T")
            heard = asyncio.create_task(world.name_servers.have_heard())
            await asyncio.sleep(0.01)
            assert not heard.done()
            arrives.set()
            await heard
            assert await world.knows(servers[0].address, "T"), "and is deleted there now"

    play(tmp_path, 1, scenario)


def test_a_name_server_that_is_not_there_keeps_nobody_waiting_for_the_other(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        await servers[0].stop()
        async with running(world):
            await world.until(lambda: world.name_servers.links[1].registered)
            topic = world.topics.update(TopicConfig(topic_name="T"))
            await world.name_servers.announce(topic)
            assert await world.knows(servers[1].address, "T")
            assert not world.name_servers.links[0].registered
            await servers[0].start()
            await world.until(lambda: world.knows(servers[0].address, "T"))

    play(tmp_path, 2, scenario)


def test_a_name_server_that_was_restarted_is_told_again_at_once(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        async with running(world):
            await world.until(lambda: world.knows(servers[0].address, "TBW102"))
            await servers[0].stop()
            await servers[0].start()
            await world.until(lambda: world.knows(servers[0].address, "TBW102"), limit=9.0)

    play(tmp_path, 1, scenario)


def test_who_looks_for_its_master_is_answered_before_the_period_is_over(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        answers: list[RegisterBrokerResponse] = []
        world.name_servers.on_answer.append(answers.append)
        async with running(world):
            await world.until(lambda: len(answers) == 1)
            world.name_servers.register_soon()
            world.name_servers.register_soon()
            await world.until(lambda: len(answers) == 2, step=0.0)  # the clock stands still
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert len(answers) == 2

    play(tmp_path, 1, scenario)


def test_who_does_not_know_yet_what_it_is_is_not_registered(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        sent = world.registrations()
        world.name_servers.wait_for_identity()
        async with running(world):
            for _ in range(20):
                world.clock.advance(5)
                await asyncio.sleep(0.001)
            assert not sent
            world.name_servers.has_identity()
            await world.until(lambda: world.knows(servers[0].address, "TBW102"), step=0.0)
            sent.clear()
            world.name_servers.has_identity()  # another one
            await world.until(lambda: len(sent) == 1, step=0.0)

    play(tmp_path, 1, scenario)


def test_who_ends_before_it_knows_what_it_is_has_nothing_to_take_back(tmp_path: Path) -> None:
    async def scenario(world: World, _servers: list[RunningNameServer]) -> None:
        world.name_servers.wait_for_identity()
        async with running(world) as service:
            await asyncio.sleep(0.001)
        assert service.cancelled()

    play(tmp_path, 1, scenario)


def test_another_identity_is_told_at_once_also_to_who_did_not_answer(tmp_path: Path) -> None:
    """The next attempt may not be due for half a minute."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        await servers[0].stop()
        link = world.name_servers.links[0]
        async with running(world):
            await world.until(lambda: link._failures >= 5)
            await servers[0].start()
            world.client.try_again(servers[0].address)
            world.name_servers.has_identity()
            await world.until(lambda: world.knows(servers[0].address, "TBW102"), step=0.0)

    play(tmp_path, 1, scenario)


def test_ordered_topics_are_learnt_from_the_name_server(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        topic = world.topics.update(TopicConfig(topic_name="T"))
        async with running(world):
            await world.until(lambda: world.name_servers.links[0].registered)
            put = PutKVConfigRequest(namespace="ORDER_TOPIC_CONFIG", key="T", value="b:4")
            (
                await world.client.invoke(
                    servers[0].address, RequestCode.PUT_KV_CONFIG, put, timeout=5
                )
            ).check()
            assert not topic.order
            await world.until(lambda: topic.order)

    play(tmp_path, 1, scenario)


def test_without_force_only_a_change_is_registered(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        sent: list[RequestCode] = []
        invoke = world.client.invoke

        async def counted(address: str, code: RequestCode, *args: Any, **more: Any) -> Any:
            sent.append(code)
            return await invoke(address, code, *args, **more)

        world.client.invoke = counted  # type: ignore[method-assign]
        async with running(world):
            await world.until(lambda: sent.count(RequestCode.QUERY_DATA_VERSION) == 3)
            assert sent.count(RequestCode.REGISTER_BROKER) == 1
            world.topics.new_version()
            await world.until(lambda: sent.count(RequestCode.REGISTER_BROKER) == 2)

    play(tmp_path, 1, scenario, force_register=False)


def test_no_name_server_is_no_error(tmp_path: Path) -> None:
    async def scenario(world: World, _servers: list[RunningNameServer]) -> None:
        async with running(world) as service:
            await world.name_servers.announce(world.topics.update(TopicConfig(topic_name="T")))
            world.name_servers.register_soon()
            await asyncio.sleep(0)
            assert not service.done()

    play(tmp_path, 0, scenario)


def test_a_table_that_no_frame_can_carry_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "MAX_FRAME_BYTES", 6000)
    names = [f"T{number}" for number in range(100)]

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        link = world.name_servers.links[0]
        async with running(world) as service:
            await world.until(lambda: link.registered)
            for name in names:
                world.topics.update(TopicConfig(topic_name=name))
            world.name_servers.register_soon()
            await world.until(lambda: not link.registered)
            for name in names:
                world.topics.delete(name)
            await world.until(lambda: link.registered)
            assert not service.done()

    play(tmp_path, 1, scenario)


def test_topics_that_no_frame_can_carry_are_registered_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """49,000 of 127 characters, 18.7 MB: the original's broker is not registered, and every topic
    of it answers 17. Usually a tenth of it: of topics, of what a frame carries, of a part."""
    share = 1 if os.environ.get("TEST_SIZE") == "nightly" else 10
    limits = Limits(max_frame_bytes=frame.MAX_FRAME_BYTES // share)
    monkeypatch.setattr(name_servers, "PART_BYTES", PART_BYTES // share)
    names = [f"{number:0127}" for number in range(49_000 // share)]
    table = TopicConfigTable(
        topic_config_table={name: TopicConfig(topic_name=name) for name in names}
    )
    assert len(encode_body(table)) > limits.max_frame_bytes

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        world.topics.load(table)
        sent = world.registrations()
        async with running(world):
            await world.until(lambda: world.name_servers.links[0].registered)
            all_topics = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
            response = await world.client.invoke(servers[0].address, all_topics, timeout=9)
            assert set(names) <= set(decode_body(TopicList, response.check().body).topic_list)
            assert len(sent) == 5
            assert sent[-1][1] == world.topics.data_version

    play(tmp_path, 1, scenario, limits=limits)


def test_a_table_in_parts_is_sent_again_only_when_it_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would bring back a write permission that was wiped; a new topic goes alone all the
    same."""
    monkeypatch.setattr(name_servers, "PART_BYTES", 6000)
    monkeypatch.setattr(name_servers, "AT_ONCE", 0)

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        for number in range(100):
            world.topics.update(TopicConfig(topic_name=f"T{number}"))
        sent, link = world.registrations(), world.name_servers.links[0]
        everything = set(world.topics.record().topic_config_table)
        async with running(world):
            await world.until(lambda: link.registered)
            parts = len(sent)
            assert parts > 2
            assert set().union(*(topics for topics, _ in sent)) == everything
            wipe = BrokerNameRequest(broker_name="b")
            (
                await world.client.invoke(
                    servers[0].address, RequestCode.WIPE_WRITE_PERM_OF_BROKER, wipe, timeout=5
                )
            ).check()
            await world.until(lambda: len(sent) == parts + 2)
            assert [topics for topics, _ in sent[parts:]] == [set(), set()]
            assert await world.perms(servers[0].address, "T7") == {4}
            world.topics.create_on_send("new", default_topic="TBW102", queue_nums=4)
            await world.until(lambda: world.knows(servers[0].address, "new"), step=0.0)
            assert sent[-1] == ({"new"}, world.topics.data_version)
            await servers[0].stop()
            await servers[0].start()
            await world.until(lambda: world.knows(servers[0].address, "T7"))
            await world.until(lambda: world.knows(servers[0].address, "new"))

    play(tmp_path, 1, scenario)


def test_parts_that_a_lost_connection_tears_apart_are_all_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest would go to a name server that was restarted in between, and stand for
    everything."""
    monkeypatch.setattr(name_servers, "PART_BYTES", 6000)
    monkeypatch.setattr(name_servers, "AT_ONCE", 0)

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        for number in range(100):
            world.topics.update(TopicConfig(topic_name=f"T{number}"))
        request, asked = world.name_servers.request, 0

        async def torn(table: TopicConfigTable, *, whole: bool = False) -> Registration:
            nonlocal asked
            asked += 1
            if asked == 2:
                await servers[0].stop()
                await servers[0].start()
            return await request(table, whole=whole)

        world.name_servers.request = torn  # type: ignore[method-assign]
        async with running(world):
            await world.until(lambda: world.name_servers.links[0].registered)
            for number in range(100):
                assert await world.knows(servers[0].address, f"T{number}")

    play(tmp_path, 1, scenario)


def test_name_servers_may_change_while_the_broker_runs(tmp_path: Path) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        first, second = servers
        world.name_servers.use(first.address)
        async with running(world):
            await world.until(lambda: world.knows(first.address, "TBW102"))
            kept = world.name_servers.links[0]
            world.name_servers.use(f"{first.address};{second.address}")
            await world.until(lambda: world.knows(second.address, "TBW102"))
            assert world.name_servers.links[0] is kept
            world.name_servers.use(second.address)

            async def forgotten() -> bool:
                return not await world.knows(first.address, "TBW102")

            await world.until(forgotten)
            assert await world.knows(second.address, "TBW102")

    play(tmp_path, 2, scenario)


def test_an_address_server_tells_the_name_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        told: list[str | Exception] = [
            OSError("nobody there"),
            "",
            f"{servers[0].address}\r\n",
            "<html><body>Moved</body></html>",
            servers[1].address,
        ]
        asked: list[str] = []

        def fetch(url: str) -> str:
            asked.append(url)
            answer = told.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        world.config.namesrv_addr = None
        world.config.namesrv_domain = "here"
        world.config.fetch_namesrv_addr_by_address_server = True
        world.name_servers.use(None)
        service = BrokerAddressServer(world.config, world.name_servers, world.clock, fetch=fetch)
        async with running(world):
            assert [await service.look_up() for _ in range(2)] == [False, False]
            assert world.name_servers.links == []
            assert await service.look_up()
            await world.until(lambda: world.knows(servers[0].address, "TBW102"))
            assert not await service.look_up()
            assert [link.address for link in world.name_servers.links] == [servers[0].address]
            assert await service.look_up()
            await world.until(lambda: world.knows(servers[1].address, "TBW102"))
            assert set(asked) == {"http://here:8080/rocketmq/nsaddr"}
            world.config.namesrv_addr = servers[
                0
            ].address  # configured now: nobody is asked any more
            assert await service.look_up()
            assert len(asked) == 5

    play(tmp_path, 2, scenario)
