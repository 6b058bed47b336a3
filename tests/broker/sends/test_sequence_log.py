"""What the log tells of sequences: whoever reads it next knows as much, from snapshots and from
what is behind them, and believes nothing that is damaged or may be gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiorocketmq.broker.sends import sequence_log
from aiorocketmq.remoting.protocol.message.properties import PropertyName
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import PutResult

from ..sequence_scenes import answer, bodies, play, send, send_batch
from ..sim_broker import SimBroker, SimClient
from ..test_damage import ask_others


def test_whoever_opens_the_store_next_knows_it_with_and_without_a_snapshot(tmp_path: Path) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, b"0"))
        answer(await send_batch(client, 1, [b"1", b"2"]))
        await world.broker.storage.sequences.save()
        answer(await send_batch(client, 3, [b"3", b"4"]))

    async def again(world: SimBroker, client: SimClient) -> None:
        for number, some in ((0, [b"0"]), (1, [b"1", b"2"]), (3, [b"3", b"4"])):
            got = answer(await send_batch(client, number, some))
            assert got.sequence == "repeated"
        assert got.queue_offset == 3
        assert got.msg_id.count(",") == 1
        assert len(bodies(world)) == 5

    play(tmp_path, fill)
    play(tmp_path, again)
    play(tmp_path, again)


def test_what_expired_with_the_log_is_in_the_snapshot(tmp_path: Path) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        async def settled() -> bool:
            return True

        answer(await send(client, 0))
        world.broker.storage.sequences._settled = settled
        service = asyncio.create_task(world.broker.storage.sequences.run())
        for number in range(40):  # 4 MiB: four files
            await client.send("Other", bytes(100_000))
            if number % 5 == 0:
                await asyncio.sleep(0)
                world.clock.advance(sequence_log.LOOK_S)
                for _ in range(5):
                    await asyncio.sleep(0)
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)
        assert world.broker.store.max_offset(TopicName.SELF_TEST, 1) >= 3

    play(tmp_path, fill)
    log = tmp_path / "commitlog"
    for old in sorted(log.iterdir())[:2]:
        old.unlink()

    async def again(world: SimBroker, client: SimClient) -> None:
        assert world.broker.store.min_phy_offset > 0
        assert answer(await send(client, 0)).sequence == "repeated"
        assert answer(await send(client, 1)).sequence == "new"

    play(tmp_path, again)


def damage(folder: Path, body: bytes) -> None:
    """As a power failure may leave what was not synced yet."""
    [file] = (folder / "commitlog").iterdir()
    data = file.read_bytes()
    assert data.count(body) == 1
    file.write_bytes(data.replace(body, bytes(len(body))))


async def readable(world: SimBroker) -> list[bytes]:
    """Behind what is damaged, too: who reads finds it, and nobody else has it."""
    bodies(world)
    await ask_others(world)
    return bodies(world)


def test_a_record_whose_body_is_damaged_is_not_stored(tmp_path: Path) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        for number, body in enumerate((b"first", b"second", b"third")):
            answer(await send(client, number, body))

    async def again(world: SimBroker, client: SimClient) -> None:
        world.clock.advance(1)
        assert answer(await send(client, 2, b"third")).sequence == "new"
        assert await readable(world) == [b"first", b"second", b"third"]

    async def once_more(world: SimBroker, client: SimClient) -> None:
        assert answer(await send(client, 2, b"third")).sequence == "repeated"
        assert answer(await send(client, 3, b"fourth")).sequence == "new"

    play(tmp_path, fill)
    damage(tmp_path, b"third")
    play(tmp_path, again)
    play(tmp_path, once_more)


def test_of_a_batch_nothing_counts_that_lies_behind_what_is_damaged(tmp_path: Path) -> None:
    some = [b"first", b"second", b"third"]

    async def fill(world: SimBroker, client: SimClient) -> None:
        answer(await send_batch(client, 0, some))

    async def again(world: SimBroker, client: SimClient) -> None:
        assert answer(await send_batch(client, 0, some)).sequence == "new"
        assert await readable(world) == [b"first", b"third", b"second", b"third"]

    play(tmp_path, fill)
    damage(tmp_path, b"second")
    play(tmp_path, again)


@pytest.mark.parametrize("number", [0, 1])
def test_of_a_batch_nothing_counts_behind_a_record_that_has_lost_its_sequence(
    tmp_path: Path, number: int
) -> None:
    """Or those behind it would be taken for the ones in front of it, and it would be lost."""
    some = [b"first", b"second", b"third"]

    async def fill(world: SimBroker, client: SimClient) -> None:
        answer(await send_batch(client, 0, some))

    async def again(world: SimBroker, client: SimClient) -> None:
        assert answer(await send_batch(client, 0, some)).sequence == "new"
        assert (await readable(world))[3:] == some[number:]

    play(tmp_path, fill)
    [file] = (tmp_path / "commitlog").iterdir()
    data = bytearray(file.read_bytes())
    at = data.index(PropertyName.SEND_SEQUENCE.encode(), data.index(some[number]))
    data[at : at + 4] = bytes(4)
    file.write_bytes(data)
    play(tmp_path, again)


def test_a_snapshot_tells_of_nothing_that_may_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure it may be there, and what it tells of not."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        store, log = world.broker.store, world.broker.storage.sequences
        put, flushed = store.put_again, list[int]()

        def put_again(message: PutMessage) -> PutResult:
            flushed.append(store.flushed_offset)
            return put(message)

        async def fails() -> None:
            pass

        monkeypatch.setattr(store, "put_again", put_again)
        answer(await send(client, 0))
        end = store.log_end
        with monkeypatch.context() as patch:
            patch.setattr(store, "sync", fails)
            assert await log.save() == "what it tells of is not safe"
        assert flushed == []
        assert await log.save() is None
        assert flushed == [end]

    play(tmp_path, scene)


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, b"first"))
        await world.broker.storage.sequences.save()
        answer(await send(client, 1, b"second"))
        await world.broker.storage.sequences.save()

    async def again(world: SimBroker, client: SimClient) -> None:
        assert answer(await send(client, 1)).sequence == "repeated"
        assert answer(await send(client, 2)).sequence == "new"

    play(tmp_path, fill)
    first = sorted((tmp_path / "commitlog").iterdir())[0]
    data = bytearray(first.read_bytes())
    at = data.rindex(b"[1,")  # the head of the last one
    data[at : at + 3] = b"[7,"
    first.write_bytes(data)
    play(tmp_path, again)
