"""What a slave has when it becomes master: its tables are not ahead of its log, and topics that its
log brought are known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.replication.slave_sync import SOON_S
from aiorocketmq.broker.state.consumer_offsets import NO_OFFSET
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.base import TopicRequest
from aiorocketmq.remoting.responses import Response

from ...sim import turns
from ..transaction_scenes import GROUP, HALF, half
from .slave_scenes import Pair, a_master, commit, play


def test_a_slave_that_becomes_a_master_has_no_offsets_behind_its_end(tmp_path: Path) -> None:
    """Consumers may have read at the old master what never came here: the next messages would be
    passed over."""

    async def scene(pair: Pair) -> None:
        await pair.at_master.send("T", b"one")
        await pair.once()
        pair.replicate()
        await pair.at_slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(3))
        pair.slave.broker.tables.offsets_file.changed()

    async def as_master() -> None:
        async with a_master(tmp_path / "s") as promoted:
            assert promoted.broker.state.offsets.get("g", "T", 0) == 1
            assert not (tmp_path / "s" / "config" / "slaveOffset.json").exists()

    play(tmp_path, scene)
    assert (tmp_path / "s" / "config" / "slaveOffset.json").exists()
    asyncio.run(as_master())


@pytest.mark.parametrize("away", [False, True])
def test_offsets_in_a_topic_that_was_made_again_are_not_those_of_the_one_before(
    tmp_path: Path, away: bool
) -> None:
    """Neither a slave that was away when it was deleted hears of that, nor one between whose rounds
    one queue of the new one was committed already. As the next master it would pass over what it
    has of the new one, as far as groups were in the old one."""

    async def first(pair: Pair) -> None:
        master = pair.master.broker.state.offsets
        for queue_id, count in ((0, 5), (1, 1)):
            for _ in range(count):
                await pair.at_master.send("T", b"old", queue_id)
            master.commit("g", "T", queue_id, count)
        await pair.at_master.send("Other", b"")
        master.commit("g", "Other", 0, 1)
        pair.replicate()
        await pair.once()
        assert pair.slave.broker.state.offsets.queues("g", "T") == {0: 5, 1: 1}
        await pair.at_slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(9))
        pair.slave.broker.tables.offsets_file.changed()
        if not away:
            await made_again(pair)

    async def made_again(pair: Pair) -> None:
        request = TopicRequest(topic="T")
        (await pair.at_master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, request)).check()
        await pair.master.make_topic("T")
        for queue_id in (0, 0, 0, 1):
            await pair.at_master.send("T", b"new", queue_id)
        pair.master.broker.state.offsets.commit("g", "T", 1, 1)
        if away:
            await pair.once()
        pair.replicate()
        await pair.once()
        assert pair.slave.broker.state.offsets.queues("g", "T") == {1: 1}
        assert "T@g" not in pair.sync._accepted.record().accepted_table
        pair.slave.broker.tables.offsets_file.changed()

    async def as_master() -> None:
        async with a_master(tmp_path / "s") as promoted:
            assert promoted.broker.store.max_offset("T", 0) == 3
            assert promoted.broker.state.offsets.queues("g", "T") == {1: 1}
            assert promoted.broker.state.offsets.queues("g", "Other") == {0: 1}

    play(tmp_path, first)
    if away:
        play(tmp_path, made_again)
    asyncio.run(as_master())


def test_what_was_asked_for_before_a_queue_began_anew_is_not_believed(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        for _ in range(5):
            await pair.at_master.send("T", b"old")
        pair.replicate()
        offsets = pair.master.broker.state.offsets
        offsets.commit("g", "T", 0, 5)
        invoke = pair.network.invoke

        async def late(address: str, code: RequestCode, *args: Any, **how: Any) -> Response:
            response = await invoke(address, code, *args, **how)
            if code is RequestCode.GET_ALL_CONSUMER_OFFSET:
                pair.network.invoke = invoke  # type: ignore[method-assign]
                request = TopicRequest(topic="T")
                await pair.at_master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, request)
                await pair.master.make_topic("T")
                await pair.at_master.send("T", b"new")
                offsets.commit("g", "T", 0, 1)
                pair.replicate()
            return response

        pair.network.invoke = late  # type: ignore[method-assign]
        await pair.once()
        assert pair.offset() == NO_OFFSET
        await pair.once()
        assert pair.offset() == 1

    play(tmp_path, scene)


def test_a_slave_is_not_ahead_of_its_log_with_what_its_master_has_delivered(
    tmp_path: Path,
) -> None:
    """Should it become master, what was delivered and has not come here is delivered by it."""

    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker, pair.slave.broker
        await pair.at_master.send("T", b"later", properties="DELAY\x011")
        await half(pair.master, pair.at_master)
        pair.replicate()
        pair.master.clock.advance(60)
        while not master.storage.schedule.deliver_due():
            pass
        await master.storage.transaction_check.check()
        assert master.tables.delay_offsets.get(1) == 1
        for _ in range(2):
            await pair.once()
            assert slave.tables.delay_offsets.get(1) == 0
            assert slave.state.offsets.get(GROUP, HALF, 0) == NO_OFFSET
        pair.replicate()
        await pair.passes(SOON_S)
        assert slave.tables.delay_offsets.get(1) == 0, "a power failure would cost its log the end"
        assert slave.state.offsets.get(GROUP, HALF, 0) == NO_OFFSET
        await pair.synced()
        assert slave.tables.delay_offsets.get(1) == 1
        assert slave.state.offsets.get(GROUP, HALF, 0) == 1

    play(tmp_path, scene)


def test_a_slave_that_lost_its_log_passes_over_no_delayed_message(tmp_path: Path) -> None:
    """It gets the log again. Its queue went on behind what it had lost, and so did the place."""
    offsets = tmp_path / "s" / "config" / "delayOffset.json"
    offsets.parent.mkdir(parents=True)
    offsets.write_text('{"offsetTable":{"1":3}}')

    async def scene(pair: Pair) -> None:
        assert pair.slave.broker.tables.delay_offsets.get(1) == 3

    play(tmp_path, scene)


def test_a_slave_with_nothing_yet_does_not_go_on_where_its_master_is(tmp_path: Path) -> None:
    """It follows a master that has much for it, and is lost before that has come."""

    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker, pair.slave.broker
        await pair.at_master.send("T", b"later", properties="DELAY\x011")
        end = master.store.max_phy_offset
        pair.master.clock.advance(60)
        while not master.storage.schedule.deliver_due():
            pass
        for _ in range(2):
            await pair.once()
            assert slave.tables.delay_offsets.get(1) == 0
        pair.replicate(end)
        await pair.once()
        assert slave.tables.delay_offsets.get(1) == 0, "it has the message, and not what came of it"
        pair.replicate()
        await pair.synced()
        await pair.passes(SOON_S)
        assert slave.tables.delay_offsets.get(1) == 1

    play(tmp_path, scene)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_what_a_master_has_delivered_is_nothing_to_the_next_one(
    tmp_path: Path, meanwhile: bool
) -> None:
    """Its log did not come here to the end, and that of the next one is another one there."""

    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker, pair.slave.broker
        await pair.at_master.send("T", b"later", properties="DELAY\x011")
        pair.replicate()
        pair.master.clock.advance(60)
        while not master.storage.schedule.deliver_due():
            pass
        if meanwhile:
            invoke = pair.network.invoke

            async def changes(address: str, code: RequestCode, *args: Any, **how: Any) -> Response:
                if code is RequestCode.GET_ALL_DELAY_OFFSET:
                    pair.sync.master_is("10.0.0.2:10911")
                return await invoke(address, code, *args, **how)

            pair.network.invoke = changes  # type: ignore[method-assign]
        await pair.once()
        pair.sync.master_is("10.0.0.2:10911")
        pair.replicate()
        await pair.synced()
        await pair.passes(SOON_S)
        assert slave.tables.delay_offsets.get(1) == 0

    play(tmp_path, scene)


def test_topics_that_a_master_did_not_live_to_tell_of_are_known_to_the_next_one(
    tmp_path: Path,
) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.master.make_topic("Told")
        await pair.at_master.send("Told", b"x")
        pair.replicate()
        pair.slave.clock.advance(SOON_S)
        await turns()
        assert "Told" in pair.slave.broker.state.topics
        pair.network.client = None
        await pair.master.make_topic("Untold")
        await pair.at_master.send("Untold", b"x")
        pair.replicate()
        pair.slave.clock.advance(SOON_S)
        await turns()
        assert pair.sync.leads() == ["Untold"]
        assert pair.sync.leads() == []
        assert pair.sync.master is None
        service.cancel()

    play(tmp_path, scene)


def test_what_is_left_in_the_log_of_a_deleted_topic_makes_none(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.master.make_topic("T")
        await pair.at_master.send("T", b"x")
        pair.master.broker.state.topics.delete("T")
        pair.replicate()
        pair.slave.clock.advance(SOON_S)
        await turns()
        assert pair.sync.leads() == []
        service.cancel()

    play(tmp_path, scene)
