"""Sends with sequences at a broker: nothing is stored twice, whatever comes again, and whoever
reads the log next knows as much."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aiorocketmq.broker.sends import sequence_log
from aiorocketmq.broker.sends.sequences import Sequences
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import (
    SendMessageRequestV2,
    SendMessageResponse,
    SequenceHelloRequest,
    SequenceHelloResponse,
)
from aiorocketmq.remoting.protocol.message.message_id import parse_offset_message_id
from aiorocketmq.remoting.protocol.message.send_sequence import SendSequence
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.remoting.protocol.record import Records
from aiorocketmq.remoting.protocol.record.batch import BatchItem, decode_batch, encode_batch
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.slices import Steps
from aiorocketmq.store.model.config import BrokerRole, MessageStoreConfig
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import PutResult, PutStatus
from tests.stored import decode_messages

from ..sim import ManualClock
from .sim_broker import SimBroker, SimClient, sim_broker
from .test_damage import ask_others

ID = "0123456789abcdef0123456789abcdef"
BEGUN = ManualClock().time_ms()
DAY_MS = 24 * 3_600_000
HEADER = SendMessageRequestV2(
    producer_group="p",
    topic="T",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=MessageSysFlag.SEQUENCED,
    born_timestamp=1,
    flag=0,
)


def play(
    folder: Path, scene: Callable[[SimBroker, SimClient], Awaitable[None]], **config: Any
) -> None:
    async def main() -> None:
        async with sim_broker(folder, **config) as world:
            client = world.connect()
            await world.make_topic("T")
            assert (await hello(client)).code == 0
            await scene(world, client)

    asyncio.run(main())


async def hello(client: SimClient, producer_id: str = ID, epoch: int = 0) -> Response:
    request = SequenceHelloRequest(producer_id=producer_id, epoch=epoch)
    return await client.ask(RequestCode.SEND_SEQUENCE_HELLO, request)


def properties(number: int, epoch: int, producer_id: str, begun_ms: int) -> str:
    return f"SEND_SEQUENCE\x01{SendSequence(producer_id, epoch, number, begun_ms).text}"


async def send(
    client: SimClient,
    number: int,
    body: bytes = b"x",
    *,
    epoch: int = 0,
    producer_id: str = ID,
    begun_ms: int = BEGUN,
    more: str = "",
    **changes: Any,
) -> Response:
    text = f"TAGS\x01t\x02{properties(number, epoch, producer_id, begun_ms)}{more}"
    header = replace(HEADER, properties=text, **changes)
    return await client.ask(RequestCode.SEND_MESSAGE_V2, header, body)


async def send_batch(
    client: SimClient, number: int, bodies: list[bytes], *, epoch: int = 0, queue_id: int = 1
) -> Response:
    header = replace(
        HEADER, properties=properties(number, epoch, ID, BEGUN), batch=True, queue_id=queue_id
    )
    items = encode_batch(BatchItem(flag=0, body=body, properties=b"") for body in bodies)
    return await client.ask(RequestCode.SEND_BATCH_MESSAGE, header, items)


def bodies(world: SimBroker, queue_id: int = 1) -> list[bytes]:
    result = world.broker.store.get("T", queue_id, 0, 1000, max_bytes=1 << 20)
    return [message.body for message in decode_messages(result.body)]


def answer(response: Response) -> SendMessageResponse:
    found = response.check().header
    assert isinstance(found, SendMessageResponse)
    return found


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


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"queue_id": -1}, "names its queue"),
        ({"topic": "%RETRY%g", "queue_id": 0}, "no retry topic"),
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


def test_a_stranger_who_reads_the_messages_cannot_send_in_their_producers_name(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0, b"mine"))
        (message,) = decode_messages(world.broker.store.get("T", 1, 0, 1).body)
        told = SendSequence.parse(message.properties["SEND_SEQUENCE"])
        assert ID not in message.properties["SEND_SEQUENCE"]
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
        (message,) = decode_messages(world.broker.store.get("T", 1, 0, 1).body)
        told = SendSequence.parse(message.properties["SEND_SEQUENCE"])
        forged = told._replace(number=1000, epoch=7)
        text = f"SEND_SEQUENCE\x01{forged.text}"
        header = replace(HEADER, properties=text)
        await client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, b"a stranger's")
        assert bodies(world) == [b"mine", b"a stranger's"]

    async def again(world: SimBroker, client: SimClient) -> None:
        assert answer(await send(client, 1, b"mine, too")).sequence == "new"

    play(tmp_path, scene)
    play(tmp_path, again)


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


def test_a_slave_and_who_takes_no_messages_refuse_the_hello(tmp_path: Path) -> None:
    async def main() -> None:
        store = MessageStoreConfig(store_path_root_dir=str(tmp_path), broker_role=BrokerRole.SLAVE)
        async with sim_broker(tmp_path, store=store, broker_id=1) as world:
            refused = await hello(world.connect())
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE

    asyncio.run(main())


# --- what the log tells
# --------------------------------------------------------------------------------------------------


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


def test_where_the_beginning_of_the_log_is_gone_nothing_is_taken_for_new(tmp_path: Path) -> None:
    async def fill(world: SimBroker, client: SimClient) -> None:
        answer(await send(client, 0))
        for _ in range(25):
            world.clock.advance(1)
            await client.send("Other", bytes(100_000))
        answer(await send(client, 1))

    play(tmp_path, fill)
    sorted((tmp_path / "commitlog").iterdir())[0].unlink()

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
        for _ in range(25):
            await client.send("Other", bytes(100_000))

    play(tmp_path, fill)
    sorted((tmp_path / "commitlog").iterdir())[0].unlink()

    async def again(world: SimBroker, client: SimClient) -> None:
        header = (await hello(client)).check().header
        assert isinstance(header, SequenceHelloResponse)
        begun_ms = header.now_ms
        assert begun_ms > world.clock.time_ms()
        assert answer(await send(client, 0, begun_ms=begun_ms)).sequence == "new"
        assert (await hello(client, epoch=1)).code == 0

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
        for _ in range(25):
            await client.send("Other", bytes(100_000))
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
        for _ in range(25):
            world.clock.advance(1)
            await client.send("Other", bytes(100_000))

    async def again(world: SimBroker, client: SimClient) -> None:
        assert (await send(client, 0)).code == ResponseCode.SEQUENCE_UNKNOWN

    play(tmp_path, fill)
    monkeypatch.setattr(sequence_log, "MOST_READ_BYTES", 1 << 20)
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
