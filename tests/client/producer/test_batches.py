"""Lists are cut into frames, single messages gathered into batches."""

from __future__ import annotations

import asyncio
from array import array
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.client.errors import ConfigError, MessageError, SendFailed
from aiorocketmq.client.producer.batches import Accumulate, Accumulator, split
from aiorocketmq.client.producer.sending import Outgoing, SendResult, SendStatus, batch
from aiorocketmq.remoting.protocol.message.message import Message
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.record.batch import decode_batch
from aiorocketmq.remoting.services import TaskSet

from ...sim import ManualClock

LIMIT = 2000


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 60)), max_size=40))
def test_every_part_fits_a_frame_and_nothing_is_lost(sizes: list[tuple[int, int]]) -> None:
    messages = [
        Message("T", b"x" * size, keys=["k" * keys] if keys else []) for size, keys in sizes
    ]
    parts = list(split(messages, LIMIT))
    assert [message for part in parts for message in part] == messages
    for part in parts:
        outgoing = batch(part, ["0" * 56] * len(part), LIMIT)
        assert len(outgoing.body) <= LIMIT
    for part, following in pairwise(parts):  # and no frame is half empty
        whole = batch([*part, following[0]], ["0" * 56] * (len(part) + 1), 10 * LIMIT)
        assert len(whole.body) > LIMIT


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x" * 1990),
        Message("T", b"x" * 2001),
        Message("T", b"x", delay_level=1),
        Message("%RETRY%g", b"x"),
    ],
)
def test_what_fits_no_batch_is_refused(message: Message) -> None:
    with pytest.raises(MessageError):
        list(split([Message("T", b"x"), message], LIMIT))


class World:
    """An accumulator, and a broker that keeps what it gets and answers when it is told to."""

    def __init__(self, settings: Accumulate, *, failure: Exception | None = None) -> None:
        self.clock = ManualClock()
        self.tasks = TaskSet("test")
        self.sent: list[Outgoing] = []
        self.failure = failure
        self.answers = asyncio.Event()
        self.answers.set()
        self.accumulator = Accumulator(settings, self.deliver, self.clock, self.tasks, 4 << 20)
        self._number = 0

    async def deliver(self, outgoing: Outgoing) -> SendResult:
        self.sent.append(outgoing)
        await self.answers.wait()
        if self.failure is not None:
            raise self.failure
        offsets = ",".join(f"O-{msg_id}" for msg_id in outgoing.msg_id.split(","))
        return SendResult(
            SendStatus.SEND_OK, outgoing.msg_id, offsets, MessageQueue(outgoing.topic, "b", 2), 100
        )

    def add(
        self, topic: str = "T", body: bytes = b"x", *, wait: bool = True
    ) -> asyncio.Future[SendResult]:
        self._number += 1
        return self.accumulator.add(Message(topic, body, wait_store_ok=wait), f"ID{self._number}")

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def test_a_batch_leaves_after_its_linger_time() -> None:
    async def scenario() -> None:
        world = World(Accumulate(linger=0.01))
        futures = [world.add(body=b"%d" % number) for number in range(3)]
        await world.settle()
        assert world.sent == []
        world.clock.advance(0.01)
        results = await asyncio.gather(*futures)
        (outgoing,) = world.sent
        assert [bytes(item.body) for item in decode_batch(outgoing.body)] == [b"0", b"1", b"2"]
        assert [(r.msg_id, r.offset_msg_id, r.queue_offset) for r in results] == [
            ("ID1", "O-ID1", 100), ("ID2", "O-ID2", 101), ("ID3", "O-ID3", 102),
        ]  # fmt: skip

    asyncio.run(scenario())


def test_a_full_batch_leaves_at_once() -> None:
    async def scenario() -> None:
        world = World(Accumulate(max_bytes=1000, linger=60))
        for _ in range(6):
            world.add(body=b"x" * 200)
        await world.settle()
        assert [len(decode_batch(outgoing.body)) for outgoing in world.sent] == [4]
        assert all(len(outgoing.body) <= 1000 for outgoing in world.sent)
        await world.accumulator.close()
        assert [len(decode_batch(outgoing.body)) for outgoing in world.sent] == [4, 2]
        await world.tasks.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x", flag=1 << 31),
        Message("T", b"x", flag="1"),  # type: ignore[arg-type]
        Message("T", memoryview(array("i", [1, 2])), keys=["k"]),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_written_is_refused_before_it_is_gathered(message: Message) -> None:
    """Its error is its sender's, not that of all who share the frame."""

    async def scenario() -> None:
        world = World(Accumulate(linger=0))
        innocent = world.add(body=b"one")
        with pytest.raises(MessageError):
            world.accumulator.add(message, "ID-bad")
        assert (await innocent).msg_id == "ID1"
        assert [bytes(item.body) for item in decode_batch(world.sent[0].body)] == [b"one"]

    asyncio.run(scenario())


def test_only_what_goes_together_shares_a_frame() -> None:
    async def scenario() -> None:
        world = World(Accumulate(linger=0))
        futures = [world.add("T"), world.add("S"), world.add("T", wait=False), world.add("T")]
        await asyncio.gather(*futures)
        assert sorted((outgoing.topic, outgoing.properties,
        outgoing.msg_id) for outgoing in world.sent) == [
            ("S", "WAIT\x01true", "ID2"), ("T", "WAIT\x01false", "ID3"),
            ("T", "WAIT\x01true", "ID1,ID4"),
        ]  # fmt: skip
        takes = world.accumulator.takes
        assert takes(Message("T", b"x"))
        assert not takes(Message("T", b"x", delay_level=1))
        assert not takes(Message("%RETRY%g", b"x"))
        assert not takes(Message("T", b"x" * 10_000))

    asyncio.run(scenario())


def test_everybody_hears_of_a_failure_and_who_has_gone_does_not_matter() -> None:
    async def scenario() -> None:
        world = World(Accumulate(linger=0), failure=SendFailed("T", ()))
        gone, waiting = world.add(), world.add()
        gone.cancel()
        with pytest.raises(SendFailed):
            await waiting

    asyncio.run(scenario())


def test_closing_waits_for_answers() -> None:
    async def scenario() -> None:
        world = World(Accumulate(linger=60))
        world.answers.clear()
        future = world.add()
        closing = asyncio.create_task(world.accumulator.close())
        await world.settle()
        assert len(world.sent) == 1
        assert not closing.done()
        world.answers.set()
        await closing
        assert future.done()
        await world.tasks.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "options", [{"max_bytes": 0}, {"max_bytes": (4 << 20) + 1}, {"linger": -1.0}, {"linger": 61.0}]
)
def test_settings_that_cannot_work(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Accumulate(**options)  # type: ignore[arg-type]
