"""What a broker knows of transactions after a restart, an orderly one or none, and as a new master
(``broker-services.md`` §5.5)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.processors.transaction import TransactionProcessor
from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.commands.transaction import EndTransactionRequest
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.config import FlushDiskType
from aiorocketmq.store.put import multi_dispatch

from .sim_broker import SimBroker, SimClient, store_config
from .transaction_scenes import (
    COMMIT,
    GROUP,
    HALF,
    OP,
    ROLLBACK,
    Scene,
    answer_to,
    asked,
    checked,
    end,
    half,
    play,
    stored,
    word,
)


def test_a_new_master_reads_what_is_undecided_whatever_it_knew_before(tmp_path: Path) -> None:
    """It has followed meanwhile; a word that is said between the first step and the others
    counts."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        first = await half(world, client, key="A")
        second = await half(world, client, key="B")
        storage = world.broker.storage
        storage.transactions.halves.begin(7, 7)  # as if it had seen another log
        storage.begin_as_master()
        await end(client, first, ROLLBACK)
        await storage.transaction_check.load()
        await checked(world)
        assert [message.msg_id for _, message in asked(client)] == ["B"]
        await end(client, second, COMMIT)
        assert len(stored(world, "T", 1)) == 1

    play(tmp_path, scene)


def replay(folder: Path, *scenes: Scene, **config: Any) -> None:
    """Scenes with an orderly restart in between; the store is read again each time, as the service
    does at start."""
    for scene in scenes:

        async def loaded(world: SimBroker, client: SimClient, scene: Scene = scene) -> None:
            await world.broker.storage.transaction_check.load()
            await scene(world, client)

        play(folder, loaded, **config)


def test_after_a_restart_everything_is_known(tmp_path: Path) -> None:
    sent: list[SendMessageResponse] = []

    async def before(world: SimBroker, client: SimClient) -> None:
        sent.extend([await half(world, client, key=f"K{number}") for number in range(100)])
        for number in range(0, 100, 2):
            await end(client, sent[number], COMMIT)

    async def after(world: SimBroker, client: SimClient) -> None:
        assert world.broker.storage.transactions.halves.undecided == 50
        await end(client, sent[2], COMMIT)  # said before
        assert len(stored(world, "T", 1)) == 50
        world.clock.advance(100)
        await checked(world)
        assert sorted(m.msg_id for _, m in asked(client)) == sorted(
            f"K{n}" for n in range(1, 100, 2)
        )

    async def at_last(world: SimBroker, client: SimClient) -> None:
        halves = world.broker.storage.transactions.halves
        assert (halves.front, halves.end, halves.undecided) == (100, 150, 50)

    replay(tmp_path, before, after, at_last)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_message_of_somebody_else_decides_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    """One that names the queue of ops as its own further queue; ``refuses=False``: a broker of the
    original took it."""
    sent: list[SendMessageResponse] = []
    if not refuses:
        monkeypatch.setattr(multi_dispatch, "SEND_FORBIDDEN_TOPICS", frozenset())

    async def before(world: SimBroker, client: SimClient) -> None:
        sent.append(await half(world, client))
        forged = f"TAGS\x01d\x02INNER_MULTI_DISPATCH\x01{OP}"
        if refuses:
            with pytest.raises(BrokerError, match="MESSAGE_ILLEGAL"):
                await client.send("T", b"0,1,2,3", properties=forged)
        else:
            await client.send("T", b"0,1,2,3", properties=forged)

    async def after(world: SimBroker, client: SimClient) -> None:
        await end(client, sent[0], COMMIT)
        assert [message.body for message in stored(world, "T", 1)] == [b"body K"]

    replay(tmp_path, before, after, store=store_config(tmp_path, enable_multi_dispatch=True))


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_what_a_copy_decided_is_decided_for_a_master_that_was_told_no_progress(
    tmp_path: Path, decision: int
) -> None:
    """The last one was lost, with its disk, after it had asked about the copy."""
    sent: list[SendMessageResponse] = []

    async def before(world: SimBroker, client: SimClient) -> None:
        sent.append(await half(world, client, key="A"))
        await checked(world)
        [(request, _)] = asked(client)
        (await client.ask(RequestCode.END_TRANSACTION, answer_to(request, decision))).check()
        await half(world, client, key="B")
        at_once(world.broker.state.offsets.remove_group(GROUP))
        await world.broker.tables.save_offsets()

    async def after(world: SimBroker, client: SimClient) -> None:
        await end(client, sent[0], COMMIT)  # said again, as no answer came
        await checked(world, 200)
        assert [message.msg_id for _, message in asked(client)] == ["B"]
        assert len(stored(world, "T", 1)) == (decision == COMMIT)

    replay(tmp_path, before, after)


