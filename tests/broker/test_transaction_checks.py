"""What a broker asks producers about, and what it knows after a restart (``broker-services.md``
§5.4, §5.5)."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.processors.transaction import TransactionProcessor
from aiorocketmq.broker.state.consumer_offsets import OffsetTableFullError
from aiorocketmq.broker.transactions import transaction_check
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.commands.transaction import (
    ResumeCheckHalfMessageRequest,
)
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.config import FlushDiskType, MessageStoreConfig
from aiorocketmq.store.model.errors import BrokenPromiseError, ShortageError, StoreFileError

from ..fault.faults import SYNCING, Faults
from .sim_broker import SimBroker, SimClient
from .transaction_scenes import (
    COMMIT,
    GIVEN_UP,
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


def test_a_silent_producer_is_asked_about_a_copy(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        await checked(world, 5.999)
        assert asked(client) == []
        await checked(world, 0.001)
        [(request, message)] = asked(client)
        original, copy = stored(world, HALF)
        assert (request.tran_state_table_offset, request.commit_log_offset) == (
            1,
            copy.commit_log_offset,
        )
        assert (request.msg_id, request.transaction_id, request.offset_msg_id) == (
            "K",
            "K",
            copy.offset_msg_id,
        )
        assert copy.properties == {**original.properties, "TRANSACTION_CHECK_TIMES": "1"}
        assert (copy.flag, copy.body, copy.born_timestamp) == (
            7,
            b"body K",
            original.born_timestamp,
        )
        assert copy.store_timestamp == world.clock.time_ms()
        assert (message.topic, message.queue_id, message.body) == ("T", 1, b"body K")
        assert message.properties == {**copy.properties, "WAIT": "false"}
        assert (message.queue_offset, message.commit_log_offset) == (1, copy.commit_log_offset)
        assert sent.queue_offset == 0

    play(tmp_path, scene)


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_the_answer_to_a_check_decides(tmp_path: Path, decision: int) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        await checked(world)
        [(request, _)] = asked(client)
        client.connection.invoke_oneway(RequestCode.END_TRANSACTION, answer_to(request, decision))
        await end(client, sent, decision)  # the late word about the first number
        assert len(stored(world, "T", 1)) == (decision == COMMIT)
        assert [op.body for op in stored(world, OP)] == [b"1"]
        await checked(world)
        assert asked(client) == []
        assert world.broker.storage.transactions.halves.front == 2

    play(tmp_path, scene)


def test_a_late_word_about_the_first_number_decides_the_copy(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        await checked(world)
        await end(client, sent, COMMIT)
        [(request, _)] = asked(client)
        (await client.ask(RequestCode.END_TRANSACTION, answer_to(request, COMMIT))).check()
        assert len(stored(world, "T", 1)) == 1
        assert [op.body for op in stored(world, OP)] == [b"1", b"0"]
        await checked(world)
        assert asked(client) == []

    play(tmp_path, scene)


def test_silence_ends_in_the_topic_of_those_given_up(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        times = []
        for _ in range(5):
            await checked(world)
            times += [message.properties["TRANSACTION_CHECK_TIMES"] for _, message in asked(client)]
        assert times == ["1", "2", "3"]
        [message] = stored(world, GIVEN_UP)
        assert message.properties == stored(world, HALF)[-1].properties
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "3"
        assert (message.body, message.queue_id) == (b"body K", 0)
        topic = world.broker.state.topics.get(GIVEN_UP)
        assert topic is not None
        assert (topic.perm, topic.read_queue_nums) == (6, 1)
        assert (
            world.broker.storage.transactions.halves.front
            == world.broker.storage.transactions.halves.end
            == 4
        )

    play(tmp_path, scene, transaction_check_max=3)


def test_a_word_comes_too_late_but_counts(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        for _ in range(2):
            await checked(world)
        assert len(stored(world, GIVEN_UP)) == 1
        await end(client, sent, COMMIT)
        await end(client, sent, COMMIT)
        assert len(stored(world, "T", 1)) == 1

    play(tmp_path, scene, transaction_check_max=1)


def test_what_was_given_up_can_be_resumed(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        for _ in range(2):
            await checked(world)
        asked(client)
        [given_up] = stored(world, GIVEN_UP)
        resume = ResumeCheckHalfMessageRequest(msg_id=given_up.offset_msg_id)
        (await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resume)).check()
        assert stored(world, HALF)[-1].properties == {
            **given_up.properties,
            "TRANSACTION_CHECK_TIMES": "0",
        }
        await checked(world)
        [(request, message)] = asked(client)
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
        (await client.ask(RequestCode.END_TRANSACTION, answer_to(request, COMMIT))).check()
        assert [m.body for m in stored(world, "T", 1)] == [b"body K"]

    play(tmp_path, scene, transaction_check_max=1)


def test_only_what_was_given_up_can_be_resumed(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        for msg_id in (sent.msg_id, "", "zz", "F" * 32, None):
            answer = await client.ask(
                RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageRequest(msg_id=msg_id)
            )
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "id" in (answer.remark or "")
        assert len(stored(world, HALF)) == 1

    play(tmp_path, scene)


def test_a_producer_that_is_gone_is_asked_when_another_one_of_its_group_comes(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        client.connection.close()
        await asyncio.sleep(0.001)
        await checked(world)
        stranger, heir = world.connect(), world.connect()
        await stranger.heartbeat("c2", producers=("other",))
        await heir.heartbeat("c3", producers=("pg",))
        await checked(world)
        assert asked(stranger) == []
        [(_, message)] = asked(heir)
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "2"

    play(tmp_path, scene)


def test_producers_of_a_group_take_turns(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        other = world.connect()
        await other.heartbeat("c2", producers=("pg",))
        for number in range(4):
            await half(world, client, key=f"K{number}")
        await checked(world)
        assert len(asked(client)) == len(asked(other)) == 2

    play(tmp_path, scene)


def test_one_that_cannot_be_written_to_is_passed_over(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        other = world.connect()
        await other.heartbeat("c2", producers=("pg",))
        client.at_broker.pause_writing()
        for number in range(4):
            await half(world, other, key=f"K{number}")
        await checked(world)
        assert (len(asked(client)), len(asked(other))) == (0, 4)

    play(tmp_path, scene)


def test_while_nobody_can_be_written_to_the_round_waits_a_little(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for number in range(3):
            await half(world, client, key=f"K{number}")
        client.at_broker.pause_writing()
        world.clock.advance(60)
        round_ = asyncio.ensure_future(world.broker.storage.transaction_check.check())
        while not world.clock._sleepers:
            await asyncio.sleep(0.001)
        client.at_broker.resume_writing()
        world.clock.advance(transaction_check.CONGESTION_S)
        await round_
        await asyncio.sleep(0.001)
        assert len(asked(client)) == 3

    play(tmp_path, scene)


def test_the_first_young_one_ends_the_round(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client, key="young")
        await half(world, client, key="old", born_timestamp=world.clock.time_ms() - 60_000)
        await checked(world, 1)
        assert asked(client) == []
        await checked(world, 5)
        assert [message.msg_id for _, message in asked(client)] == ["young", "old"]

    play(tmp_path, scene)


def test_immunity_keeps_a_half_message_and_its_number(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client, more="\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01150")
        for _ in range(2):
            await checked(world)
        copies = stored(world, HALF)[1:]
        assert [copy.properties["TRAN_PREPARED_QUEUE_OFFSET"] for copy in copies] == ["0", "0"]
        assert all("TRANSACTION_CHECK_TIMES" not in copy.properties for copy in copies)
        assert asked(client) == []
        await checked(world)
        [(request, message)] = asked(client)
        assert (request.tran_state_table_offset, message.properties["TRANSACTION_CHECK_TIMES"]) == (
            3,
            "1",
        )
        await end(client, sent, COMMIT)
        await checked(world)
        assert asked(client) == []
        assert len(stored(world, "T", 1)) == 1

    play(tmp_path, scene)


def test_what_is_too_old_is_given_up_unasked(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client, born_timestamp=world.clock.time_ms() - 73 * 3_600_000)
        await checked(world)
        assert asked(client) == []
        assert len(stored(world, GIVEN_UP)) == 1

    play(tmp_path, scene)


def test_progress_is_in_the_table_of_consumer_offsets(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        offsets = world.broker.state.offsets
        for number in range(3):
            sent = await half(world, client, key=f"K{number}")
            if number != 1:
                await end(client, sent, ROLLBACK)
        assert offsets.get(GROUP, HALF, 0) == -1
        await checked(world, 1)
        assert (offsets.get(GROUP, HALF, 0), offsets.get(GROUP, OP, 0)) == (1, 0)
        await checked(world)
        assert (offsets.get(GROUP, HALF, 0), offsets.get(GROUP, OP, 0)) == (3, 2)
        [(request, _)] = asked(client)
        (await client.ask(RequestCode.END_TRANSACTION, answer_to(request, ROLLBACK))).check()
        await checked(world)
        assert (offsets.get(GROUP, HALF, 0), offsets.get(GROUP, OP, 0)) == (4, 3)

    play(tmp_path, scene)


def test_producers_are_asked_when_the_copies_and_the_progress_are_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        events: list[str] = []
        store, check = world.broker.store, world.broker.storage.transaction_check
        sync, save = store.sync, check._save_offsets

        async def synced() -> None:
            await sync()
            assert store.flushed_offset == store.max_phy_offset
            events.append("synced")

        async def saved() -> None:
            await save()
            assert (
                '"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1'
                in offsets_file.read_text().replace("\n", "").replace("\t", "")
            )
            events.append("saved")

        offsets_file = tmp_path / "config" / "consumerOffset.json"
        monkeypatch.setattr(store, "sync", synced)
        monkeypatch.setattr(check, "_save_offsets", saved)
        client.answers[RequestCode.CHECK_TRANSACTION_STATE] = lambda *_: events.append("asked")
        await half(world, client)
        await checked(world)
        assert events == ["synced", "saved", "asked"]

    play(tmp_path, scene)


def test_a_progress_that_cannot_be_saved_does_not_end_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        async def fails() -> None:
            raise StoreFileError(tmp_path, "cannot be written")

        monkeypatch.setattr(world.broker.storage.transaction_check, "_save_offsets", fails)
        await half(world, client)
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)
    assert "progress of transactions not saved" in caplog.text


def test_nobody_is_asked_while_the_copies_cannot_be_synced(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        with Faults(tmp_path) as faults:
            faults.wanted = lambda call: errno.EMFILE if call.name in (*SYNCING, "open") else 0
            await checked(world)
            assert faults.injected
            assert not asked(client)
            faults.heal()
            await world.broker.store.sync()
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)


def test_what_expires_undecided_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        await half(world, client)
        check = world.broker.storage.transaction_check
        await check.load()
        monkeypatch.setattr(world.broker.store, "min_offset", lambda _topic, _queue_id: 2)
        for _ in range(2):
            await check.check()

    play(tmp_path, scene)
    assert caplog.text.count("transactions have expired undecided count=2") == 1


def test_what_cannot_be_read_just_now_is_checked_in_a_later_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        def fails(*_: object) -> None:
            raise ShortageError(tmp_path, "cannot be used: Too many open files")

        await half(world, client)
        check = world.broker.storage.transaction_check
        await check.load()
        world.clock.advance(60)
        with monkeypatch.context() as patch:
            patch.setattr(world.broker.store.entries, "some", fails)
            assert not await check._works(check.load())
            assert not await check._works(check.check())
        assert await check._works(check.load())
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)
    told = caplog.text.count("transactions not checked, tried again: ")
    assert told == 1, "what fails again within a minute is told once"


def test_nothing_stands_for_a_half_message_that_is_decided(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        await end(client, sent, COMMIT)
        [decided] = stored(world, HALF)
        log = world.broker.storage.transaction_check._log
        with pytest.raises(BrokenPromiseError, match="half message 0 is decided"):
            log.put_copy(decided, {}, world.clock.time_ms())
        assert len(stored(world, HALF)) == 1

    play(tmp_path, scene)


def test_a_round_gives_way(tmp_path: Path) -> None:
    """Many half messages are checked in many turns of the loop, and all of them."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        count = 20 * transaction_check.PER_TURN
        for number in range(count):
            await half(world, client, key=f"K{number}")
        turns = 0
        world.clock.advance(60)
        round_ = asyncio.ensure_future(world.broker.storage.transaction_check.check())
        while not round_.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 20
        while len(client.pushed) < count:
            await asyncio.sleep(0.001)
        assert sorted(m.msg_id for _, m in asked(client)) == sorted(f"K{n}" for n in range(count))

    play(tmp_path, scene)


