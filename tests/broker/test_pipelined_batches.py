"""Batches of many producers at a time (``test_pipelined_sends`` compares them with each alone)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import decode_header
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from tests.stored import decode_messages

from .pipelined_world import (
    BATCHED,
    CONNECTIONS,
    MESSAGES,
    Request,
    World,
    frame_of,
    play,
)


def test_every_message_is_stored_counted_and_named(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        topic = served.sim.broker.state.topics.get("T")
        assert topic is not None
        stats = served.sim.broker.monitoring.stats
        puts, batched, found = topic.put_nums, topic.batched_nums, stats.put_messages
        for number, frame in enumerate(BATCHED):
            served.receive(number % CONNECTIONS, frame)
        await served.turn()
        assert len(served.stored()) == 4 + MESSAGES
        assert (topic.put_nums - puts, topic.batched_nums - batched) == (
            MESSAGES,
            MESSAGES - len(BATCHED),
        )
        assert stats.put_messages - found == MESSAGES
        assert stats.batched_messages == MESSAGES - len(BATCHED)
        headers = [header for answers in served.answers for _, header in answers]
        fields = [decode_header(0, header).ext_fields or {} for header in headers]
        ids = [each["msgId"].split(",") for each in fields]
        store = served.sim.broker.store
        at = [int(msg_id[16:], 16) for each in ids for msg_id in each]
        messages = decode_messages(store.read(0, store.max_phy_offset) or b"")
        assert sorted(at) == [message.commit_log_offset for message in messages][4:]

    play(tmp_path, scene)


def test_a_batch_that_is_too_long_is_refused_and_the_others_are_stored(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        served.sim.broker.store._writer.set_max_message_size(1000)
        long = [frame_of(Request("batches: long", 0, b"x"), 50 + number) for number in range(3)]
        served.receive(1, b"".join([*BATCHED[:3], *long, *BATCHED[3:]]))
        await served.turn()
        codes = [decode_header(0, header).code for _, header in served.answers[1]]
        assert codes == [0] * 3 + [ResponseCode.MESSAGE_ILLEGAL] * 3 + [0] * (len(BATCHED) - 3)

    play(tmp_path, scene)


@pytest.mark.parametrize("kind", ["delay", "half", "prepared"])
def test_batches_of_what_cannot_be_in_one_are_refused(tmp_path: Path, kind: str) -> None:
    async def scene(served: World) -> None:
        served.receive(
            1,
            b"".join(
                frame_of(Request(f"batches: {kind}", 0, b"x"), number) for number in range(4, 12)
            ),
        )
        await served.turn()
        assert {decode_header(0, header).code for _, header in served.answers[1]} == {
            ResponseCode.MESSAGE_ILLEGAL
        }
        assert len(served.stored()) == 4

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "cut", [[0, 100], [0, 0], []], ids=["in an item", "at the beginning", "nowhere"]
)
def test_bodies_that_are_no_batches_alone_are_refused(tmp_path: Path, cut: list[int]) -> None:
    items = encode_batch([BatchItem(0, b"body", b"UNIQ_KEY\x01A\x02WAIT\x01true")] * 12)
    header = FrameDecoder().feed(BATCHED[0])[0][1]
    bodies = [items[start:stop] for start, stop in zip(cut, [*cut[1:], None], strict=False)]

    async def scene(served: World) -> None:
        served.receive(
            1, b"".join(encode_frame(0, header, body) for body in [items, *bodies, items])
        )
        await served.turn()
        good = [bool(body) and not len(body) % (len(items) // 12) for body in bodies]
        codes = [0 if each else ResponseCode.MESSAGE_ILLEGAL for each in [True, *good, True]]
        assert [decode_header(0, answer).code for _, answer in served.answers[1]] == codes

    play(tmp_path, scene)