@pytest.mark.parametrize("rounds", [0, 1])
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("gone", [(HALF,), (OP,), (HALF, OP)])
def test_after_a_restart_everything_is_known_of_queues_that_began_anew(
    tmp_path: Path, gone: tuple[str, ...], killed: bool, rounds: int
) -> None:
    """They had expired, and an administrator had such queues deleted."""

    async def before(world: SimBroker, client: SimClient) -> None:
        for _ in range(5):
            await end(client, await half(world, client), ROLLBACK)
        await checked(world)
        for topic in gone:
            assert at_once(world.broker.store.delete_topic_in_slices(topic))
        await half(world, client, key="A")
        await end(client, await half(world, client, key="B"), ROLLBACK)
        for _ in range(rounds):
            await checked(world)
            assert [message.msg_id for _, message in asked(client)] == ["A"]

    async def after(world: SimBroker, client: SimClient) -> None:
        world.clock.advance(100)
        await checked(world)
        [(request, message)] = asked(client)
        assert message.msg_id == "A"
        (await client.ask(RequestCode.END_TRANSACTION, answer_to(request, COMMIT))).check()
        assert len(stored(world, "T", 1)) == 1

    replay(tmp_path, before)
    if killed:
        (tmp_path / "abort").touch()
    replay(tmp_path, after)


@pytest.mark.parametrize("killed", [False, True])
def test_a_progress_that_is_ahead_of_the_log_is_none(tmp_path: Path, killed: bool) -> None:
    """A master of the original has told it, and copies of half messages have not come here."""

    async def before(world: SimBroker, client: SimClient) -> None:
        for key in "ABCD":
            sent = await half(world, client, key=key)
            if key != "C":
                await end(client, sent, COMMIT)
        for topic, offset in ((HALF, 7), (OP, 2)):
            world.broker.state.offsets.commit(GROUP, topic, 0, offset)
        await world.broker.tables.save_offsets()

    async def after(world: SimBroker, client: SimClient) -> None:
        world.clock.advance(100)
        await checked(world)
        assert [message.msg_id for _, message in asked(client)] == ["C"]

    replay(tmp_path, before)
    if killed:
        (tmp_path / "abort").touch()
    replay(tmp_path, after)


def test_a_commit_that_waits_for_the_disk_when_the_broker_stops_is_noted(tmp_path: Path) -> None:
    async def before(world: SimBroker, client: SimClient) -> None:
        flushing = asyncio.ensure_future(world.broker.store.run())
        sent = await half(world, client)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        client.connection.invoke_oneway(RequestCode.END_TRANSACTION, word(sent, COMMIT))
        while not world.broker.storage.transactions.halves.committing:
            await asyncio.sleep(0)

    async def after(world: SimBroker, client: SimClient) -> None:
        assert len(stored(world, "T", 1)) == 1
        assert [op.body for op in stored(world, OP)] == [b"0"]
        await checked(world)
        assert not asked(client), "it would be committed once more"

    config = store_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    replay(tmp_path, before, after, store=config)


def test_copies_whose_originals_are_still_there_after_a_crash_stand_for_them(
    tmp_path: Path,
) -> None:
    """The progress was not saved after the copies were put."""
    sent: list[SendMessageResponse] = []

    async def before(world: SimBroker, client: SimClient) -> None:
        sent.append(await half(world, client, key="A"))
        sent.append(
            await half(world, client, key="A", born_timestamp=world.clock.time_ms() + 1)
        )  # sent again by its client
        await checked(world)
        world.broker.state.offsets.commit(GROUP, HALF, 0, 0)
        await world.broker.tables.save_offsets()

    async def after(world: SimBroker, client: SimClient) -> None:
        halves = world.broker.storage.transactions.halves
        assert halves.front == 2
        await end(client, sent[0], COMMIT)
        assert [op.body for op in stored(world, OP)] == [b"2", b"0"]
        world.clock.advance(100)
        await checked(world)
        assert [request.tran_state_table_offset for request, _ in asked(client)] == [4]

    replay(tmp_path, before, after)


