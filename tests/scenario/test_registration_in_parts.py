"""Topics that no frame can carry, or that are registered in parts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiorocketmq.broker.registry import name_servers
from aiorocketmq.broker.registry.registration import PART_BYTES, Registration
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.lists import TopicList
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.route import BrokerNameRequest
from aiorocketmq.remoting.protocol.frames import frame
from aiorocketmq.remoting.transport.flow import Limits

from .registration_world import RunningNameServer, World, play, running


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


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_servers, "PART_BYTES", 6000)
    monkeypatch.setattr(name_servers, "AT_ONCE", 0)


def make_topics(world: World) -> None:
    """T0 to T99: some small parts."""
    for number in range(100):
        world.topics.update(TopicConfig(topic_name=f"T{number}"))


@pytest.mark.usefixtures("small_parts")
def test_a_table_in_parts_is_sent_again_only_when_it_is_not_known(tmp_path: Path) -> None:
    """It would bring back a write permission that was wiped; a new topic goes alone all the
    same."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        make_topics(world)
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


@pytest.mark.usefixtures("small_parts")
def test_parts_that_a_lost_connection_tears_apart_are_all_sent_again(tmp_path: Path) -> None:
    """The rest would go to a name server that was restarted in between, and stand for
    everything."""

    async def scenario(world: World, servers: list[RunningNameServer]) -> None:
        make_topics(world)
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
