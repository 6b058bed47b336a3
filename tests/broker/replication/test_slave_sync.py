"""What a slave takes over: topics, groups and offsets become those of its master, and only what has
changed is sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.topic import KnownTableRequest
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.slices import at_once

from .slave_scenes import MASTER, Pair, a_master, commit, play


def test_topics_groups_and_offsets_become_those_of_the_master(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker, pair.slave.broker
        master.state.topics.update(
            TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=3)
        )
        master.state.groups.update(SubscriptionGroupConfig(group_name="g", retry_max_times=3))
        await pair.at_master.send("T", b"")
        pair.replicate()
        pair.slave.clock.advance(5)
        slave.state.topics.update(TopicConfig(topic_name="Gone"))
        slave.state.groups.update(SubscriptionGroupConfig(group_name="gone"))
        master.tables.delay_offsets.set(3, 17)
        await pair.at_master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(7))
        await pair.once()
        assert slave.state.topics.record() == master.state.topics.record()
        assert slave.state.groups.record() == master.state.groups.record()
        assert slave.state.offsets.record() == master.state.offsets.record()
        await pair.synced()
        assert slave.tables.delay_offsets.get(3) == 17
        await asyncio.gather(*(file.saved() for file in slave.tables.files._files))
        for name in ("topics.json", "subscriptionGroup.json", "delayOffset.json"):
            assert (tmp_path / "s" / "config" / name).exists()
        assert [address for address, _ in pair.network.asked] == [
            "10.0.0.1:10909",
            MASTER,
            MASTER,
            MASTER,
        ]

    play(tmp_path, scene)


@pytest.mark.parametrize("original", [False, True])
def test_topics_and_groups_that_are_known_are_not_sent(tmp_path: Path, original: bool) -> None:
    async def scene(pair: Pair) -> None:
        master, slave, told = pair.master.broker, pair.slave.broker, pair.network.told
        topics = RequestCode.GET_ALL_TOPIC_CONFIG
        groups = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        pair.network.original = original

        def are_the_same() -> bool:
            return (
                slave.state.topics.record() == master.state.topics.record()
                and slave.state.groups.record() == master.state.groups.record()
            )

        master.state.topics.update(TopicConfig(topic_name="T"))
        master.state.groups.update(SubscriptionGroupConfig(group_name="g"))
        await pair.once()
        assert told[topics]
        assert told[groups]
        assert are_the_same()
        await pair.once()
        assert bool(told[topics]) == bool(told[groups]) == original
        assert told[RequestCode.GET_ALL_CONSUMER_OFFSET]
        assert are_the_same()
        master.state.topics.update(TopicConfig(topic_name="T2"))
        slave.state.groups.update(SubscriptionGroupConfig(group_name="gone"))
        await pair.once()
        assert told[topics]
        assert told[groups]
        assert are_the_same()

    play(tmp_path, scene)


@pytest.mark.parametrize("original", [False, True])
def test_of_offsets_what_has_changed_is_sent(tmp_path: Path, original: bool) -> None:
    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker.state.offsets, pair.slave.broker.state.offsets
        pair.network.original = original

        async def sent() -> set[str]:
            """By whom it was sent offsets; it has the master's then."""
            await pair.once()
            assert slave.record() == master.record()
            body = pair.network.told[RequestCode.GET_ALL_CONSUMER_OFFSET]
            return {
                key.partition("@")[2] for key in decode_body(ConsumerOffsetTable, body).offset_table
            }

        for group in (groups := ["a", "b", "c"]):
            master.commit(group, "T", 0, 5)
        assert await sent() == set(groups)
        assert await sent() == (set(groups) if original else set())
        master.commit(groups[2], "T", 0, 6)
        master.commit("a", "T", 0, 5)
        assert await sent() == (set(groups) if original else {groups[2]})
        slave.commit("b", "T", 0, 3)
        master.clone("a", "d", "T")
        assert await sent() == ({*groups, "d"} if original else {"d"})
        at_once(slave.remove_group("d"))
        at_once(master.remove_group("d"))
        assert await sent() == set(groups), "nothing comes back"
        pair.sync.forget_master()
        assert await sent() == set(groups), "another master"

    play(tmp_path, scene)


