"""The broker itself: its configuration, its figures, cleaning, codes that nobody serves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode

from .sim_broker import SimBroker

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


Play = Callable[..., None]


def test_configuration_is_read_and_changed(play: Play, tmp_path: Path) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
        assert answer.header.version == f'{{"counter":0,"timestamp":{sim.clock.time_ms()}}}'
        lines = answer.body.decode().splitlines()
        assert {
            "brokerName=b",
            "listenPort=10911",
            "brokerRole=ASYNC_MASTER",
            "autoCreateTopicEnable=true",
        } <= set(lines)
        answer = await client.ask(
            RequestCode.UPDATE_BROKER_CONFIG,
            None,
            b"autoCreateTopicEnable=false\nnobodyKnows=1\nlistenPort=1234\n",
        )
        assert answer.code == 0
        assert answer.remark == (
            "this broker has no property nobodyKnows: that has changed nothing; "
            "takes effect at the next start: listenPort"
        )
        assert not sim.broker.settings.broker.auto_create_topic_enable
        text = (tmp_path / "config" / "broker.properties").read_text()
        assert "autoCreateTopicEnable=false" in text.splitlines()
        assert "nobodyKnows" not in text
        answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
        assert '"counter":1' in answer.header.version

    play(scenario)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"rocketmqHome=/x", 16),
        (b"brokerPermission=4\nconfigBlackList=", 16),
        (b"brokerPermission=4\nlistenPort=x", 1),
        (b"brokerPermission=\\u12", 1),
    ],
)
def test_changes_that_are_refused_change_nothing(play: Play, text: bytes, code: int) -> None:
    async def scenario(sim: SimBroker) -> None:
        answer = await sim.connect().ask(RequestCode.UPDATE_BROKER_CONFIG, None, text)
        assert answer.code == code
        assert sim.broker.settings.broker.broker_permission == 6

    play(scenario)


def test_a_property_of_the_store_waits_for_the_next_start(play: Play, tmp_path: Path) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        assert (
            await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"fileReservedTime=48\n")
        ).code == 0
        assert (
            "fileReservedTime=48"
            in (tmp_path / "config" / "broker.properties").read_text().splitlines()
        )
        answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
        assert b"fileReservedTime=48\n" in answer.body

    play(scenario)


@pytest.mark.parametrize("code", [0, 1], ids=["written", "not written"])
def test_the_brokers_permission_makes_a_new_version_of_the_topics(
    play: Play, tmp_path: Path, code: int
) -> None:
    """Also where the file cannot be written: it is in effect, and name servers have to know."""

    async def scenario(sim: SimBroker) -> None:
        if code:
            (tmp_path / "config" / "broker.properties.tmp").mkdir(parents=True)
        answer = await sim.connect().ask(
            RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=4\n"
        )
        assert answer.code == code
        assert sim.broker.state.topics.data_version.counter == 1

    play(scenario)


def test_runtime_info(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        table = decode_body(
            KVTable, (await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).check().body
        ).table
        assert table["msgPutTotalTodayNow"] == "1"
        assert table["commitLogMinOffset"] == "0"
        assert int(table["commitLogMaxOffset"]) > 91
        assert table["earliestMessageTimeStamp"] == str(sim.clock.time_ms())

    play(scenario)


def test_queues_of_unknown_topics_are_cleaned(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for topic in ("T", "U"):
            await client.send(topic, b"one")
        sim.broker.state.topics.delete("U")
        assert (await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
        assert sim.broker.store.topics() == {"T"}

    play(scenario)


def test_codes_that_nobody_serves(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        assert (await client.ask(RequestCode.PUT_KV_CONFIG)).code == 3
        assert RequestCode.PULL_MESSAGE in sim.broker.table

    play(scenario)


def test_the_configuration_tells_what_is_in_force_and_keeps_what_was_configured(
    play: Play, tmp_path: Path
) -> None:
    """As the original, which works both out: the port for slaves, and the size of the bloom
    filter."""

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()

        async def shown() -> set[str]:
            return set((await client.ask(RequestCode.GET_BROKER_CONFIG)).body.decode().splitlines())

        assert {"haListenPort=10912", "bitMapLengthConsumeQueueExt=112"} <= await shown()
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"autoCreateTopicEnable=false\n")
        text = (tmp_path / "config" / "broker.properties").read_text()
        assert "haListenPort=0" in text.splitlines(), "a broker on another port has another one"
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"haListenPort=4711\n")
        assert "haListenPort=4711" in await shown()

    play(scenario)
