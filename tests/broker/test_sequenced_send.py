"""Sends with sequences at a broker: nothing is stored twice, whatever comes again; what has a gap
in front, or is of an earlier epoch, is refused."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.message.message_id import parse_offset_message_id
from aiorocketmq.remoting.protocol.message.send_sequence import SendSequence
from aiorocketmq.remoting.protocol.record.batch import decode_batch, encode_batch
from aiorocketmq.store.model.config import BrokerRole, MessageStoreConfig
from aiorocketmq.store.model.status import PutResult, PutStatus
from tests.stored import decode_messages

from ..sim import ManualClock
from .sequence_scenes import (
    BEGUN,
    HEADER,
    ID,
    answer,
    bodies,
    hello,
    play,
    properties,
    send,
    send_batch,
)
from .sim_broker import SimBroker, SimClient, sim_broker


def test_what_comes_again_is_answered_as_the_first_time_and_not_stored(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        first = answer(await send(client, 0, b"a"))
        assert first.sequence == "new"
        again = answer(await send(client, 0, b"a"))
        assert again.sequence == "repeated"
        assert (again.msg_id, again.queue_id, again.queue_offset) == (
            first.msg_id,
            first.queue_id,
            first.queue_offset,
        )
        answer(await send(client, 1, b"b"))
        late = answer(await send(client, 0, b"a"))
        assert (late.sequence, late.msg_id, late.queue_offset) == ("repeated", "", -1)
        assert bodies(world) == [b"a", b"b"]
        assert world.broker.monitoring.stats.put_messages == 2

    play(tmp_path, scene)


def test_each_queue_and_each_producer_counts_for_itself(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for queue_id in (0, 1):
            for producer in ("a", "b"):
                got = answer(await send(client, 0, queue_id=queue_id, producer_id=producer))
                assert got.sequence == "new"
        assert len(bodies(world, 0)) == len(bodies(world, 1)) == 2

    play(tmp_path, scene)


def test_of_a_batch_only_what_is_not_there_is_stored(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        first = answer(await send_batch(client, 0, [b"0", b"1", b"2"]))
        again = answer(await send_batch(client, 0, [b"0", b"1", b"2"]))
        assert (first.sequence, again.sequence) == ("new", "repeated")
        assert again.msg_id == first.msg_id
        assert again.msg_id.count(",") == 2
        places = [parse_offset_message_id(each).phy_offset for each in first.msg_id.split(",")]
        assert places == sorted(places)
        rest = answer(await send_batch(client, 0, [b"0", b"1", b"2", b"3", b"4"]))
        assert (rest.sequence, rest.queue_offset) == ("new", -1)
        assert bodies(world) == [b"0", b"1", b"2", b"3", b"4"]
        assert answer(await send_batch(client, 5, [b"5"])).queue_offset == 5
        assert answer(await send_batch(client, 2, [b"2", b"3"])).sequence == "repeated"
        assert len(bodies(world)) == 6

    play(tmp_path, scene)


def test_a_gap_is_refused_and_a_later_epoch_may_leave_one_and_fences(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, b"0"))
        refused = await send(client, 2, b"2")
        assert (refused.code, refused.remark) == (
            ResponseCode.SEQUENCE_GAP,
            "number 2 of this producer came, 1 is next here",
        )
        assert answer(await send(client, 2, b"2", epoch=1)).sequence == "new"
        for number in (1, 2, 3):  # a copy that is late
            late = await send(client, number, b"late", epoch=0)
            assert late.code == ResponseCode.SEQUENCE_FENCED
        assert answer(await send(client, 3, b"3", epoch=1)).sequence == "new"
        assert answer(await send(client, 6, b"6", epoch=2)).sequence == "new"
        assert bodies(world) == [b"0", b"2", b"3", b"6"]

    async def again(world: SimBroker, client: SimClient) -> None:
        assert answer(await send(client, 6, b"6", epoch=2)).queue_offset == 3
        assert answer(await send(client, 7, b"7", epoch=2)).sequence == "new"

    play(tmp_path, scene)
    play(tmp_path, again)


def test_the_first_message_in_a_queue_may_leave_numbers_out_in_a_later_epoch(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        assert (await send(client, 7)).code == ResponseCode.SEQUENCE_UNKNOWN
        assert answer(await send(client, 7, epoch=1)).sequence == "new"
        assert (await send(client, 0)).code == ResponseCode.SEQUENCE_FENCED
        assert answer(await send(client, 7, epoch=1)).sequence == "repeated"

    play(tmp_path, scene)


def test_the_epoch_of_a_hello_fences_in_all_queues_and_for_whoever_reads_the_log(
    tmp_path: Path,
) -> None:
    async def first(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, epoch=1))
        assert (await hello(client, epoch=2)).code == 0
        assert (await hello(client, epoch=2)).code == 0
        for queue_id in (0, 1):
            late = await send(client, 1 - queue_id, epoch=1, queue_id=queue_id)
            assert late.code == ResponseCode.SEQUENCE_FENCED
        assert (await hello(client, epoch=1)).code == ResponseCode.SEQUENCE_FENCED

    async def second(world: SimBroker, client: SimClient) -> None:
        late = await send(client, 0, epoch=1, queue_id=3)
        assert late.code == ResponseCode.SEQUENCE_FENCED
        assert answer(await send(client, 1, epoch=2)).sequence == "new"

    play(tmp_path, first)
    play(tmp_path, second)


def test_an_epoch_that_is_not_in_the_log_is_not_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is master next would take what comes late of the epoch before."""

    async def first(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, epoch=1))
        full = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark="the disk is full")
        with monkeypatch.context() as patch:
            patch.setattr(world.broker.store, "put_again", lambda _: full)
            for _ in range(2):
                refused = await hello(client, epoch=2)
                assert refused.code == ResponseCode.SYSTEM_BUSY
                assert "the disk is full" in (refused.remark or "")
        assert (await hello(client, epoch=2)).code == 0

    async def second(world: SimBroker, client: SimClient) -> None:
        late = await send(client, 0, epoch=1, queue_id=3)
        assert late.code == ResponseCode.SEQUENCE_FENCED

    play(tmp_path, first)
    play(tmp_path, second)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"queue_id": -1}, "names its queue"),
        ({"topic": "%RETRY%g", "queue_id": 0}, "no retry topic"),
        ({"topic": "RMQ_SYS_TRACE_TOPIC", "queue_id": 0}, "not RMQ_SYS_TRACE_TOPIC"),
        ({"more": "\x02DELAY\x013"}, "neither a delay level nor a transaction"),
        ({"more": "\x02TRAN_MSG\x01true"}, "neither a delay level nor a transaction"),
        ({"producer_id": "a b"}, "id:epoch:number:begun_ms"),
        ({"producer_id": "#a"}, "of nobody"),
    ],
)
def test_what_cannot_have_a_sequence_is_refused(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        world.broker.state.topics.create_for_broker("%RETRY%g")
        refused = await send(client, 0, **changes)
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert text in (refused.remark or "")
        assert answer(await send(client, 0)).sequence == "new"

    play(tmp_path, scene)


def test_a_batch_that_cannot_be_read_or_of_nothing_is_refused(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        header = replace(HEADER, properties=properties(0, 0, ID, BEGUN), batch=True)
        for body in (b"", b"\x00\x00\x00\x09garbage"):
            refused = await client.ask(RequestCode.SEND_BATCH_MESSAGE, header, body)
            assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert bodies(world) == []

    play(tmp_path, scene)


def test_a_refusal_forgets_nothing_unless_a_part_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        store, log = world.broker.store, world.broker.storage.sequences
        answer(await send(client, 0, b"0"))
        monkeypatch.setattr(store._log, "max_body", 10)
        refused = await send_batch(client, 1, [bytes(50), b"2"])
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert log.is_ready
        monkeypatch.undo()
        put = store.put_batch

        def put_one_of_them(batch: Any) -> Any:
            """As where a log of entries is full behind the first one."""
            put(replace(batch, items=encode_batch(decode_batch(batch.items)[:1])))
            return PutResult(PutStatus.OS_PAGECACHE_BUSY, remark="the disk is full")

        monkeypatch.setattr(store, "put_batch", put_one_of_them)
        assert (await send_batch(client, 1, [b"1", b"2"])).code == ResponseCode.SYSTEM_ERROR
        monkeypatch.undo()
        again = await send_batch(client, 1, [b"1", b"2"])
        assert again.code == ResponseCode.SEQUENCES_NOT_READY
        await hello(client)
        assert answer(await send_batch(client, 1, [b"1", b"2"])).sequence == "new"
        assert bodies(world) == [b"0", b"1", b"2"]

    play(tmp_path, scene)


def seen_by_readers(world: SimBroker) -> SendSequence:
    """Of the only message."""
    (message,) = decode_messages(world.broker.store.get("T", 1, 0, 1).body)
    return SendSequence.parse(message.properties["SEND_SEQUENCE"])


def test_a_stranger_who_reads_the_messages_cannot_send_in_their_producers_name(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, b"mine"))
        told = seen_by_readers(world)
        assert ID not in told.text
        for guess in (told.producer_id, told.producer_id.removeprefix("#")):
            await send(client, 0, b"a stranger's", producer_id=guess)
            await send(client, 1, b"a stranger's", producer_id=guess)
        assert answer(await send(client, 1, b"mine, too")).sequence == "new"
        assert b"mine, too" in bodies(world)

    play(tmp_path, scene)


def test_a_reply_with_a_made_up_number_keeps_no_message_out(tmp_path: Path) -> None:
    """Replies are stored without a look at numbers."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, b"mine"))
        forged = seen_by_readers(world)._replace(number=1000, epoch=7)
        text = f"SEND_SEQUENCE\x01{forged.text}"
        header = replace(HEADER, properties=text)
        await client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, b"a stranger's")
        assert bodies(world) == [b"mine", b"a stranger's"]

    async def again(world: SimBroker, client: SimClient) -> None:
        assert answer(await send(client, 1, b"mine, too")).sequence == "new"

    play(tmp_path, scene)
    play(tmp_path, again)


def test_a_slave_and_who_takes_no_messages_refuse_the_hello(tmp_path: Path) -> None:
    async def main() -> None:
        store = MessageStoreConfig(store_path_root_dir=str(tmp_path), broker_role=BrokerRole.SLAVE)
        async with sim_broker(tmp_path, store=store, broker_id=1) as world:
            refused = await hello(world.connect())
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE

    asyncio.run(main())


REQUESTS = st.tuples(st.integers(0, 2), st.integers(-4, 2), st.integers(1, 4), st.integers(0, 1))


@given(steps=st.lists(st.one_of(REQUESTS, st.sampled_from(["restart", "save"])), max_size=30))
def test_every_number_is_stored_once_in_order_whatever_comes(
    steps: list[tuple[int, int, int, int] | str],
) -> None:
    """Requests about where the producer is, before and behind it, with batches that overlap, and
    brokers that start again."""
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_random_requests(Path(name), steps))


async def _random_requests(folder: Path, steps: list[tuple[int, int, int, int] | str]) -> None:
    nexts, clock = {0: 0, 1: 0, 2: 0}, ManualClock()
    rest = list(steps)
    while True:
        async with sim_broker(folder, clock=clock) as world:
            client = world.connect()
            await world.make_topic("T")
            await hello(client)
            while rest:
                step = rest.pop(0)
                if step == "restart":
                    break
                if isinstance(step, str):
                    await world.broker.storage.sequences.save()
                    continue
                queue_id, distance, count, single = step
                number = max(0, nexts[queue_id] + distance)
                some = [b"%d" % each for each in range(number, number + count)]
                if single:
                    some = some[:1]
                    got = await send(client, number, some[0], queue_id=queue_id)
                else:
                    got = await send_batch(client, number, some, queue_id=queue_id)
                if number > nexts[queue_id]:
                    known = ResponseCode.SEQUENCE_GAP
                    unknown = ResponseCode.SEQUENCE_UNKNOWN
                    assert got.code == (known if nexts[queue_id] else unknown)
                    continue
                end = number + len(some)
                kind = "new" if end > nexts[queue_id] else "repeated"
                assert answer(got).sequence == kind
                nexts[queue_id] = max(nexts[queue_id], end)
            for queue_id, end in nexts.items():
                assert bodies(world, queue_id) == [b"%d" % number for number in range(end)]
            if not rest:
                return