def test_offsets_that_the_master_deletes_go_at_its_slave(tmp_path: Path) -> None:
    """A group that is made anew must not go on at its old place after a failover."""

    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker.state.offsets, pair.slave.broker.state.offsets
        for group in ("a", "b"):
            master.commit(group, "T", 0, 5)
        slave.commit("own", "T", 0, 5)
        await pair.once()
        for group in ("a", "b"):
            pair.sync._accepted.accept(f"T@{group}", 0, 9)
        at_once(master.remove_group("a"))
        changes = slave.changes
        await pair.once()
        assert [slave.get(group, "T", 0) for group in ("a", "b", "own")] == [-1, 5, 5]
        assert slave.changes == changes + 1, "it is written"
        assert pair.sync._accepted.record().accepted_table.keys() == {"T@b"}

    play(tmp_path, scene)


def test_offsets_that_a_master_started_again_lacks_are_kept(tmp_path: Path) -> None:
    """It may have lost them."""

    async def scene(pair: Pair) -> None:
        slave = pair.slave.broker.state.offsets
        pair.master.broker.state.offsets.commit("a", "T", 0, 5)
        await pair.once()
        async with a_master(tmp_path / "n") as again:
            again.broker.state.offsets.commit("b", "T", 0, 6)
            pair.network.client = again.connect()
            await pair.once()
            await pair.once()
            assert [slave.get(group, "T", 0) for group in ("a", "b")] == [5, 6]

    play(tmp_path, scene)


def test_what_changed_since_is_nothing_for_who_has_forgotten(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        offsets = pair.master.broker.state.offsets
        for group in ("a", "b"):
            offsets.commit(group, "T", 0, 5)
        await pair.once()
        ask = pair.network.invoke

        async def ask_and_forget(*args: Any, **how: Any) -> Response:
            response = await ask(*args, **how)
            if args[1] is RequestCode.GET_ALL_CONSUMER_OFFSET:
                pair.sync.forget_master()
            return response

        offsets.commit("a", "T", 0, 6)
        pair.network.invoke = ask_and_forget  # type: ignore[method-assign]
        await pair.once()
        pair.network.invoke = ask  # type: ignore[method-assign]
        pair.slave.broker.state.offsets.commit("b", "T", 0, 3)
        await pair.once()
        assert pair.slave.broker.state.offsets.record() == offsets.record()

    play(tmp_path, scene)


@pytest.mark.parametrize("known", ["", "-", "-0", "x-0", "~-", "~-+1", "~-99", "~-" + "9" * 5000])
def test_who_knows_nothing_gets_all_offsets(tmp_path: Path, known: str) -> None:
    async def scene(pair: Pair) -> None:
        pair.master.broker.state.offsets.commit("g", "T", 0, 7)
        code = RequestCode.GET_ALL_CONSUMER_OFFSET
        plain = await pair.at_master.ask(code)
        assert plain.ext_fields == {}, "as the original answers"
        state: str = (await pair.at_master.ask(code, KnownTableRequest(known=""))).header.state
        process = state.partition("-")[0]
        asked = KnownTableRequest(known=known.replace("~", process))
        response = await pair.at_master.ask(code, asked)
        assert response.header.since is None
        assert response.body == plain.body

    play(tmp_path, scene)


def test_a_master_without_its_second_port_is_asked_at_the_first(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        pair.master.broker.state.topics.update(TopicConfig(topic_name="T"))
        pair.network.vip = False
        await pair.once()
        assert "T" in pair.slave.broker.state.topics

    play(tmp_path, scene)