def test_a_service_checks_every_interval(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        service = asyncio.ensure_future(world.broker.storage.transaction_check.run())
        await half(world, client)
        for _ in range(2):
            while not world.clock._sleepers:
                await asyncio.sleep(0.001)
            assert asked(client) == []
            world.clock.advance(30)
            while not client.pushed:
                await asyncio.sleep(0.001)
            asked(client)
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)

    play(tmp_path, scene, transaction_check_interval=30_000)


def test_a_half_message_that_nobody_can_read_yet_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a member of a group the last ones are in the log, and not committed."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        store = world.broker.store
        await half(world, client)
        with monkeypatch.context() as patch:
            patch.setattr(store, "max_offset", lambda _topic, _queue_id: 0)
            await checked(world)
        assert not asked(client)
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)


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


# -- restarts


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

    config = MessageStoreConfig(
        store_path_root_dir=str(tmp_path),
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=100,
        max_index_num=400,
    )
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
                processor._durability.for_all = True  # type: ignore[misc]
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


def test_a_full_table_of_offsets_does_not_end_the_checks(tmp_path: Path) -> None:
    """Clients have filled it."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        offsets = world.broker.state.offsets
        offsets.frame_budget.take(offsets.frame_budget.budget_bytes)
        with pytest.raises(OffsetTableFullError):
            offsets.commit("g", "T", 0, 1)
        await half(world, client)
        await checked(world)
        assert len(asked(client)) == 1
        assert offsets.get(GROUP, HALF, 0) == 1

    play(tmp_path, scene)
