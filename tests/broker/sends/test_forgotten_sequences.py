"""Producers that a broker does not know any more, or not yet: they have expired, are too many, or
nobody has read the log. They are told so, and nothing of theirs is taken for new."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from aiorocketmq.broker.sends import sequence_log
from aiorocketmq.broker.sends.sequences import Sequences
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SequenceHelloResponse
from aiorocketmq.remoting.protocol.record import Records
from aiorocketmq.remoting.slices import Steps, at_once

from ..sequence_scenes import (
    BEGUN,
    DAY_MS,
    HEADER,
    ID,
    answer,
    bodies,
    hello,
    play,
    properties,
    send,
    send_others,
)
from ..sim_broker import SimBroker, SimClient, sim_broker


def test_a_broker_that_was_not_asked_takes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path) as world:
            await world.make_topic("T")
            client = world.connect()
            refused = await send(client, 0)
            assert refused.code == ResponseCode.SEQUENCES_NOT_READY
            assert bodies(world) == []
            header = (await hello(client)).check().header
            assert isinstance(header, SequenceHelloResponse)
            assert (header.expires_ms, header.now_ms) == (7 * DAY_MS, world.clock.time_ms())
            assert answer(await send(client, 0)).sequence == "new"

    asyncio.run(main())


def test_who_comes_back_after_expiry_is_told(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0))
        world.clock.advance(DAY_MS / 1000 + 1)
        for number in (0, 1):
            refused = await send(client, number)
            assert refused.code == ResponseCode.SEQUENCE_UNKNOWN
        begun = world.clock.time_ms()
        assert answer(await send(client, 0, begun_ms=begun)).sequence == "new"
        assert len(bodies(world)) == 2

    play(tmp_path, scene, send_sequence_expire_millis=DAY_MS)


@pytest.mark.parametrize("dropped", ["as it comes", "with others"])
@pytest.mark.parametrize("again", [False, True])
def test_what_has_expired_is_not_taken_for_new_where_the_clock_is_set_back(
    tmp_path: Path, dropped: str, again: bool
) -> None:
    """Neither by the broker whose clock was an hour fast, nor by one that has its log."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        world.clock.put_forward(3600)
        begun = (await hello(client, epoch=1)).check().header.now_ms
        answer(await send(client, 1 << 32, epoch=1, begun_ms=begun))
        world.clock.advance(700)
        answer(await send(client, 0, producer_id="alive", begun_ms=begun + 200_000))
        if dropped == "as it comes":
            refused = await send(client, 1 << 32, epoch=1, begun_ms=begun)
            assert refused.code == ResponseCode.SEQUENCE_UNKNOWN
        if dropped == "with others" or again:
            assert await world.broker.storage.sequences.save() is None
        world.clock.put_forward(-3600)
        if again:
            world.broker.storage.sequences.forget()
            assert (await hello(client, producer_id="whoever")).code == 0
        refused = await send(client, 1 << 32, epoch=1, begun_ms=begun)
        assert refused.code == ResponseCode.SEQUENCE_UNKNOWN
        assert len(bodies(world)) == 2
        got = answer(await send(client, 1, producer_id="alive", begun_ms=begun + 200_000))
        assert got.sequence == "new"
        begun = (await hello(client)).check().header.now_ms
        got = answer(await send(client, 0, producer_id="another", begun_ms=begun))
        assert got.sequence == "new"

    play(tmp_path, scene, send_sequence_expire_millis=600_000)


