"""When a slave asks its master for its tables: at intervals, and sooner where the log or the master
tells of something new."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiorocketmq.broker.replication.slave_sync import SOON_S, SYNC_S
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.slices import at_once

from ...sim import turns
from .slave_scenes import MASTER, TABLES, Pair, play


@pytest.mark.parametrize("messages", [1, 100], ids=["one record", "a piece of many"])
def test_topics_are_asked_for_when_the_log_brings_one_that_is_not_known(
    tmp_path: Path, messages: int
) -> None:
    """Else a master that is lost within 10 s leaves messages behind that nobody can read."""

    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        assert len(pair.network.asked) == TABLES
        pair.slave.clock.advance(SOON_S)
        await pair.master.make_topic("T")
        for _ in range(messages):
            await pair.at_master.send("T", b"hello")
        assert "T" not in pair.slave.broker.state.topics
        pair.replicate()
        await turns()
        assert [code for _, code in pair.network.asked[TABLES:]] == [
            RequestCode.GET_ALL_TOPIC_CONFIG
        ]
        assert "T" in pair.slave.broker.state.topics
        pair.slave.clock.advance(SOON_S)
        await pair.at_master.send("T", b"hello", queue_id=1)
        pair.replicate()
        await turns()
        assert len(pair.network.asked) == TABLES + 1, "a new queue of a known topic"
        pair.slave.clock.advance(SYNC_S)
        await turns()
        assert len(pair.network.asked) == 2 * TABLES + 1
        service.cancel()

    play(tmp_path, scene)


def test_a_topic_that_was_deleted_and_made_again_is_asked_for_too(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await with_a_deleted_topic(pair, "T")
        at_once(pair.master.broker.store.delete_topic_in_slices("T"))
        await pair.at_master.send("T", b"after")
        pair.replicate()
        await pair.passes(2.1 * SOON_S)
        assert "T" in pair.slave.broker.state.topics
        service.cancel()

    play(tmp_path, scene)


async def with_a_deleted_topic(pair: Pair, name: str) -> None:
    await pair.at_master.send(name, b"hello")
    pair.master.broker.state.topics.delete(name)
    pair.replicate()
    await turns()


def test_the_longer_asking_for_topics_brings_nothing_the_more_seldom_it_is_done(
    tmp_path: Path,
) -> None:
    async def scene(pair: Pair) -> None:
        asked, ends = pair.network.asked, []
        for name in ("A", "B", "C"):
            await pair.at_master.send(name, b"hello")
            pair.master.broker.state.topics.delete(name)
            ends.append(pair.master.broker.store.max_phy_offset)
        service = asyncio.create_task(pair.sync.run())
        await turns()
        pair.replicate(ends[0])
        await turns()
        assert len(asked) == TABLES + 1
        pair.replicate(ends[1])
        await pair.passes(1.9 * SOON_S)
        assert len(asked) == TABLES + 1
        await pair.passes(0.2 * SOON_S)
        assert len(asked) == TABLES + 2
        pair.replicate(ends[2])
        await pair.passes(3.9 * SOON_S)
        assert len(asked) == TABLES + 2
        await pair.passes(0.2 * SOON_S)
        assert len(asked) == TABLES + 3
        await pair.passes(5 * SOON_S)
        assert len(asked) == TABLES + 3, "there is nothing to ask for"
        service.cancel()

    play(tmp_path, scene)


def test_topics_that_could_not_be_asked_for_are_asked_for_again(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.master.make_topic("T")
        await pair.at_master.send("T", b"hello")
        here, pair.network.client = pair.network.client, None
        pair.replicate()
        await turns()
        pair.network.client = here
        assert "T" not in pair.slave.broker.state.topics
        await pair.passes(2.1 * SOON_S)
        assert "T" in pair.slave.broker.state.topics
        service.cancel()

    play(tmp_path, scene)


def test_a_master_that_is_away_for_long_is_asked_now_and_then(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.at_master.send("T", b"hello")
        pair.network.client = None
        pair.replicate()
        await turns()
        for _ in range(60):
            await pair.passes(SYNC_S / 20)
        each_time = (
            7 + TABLES
        )  # 0.1, 0.2, 0.4, ... s later, then all tables; at two ports where topics are asked for
        assert len(pair.network.asked) < 3 * 2 * each_time
        service.cancel()

    play(tmp_path, scene)


def test_who_has_another_master_takes_over_from_nobody_until_it_is_known(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        pair.sync.forget_master()
        service = asyncio.create_task(pair.sync.run())
        await turns()
        assert not pair.network.asked
        pair.sync.master_is(MASTER)
        await turns()
        assert len(pair.network.asked) == TABLES
        pair.sync.forget_master()
        await pair.passes(SYNC_S)
        assert len(pair.network.asked) == TABLES
        service.cancel()

    play(tmp_path, scene)


def test_what_a_master_says_that_it_has_changed_is_taken_over_soon(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.master.make_topic("T")
        pair.master.broker.state.groups.update(SubscriptionGroupConfig(group_name="g"))
        await pair.passes(SOON_S)
        assert "T" not in pair.slave.broker.state.topics
        pair.sync.tables_changed()
        await turns()
        assert "T" in pair.slave.broker.state.topics
        assert pair.slave.broker.state.groups.get("g") is not None
        assert len(pair.network.asked) == TABLES + 2
        service.cancel()

    play(tmp_path, scene)