def test_who_leads_next_with_an_earlier_progress_asks_about_nothing_that_is_decided(
    tmp_path: Path,
) -> None:
    """The leader of a group was killed soon after it had asked."""

    async def before(world: SimBroker, client: SimClient) -> None:
        for processor in world.broker.sends.processors:
            if isinstance(processor, TransactionProcessor):
                processor._durability.for_all = True
        await half(world, client)
        await checked(world)
        asked(client)
        await checked(world)  # a copy of the copy
        [(request, _)] = asked(client)
        client.connection.invoke_oneway(RequestCode.END_TRANSACTION, answer_to(request, COMMIT))
        await asyncio.sleep(0)
        world.broker.state.offsets.commit(GROUP, HALF, 0, 0)
        world.broker.state.offsets.commit(GROUP, OP, 0, 0)
        await world.broker.tables.save_offsets()

    async def after(world: SimBroker, client: SimClient) -> None:
        assert len(stored(world, "T", 1)) == 1
        assert world.broker.storage.transactions.halves.undecided == 0
        world.clock.advance(100)
        await checked(world)
        assert asked(client) == []

    replay(tmp_path, before, after)


def test_after_a_restart_a_word_about_the_first_number_decides_its_copy(tmp_path: Path) -> None:
    sent: list[SendMessageResponse] = []

    async def before(world: SimBroker, client: SimClient) -> None:
        sent.append(await half(world, client))
        await checked(world)
        asked(client)

    async def after(world: SimBroker, client: SimClient) -> None:
        assert world.broker.storage.transactions.halves.front == 1
        world.clock.advance(100)
        await checked(world)  # a copy of the copy
        await end(client, sent[0], COMMIT)
        await end(client, sent[0], COMMIT)
        [(request, _)] = asked(client)
        (await client.ask(RequestCode.END_TRANSACTION, answer_to(request, COMMIT))).check()
        assert [op.body for op in stored(world, OP)] == [b"2", b"0"]
        assert len(stored(world, "T", 1)) == 1

    replay(tmp_path, before, after)


def test_after_a_restart_a_word_about_the_first_number_ends_an_immune_copy(tmp_path: Path) -> None:
    sent: list[SendMessageResponse] = []

    async def before(world: SimBroker, client: SimClient) -> None:
        sent.append(await half(world, client, more="\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01150"))
        await checked(world)

    async def after(world: SimBroker, client: SimClient) -> None:
        world.broker.storage.transactions.halves.copies.clear()  # there were too many to know them
        await end(client, sent[0], COMMIT)
        world.clock.advance(600)
        await checked(world)
        assert asked(client) == []
        assert [op.body for op in stored(world, OP)] == [b"0", b"1"]
        assert len(stored(world, "T", 1)) == 1

    replay(tmp_path, before, after)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("first", [ROLLBACK, COMMIT])
def test_a_second_word_about_what_a_check_has_decided_does_nothing(
    tmp_path: Path, first: int, restarts: bool
) -> None:
    """It was sent twice, and the second one comes when the progress is behind it."""
    said: list[EndTransactionRequest] = []

    async def before(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        await checked(world)
        [(request, _)] = asked(client)
        said.append(answer_to(request, COMMIT))
        (await client.ask(RequestCode.END_TRANSACTION, answer_to(request, first))).check()
        await checked(world)
        assert world.broker.state.offsets.get(GROUP, HALF, 0) == 2

    async def after(world: SimBroker, client: SimClient) -> None:
        (await client.ask(RequestCode.END_TRANSACTION, said[0])).check()
        assert len(stored(world, "T", 1)) == (first == COMMIT)

    async def both(world: SimBroker, client: SimClient) -> None:
        await before(world, client)
        await after(world, client)

    replay(tmp_path, *((before, after) if restarts else (both,)))


def test_ops_of_an_earlier_life_of_the_half_queue_say_nothing_after_a_restart(
    tmp_path: Path,
) -> None:
    """One was given up, which its producer may still decide."""

    async def before(world: SimBroker, client: SimClient) -> None:
        for _ in range(5):
            await end(client, await half(world, client), ROLLBACK)
        await checked(world)
        assert at_once(world.broker.store.delete_topic_in_slices(HALF))
        sent.append(await half(world, client, key="A"))
        halves = world.broker.storage.transactions.halves
        halves.dropped(0)
        await end(client, await half(world, client, key="B"), ROLLBACK)
        await checked(world)
        assert world.broker.state.offsets.get(GROUP, HALF, 0) == 2

    async def after(world: SimBroker, client: SimClient) -> None:
        await end(client, sent[0], COMMIT)
        assert len(stored(world, "T", 1)) == 1

    sent: list[SendMessageResponse] = []
    replay(tmp_path, before, after)