@pytest.mark.parametrize("again", [False, True])
def test_who_began_before_the_clock_was_set_back_is_not_forgotten_sooner(
    tmp_path: Path, again: bool
) -> None:
    """A batch of Spark that is sent once more after a week says when its first attempt began."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        world.clock.put_forward(3600)
        begun = (await hello(client, epoch=1)).check().header.now_ms
        world.clock.put_forward(-3600)
        got = answer(await send(client, 1 << 32, epoch=1, begun_ms=begun))
        assert got.sequence == "new"
        world.clock.advance(700)
        if again:
            world.broker.storage.sequences.forget()
            assert (await hello(client, producer_id="whoever")).code == 0
        got = answer(await send(client, 1 << 32, epoch=1, begun_ms=begun))
        assert got.sequence == "repeated"
        world.clock.advance(3600)
        refused = await send(client, 1 << 32, epoch=1, begun_ms=begun)
        assert refused.code == ResponseCode.SEQUENCE_UNKNOWN
        assert len(bodies(world)) == 1

    play(tmp_path, scene, send_sequence_expire_millis=600_000)


def test_nobody_is_remembered_for_ever_by_beginning_in_the_future(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, producer_id="a", begun_ms=10**17))
        world.clock.advance(600)
        answer(await send(client, 1, producer_id="a", begun_ms=10**17))
        world.clock.advance(1201)
        begun = (await hello(client)).check().header.now_ms
        got = answer(await send(client, 0, producer_id="b", begun_ms=begun))
        assert got.sequence == "new"

    play(tmp_path, scene, send_sequence_expire_millis=600_000, max_send_sequences=1)


def test_a_snapshot_that_does_not_tell_what_has_expired_is_read() -> None:
    table = Sequences(lambda: 1, lambda: 1)
    assert at_once(table.load(b"[1,7,5]")) == 7
    assert table.floor_ms == table.newest_ms == 5


def test_only_so_many_are_remembered_and_a_further_one_is_refused(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for producer in ("a", "b"):
            answer(await send(client, 0, producer_id=producer))
        refused = await send(client, 0, producer_id="c")
        assert refused.code == ResponseCode.SEQUENCES_FULL
        assert "maxSendSequences" in (refused.remark or "")
        assert answer(await send(client, 1, producer_id="a")).sequence == "new"
        world.clock.advance(DAY_MS / 1000)
        answer(await send(client, 2, producer_id="a"))
        world.clock.advance(1)  # b has expired by now
        begun = world.clock.time_ms()
        assert answer(await send(client, 0, producer_id="c", begun_ms=begun)).sequence == "new"

    play(tmp_path, scene, max_send_sequences=2, send_sequence_expire_millis=DAY_MS)


def lose_first_file(folder: Path) -> None:
    """Of the log, as if it had expired."""
    min((folder / "commitlog").iterdir()).unlink()


def test_where_the_beginning_of_the_log_is_gone_nothing_is_taken_for_new(tmp_path: Path) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0))
        await send_others(world, client, pause_s=1)
        answer(await send(client, 1))

    play(tmp_path, fill)
    lose_first_file(tmp_path)

    async def again(world: SimBroker, client: SimClient) -> None:
        for number in (0, 1, 2):
            assert (await send(client, number)).code == ResponseCode.SEQUENCE_UNKNOWN
        world.clock.advance(100)
        begun = world.clock.time_ms()
        got = answer(await send(client, 0, producer_id="another", begun_ms=begun))
        assert got.sequence == "new"

    play(tmp_path, again)


def test_who_says_hello_begins_behind_what_is_forgotten_though_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        world.clock.advance(7200)
        await send_others(world, client)

    play(tmp_path, fill)
    lose_first_file(tmp_path)

    async def again(world: SimBroker, client: SimClient) -> None:
        header = (await hello(client)).check().header
        assert isinstance(header, SequenceHelloResponse)
        begun_ms = header.now_ms
        assert begun_ms > world.clock.time_ms()
        assert answer(await send(client, 0, begun_ms=begun_ms)).sequence == "new"
        assert (await hello(client, epoch=1)).code == 0

    play(tmp_path, again)


def test_in_a_damaged_log_nothing_is_taken_for_new_though_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        world.clock.put_forward(3600)
        answer(await send(client, 0, begun_ms=world.clock.time_ms()))
        damaged.append(world.broker.store.log_end)
        for _ in range(2):
            await client.send("Other", bytes(300))

    async def again(world: SimBroker, client: SimClient) -> None:
        begun = BEGUN + 3_600_000
        assert (await send(client, 0, begun_ms=begun)).code == ResponseCode.SEQUENCE_UNKNOWN
        assert len(bodies(world)) == 1
        begun = (await hello(client)).check().header.now_ms
        assert answer(await send(client, 0, begun_ms=begun)).sequence == "new"

    damaged: list[int] = []
    play(tmp_path, fill)
    with min((tmp_path / "commitlog").iterdir()).open("r+b") as file:
        file.seek(damaged[0])
        file.write(b"damage" * 40)
    play(tmp_path, again)


def test_what_expires_while_it_is_read_hides_nothing_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Sequences.read

    async def scene(world: SimBroker, client: SimClient) -> None:
        log = world.broker.store._log

        def meanwhile(sequences: Sequences, records: Records) -> Steps[None]:
            while len(log.files.files) > 1:
                log.drop_first()
            return read(sequences, records)

        answer(await send(client, 0))
        await send_others(world, client)
        answer(await send(client, 1))
        world.broker.storage.sequences.forget()
        with monkeypatch.context() as patch:
            patch.setattr(Sequences, "read", meanwhile)
            refused = await hello(client)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "has expired meanwhile" in (refused.remark or "")
        assert (await hello(client)).code == 0
        assert (await send(client, 1)).code == ResponseCode.SEQUENCE_UNKNOWN

    play(tmp_path, scene)


def test_more_than_can_be_read_counts_as_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0))
        await world.broker.storage.sequences.save()
        await send_others(world, client, pause_s=1)

    async def again(world: SimBroker, client: SimClient) -> None:
        assert (await send(client, 0)).code == ResponseCode.SEQUENCE_UNKNOWN

    play(tmp_path, fill)
    monkeypatch.setattr(sequence_log, "MOST_READ_BYTES", 1 << 20)
    play(tmp_path, again)


def test_a_producer_of_which_the_original_stored_something_is_told_so(tmp_path: Path) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, b"0"))
        for _ in range(2):  # it stores the bit and the property as they come
            header = replace(HEADER, properties=properties(1, 0, ID, BEGUN), sys_flag=0)
            message = header.properties or ""
            put = world.broker.store.put_fields
            put("T", 1, b"1", message.encode(), b"\x7f\0\0\1\0\0\0\1", 1, BEGUN, 0, 0, 1 << 20)

    async def again(world: SimBroker, client: SimClient) -> None:
        for number in (0, 1, 2):
            refused = await send(client, number)
            assert refused.code == ResponseCode.SEQUENCE_UNKNOWN
            assert "does not check sequences" in (refused.remark or "")
        assert bodies(world) == [b"0", b"1", b"1"]
        assert answer(await send(client, 0, producer_id="another")).sequence == "new"

    play(tmp_path, fill)
    play(tmp_path, again)
