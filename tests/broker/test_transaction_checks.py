"""What a broker asks producers about, when and how often (``broker-services.md`` §5.4, §5.5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiorocketmq.broker.transactions import transaction_check
from aiorocketmq.broker.transactions.transaction_check import TransactionCheck
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.transaction import ResumeCheckHalfMessageRequest

from ..sim import turns, turns_during
from .sim_broker import SimBroker, SimClient
from .transaction_scenes import (
    COMMIT,
    GIVEN_UP,
    GROUP,
    HALF,
    OP,
    ROLLBACK,
    answer_to,
    asked,
    checked,
    end,
    half,
    play,
    stored,
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
        await turns()
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
        await turns()
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


def test_a_round_gives_way(tmp_path: Path) -> None:
    """Many half messages are checked in many turns of the loop, and all of them."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        count = 20 * transaction_check.PER_TURN
        for number in range(count):
            await half(world, client, key=f"K{number}")
        world.clock.advance(60)
        assert await turns_during(world.broker.storage.transaction_check.check()) > 20
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


def test_a_shorter_interval_counts_before_the_old_one_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[TransactionCheck] = []

    async def check(service: TransactionCheck) -> None:
        rounds.append(service)

    monkeypatch.setattr(TransactionCheck, "check", check)

    async def scene(world: SimBroker, _client: SimClient) -> None:
        service = asyncio.create_task(world.broker.storage.transaction_check.run())
        await turns()
        world.broker.settings.broker.transaction_check_interval = 10_000
        for _ in range(2):
            assert not rounds
            world.clock.advance(5.0)
            await turns()
        assert len(rounds) == 1
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)

    play(tmp_path, scene, transaction_check_interval=3_600_000)
