"""What a broker registers of its topics: new ones at once and alone, deleted ones not for long, all
of them over a new connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.kv import PutKVConfigRequest

from .registration_world import RunningNameServer, World, play, running


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
