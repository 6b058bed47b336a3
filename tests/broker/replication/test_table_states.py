"""A slave that has all tables of its master asks for its last record, and for nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.replication.table_states import TableStates
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import ViewMessageRequest
from aiorocketmq.remoting.slices import at_once

from ..sim_broker import SimBroker
from .slave_scenes import MASTER, TABLES, Pair, commit, play

Change = Callable[[SimBroker], object]


def delivered(sim: SimBroker, offset: int) -> None:
    sim.broker.tables.delay_offsets.set(3, offset)
    sim.broker.tables.delay_offsets.make_safe(sim.broker.tables.delay_offsets.table())


CHANGES: dict[str, Change] = {
    "a topic": lambda sim: sim.broker.state.topics.update(TopicConfig(topic_name="T2")),
    "a topic is deleted": lambda sim: sim.broker.state.topics.delete("T"),
    "a group": lambda sim: sim.broker.state.groups.update(SubscriptionGroupConfig(group_name="h")),
    "an offset": lambda sim: sim.broker.state.offsets.commit("g", "T", 0, 9),
    "offsets are removed": lambda sim: at_once(sim.broker.state.offsets.remove_group("g")),
    "delayed messages": lambda sim: delivered(sim, 18),
}


def tables_of(sim: SimBroker) -> tuple[Any, ...]:
    state = sim.broker.state
    return (
        state.topics.record(),
        state.groups.record(),
        state.offsets.record(),
        sim.broker.tables.delay_offsets.record(),
    )


async def asked(pair: Pair) -> int:
    """In a round, for how many tables; the slave has the master's then."""
    pair.network.asked.clear()
    await pair.once()
    await pair.synced()  # progress counts when what came of it is on the disk
    assert tables_of(pair.slave) == tables_of(pair.master)
    return len(pair.network.asked)


def at_rest(folder: Path, scene: Callable[[Pair], Awaitable[None]], original: bool = False) -> None:
    """The slave has all, and has asked once more."""

    async def run(pair: Pair) -> None:
        pair.network.original = original
        client = pair.at_master
        await client.send("T", b"the last record")
        pair.replicate()
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(1))
        pair.master.broker.state.groups.update(SubscriptionGroupConfig(group_name="g"))
        delivered(pair.master, 17)
        assert [await asked(pair) for _ in range(2)] == [TABLES, TABLES]
        await scene(pair)

    play(folder, run)


def test_nothing_is_asked_for_while_nothing_changes(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        assert [await asked(pair) for _ in range(3)] == [0, 0, 0]

    at_rest(tmp_path, scene)


def test_a_master_of_the_original_is_asked_for_everything(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        assert [await asked(pair) for _ in range(3)] == [TABLES] * 3

    at_rest(tmp_path, scene, original=True)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_at_the_master_is_taken_over_in_the_next_round(
    tmp_path: Path, change: Change
) -> None:
    async def scene(pair: Pair) -> None:
        assert await asked(pair) == 0
        change(pair.master)
        assert [await asked(pair) for _ in range(3)] == [TABLES, TABLES, 0]

    at_rest(tmp_path, scene)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_at_the_slave_becomes_what_the_master_has(
    tmp_path: Path, change: Change
) -> None:
    async def scene(pair: Pair) -> None:
        pair.slave.clock.advance(1)  # or versions would be the same
        change(pair.slave)
        assert await asked(pair) == TABLES

    at_rest(tmp_path, scene)


def test_what_changes_while_it_is_asked_for_is_asked_for_again(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        offsets, invoke = pair.slave.broker.state.offsets, pair.network.invoke

        async def and_meanwhile(address: str, code: RequestCode, *args: Any, **how: Any) -> Any:
            response = await invoke(address, code, *args, **how)
            if code is RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
                offsets.commit("g", "T", 0, 99)
            return response

        pair.master.broker.state.topics.update(TopicConfig(topic_name="T2"))
        await asked(pair)
        pair.network.invoke = and_meanwhile  # type: ignore[method-assign]
        await pair.once()
        assert offsets.get("g", "T", 0) == 99
        pair.network.invoke = invoke  # type: ignore[method-assign]
        assert await asked(pair) == TABLES

    at_rest(tmp_path, scene)


def test_who_forgets_its_master_meanwhile_has_not_what_it_was_told(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        invoke = pair.network.invoke

        async def and_forgets(address: str, code: RequestCode, *args: Any, **how: Any) -> Any:
            response = await invoke(address, code, *args, **how)
            if code is RequestCode.GET_ALL_CONSUMER_OFFSET:
                pair.sync.forget_master()
                pair.sync.master_is(MASTER)
            return response

        pair.master.broker.state.offsets.commit("g", "T", 0, 9)
        pair.network.invoke = and_forgets  # type: ignore[method-assign]
        await pair.once()
        assert pair.offset() == 1
        pair.network.invoke = invoke  # type: ignore[method-assign]
        assert await asked(pair) == TABLES
        assert pair.offset() == 9

    at_rest(tmp_path, scene)


def test_a_table_that_was_not_taken_over_is_asked_for_again(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        invoke = pair.network.invoke

        async def in_vain(address: str, code: RequestCode, *args: Any, **how: Any) -> Any:
            response = await invoke(address, code, *args, **how)
            if code is RequestCode.GET_ALL_DELAY_OFFSET:
                raise ConnectError("closed")
            return response

        pair.network.invoke = in_vain  # type: ignore[method-assign]
        pair.sync.forget_master()
        assert [await asked(pair) for _ in range(3)] == [TABLES] * 3

    at_rest(tmp_path, scene)


def test_a_topic_that_only_the_log_has_told_of_is_asked_for(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        pair.sync._queue_made("not told of")
        assert [await asked(pair) for _ in range(2)] == [TABLES, 0]

    at_rest(tmp_path, scene)


def test_another_master_is_asked_for_everything(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        pair.sync.forget_master()
        pair.sync.master_is(MASTER)
        assert await asked(pair) == TABLES

    at_rest(tmp_path, scene)


def test_a_master_has_no_word_while_what_it_delivered_is_not_safe(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        async def word(tables: bool | None = True) -> str | None:
            request = ViewMessageRequest(offset=0, tables=tables)
            answer = await pair.at_master.ask(RequestCode.VIEW_MESSAGE_BY_ID, request)
            told: str | None = answer.header.tables
            return told

        first, broker = await word(), pair.master.broker
        assert first is not None
        assert await word() == first
        assert await word(None) is None, "it was not asked"
        broker.tables.delay_offsets.set(3, 18)
        assert await word() is None
        assert [await asked(pair) for _ in range(2)] == [TABLES, TABLES]
        broker.tables.delay_offsets.make_safe(broker.tables.delay_offsets.table())
        assert await word() not in (None, first)
        assert TableStates(broker.state, broker.tables.delay_offsets).word() not in (
            await word(),
            None,
        ), "another process counts anew"

    at_rest(tmp_path, scene)
