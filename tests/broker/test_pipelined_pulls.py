"""Pulls of all kinds that come many at a time: each is answered, counted and committed as if it
were alone."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.broker.stats.broker_stats import LATENCY_EVERY
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    ONEWAY_FLAG,
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import to_fields
from tests.stored import decode_messages

from ..sim import connect
from ..store.world import NOW, put_ok
from .sim_broker import SimBroker, sim_broker

CONNECTIONS = 3
QUEUES_OF_EACH = 2
"""Connections have queues of their own: so it does not matter whose turn is first."""
MESSAGES = 20
EMPTY, GONE = 9, 12
"""Queues without messages, and with messages that the topic has no more."""
KINDS = ["plain"] * 12 + [
    "commit", "other group", "tag", "waits", "behind", "end", "bad queue", "no subscription",
    "oneway", "binary", "bad field", "many", "none", "bytes", "unknown topic",
]  # fmt: skip
MOVED = ["far behind", "empty queue"]
"""These store an event, and it matters when."""


class Pull(NamedTuple):
    kind: str
    queue: int
    """Of those of the connection."""
    offset: int
    most: int


def frame_of(pull: Pull, connection: int, number: int) -> bytes:
    kind = pull.kind
    flag = {"commit": PullSysFlag.COMMIT_OFFSET, "waits": PullSysFlag.SUSPEND}.get(kind, 0)
    header = PullMessageRequest(
        consumer_group="H" if kind == "other group" else "G",
        topic="unknown" if kind == "unknown topic" else "T",
        queue_id={"bad queue": GONE, "empty queue": EMPTY}.get(
            kind, connection * QUEUES_OF_EACH + pull.queue
        ),
        queue_offset={
            "behind": MESSAGES,
            "far behind": 99,
            "end": MESSAGES - 2,
            "waits": MESSAGES,
        }.get(kind, pull.offset),
        max_msg_nums={"many": 33, "none": 0}.get(kind, pull.most),
        sys_flag=flag if kind == "no subscription" else flag | PullSysFlag.SUBSCRIPTION,
        commit_offset=number,
        suspend_timeout_millis=1000,
        subscription="TagA" if kind == "tag" else "*",
        sub_version=0,
        expression_type="TAG",
        max_msg_bytes=150 if kind == "bytes" else None,
    )
    fields = dict(sorted(to_fields(header).items()))
    command = RemotingCommand(
        code=RequestCode.PULL_MESSAGE,
        opaque=1000 + number,
        flag=ONEWAY_FLAG if kind == "oneway" else 0,
        ext_fields=fields,
    )
    form = 1 if kind == "binary" else 0
    encoded = encode_header(command, form)
    return encode_frame(
        form, encoded.replace(b'"queueId":"', b'"queueId":"x') if kind == "bad field" else encoded
    )


offsets = st.one_of(st.integers(2, 9), st.integers(2, 9), st.integers(0, MESSAGES - 1))
pulls = st.builds(
    Pull, st.sampled_from(KINDS), st.integers(0, 1), offsets, st.sampled_from([3, 3, 3, 1, 32])
)
reads = st.tuples(st.integers(0, CONNECTIONS - 1), st.lists(pulls, min_size=1, max_size=5))
turns = st.lists(
    st.lists(reads, min_size=1, max_size=4, unique_by=lambda read: read[0]), min_size=1, max_size=6
)
Turns = list[list[tuple[int, list[Pull]]]]


class World:
    """A broker with messages of ``sizes`` in turn, and its connections."""

    def __init__(self, sim: SimBroker, sizes: list[int], each: int = 1) -> None:
        """``each``: so many records of a queue lie side by side."""
        store = sim.broker.store
        sim.broker.state.topics.update(
            TopicConfig(topic_name="T", read_queue_nums=EMPTY + 1, write_queue_nums=EMPTY + 1)
        )
        queues = CONNECTIONS * QUEUES_OF_EACH
        for number in range(queues * MESSAGES):
            body = b"%d " % (number % 7) * sizes[number % len(sizes)]
            tags = {"TAGS": "Tag" + "AB"[number // queues % 2]}
            put_ok(store, "T", number // each % queues, body, properties=tags, store_timestamp=NOW)
        for _ in range(MESSAGES):
            put_ok(store, "T", GONE, store_timestamp=NOW)
        self.sim = sim
        late = SimpleNamespace(
            time_ms=lambda: sim.clock.time_ms() + 5, monotonic=sim.clock.monotonic
        )
        sim.broker.reads.pull._clock = late  # a pull takes 5 ms
        self.ends = [
            connect(sim.owner, ("127.0.0.1", 50000 + number)) for number in range(CONNECTIONS)
        ]

    async def turn(self, received: list[tuple[int, bytes]]) -> None:
        self.sim.clock.advance(1)
        for connection, data in received:
            self.ends[connection][0].data_received(data)
        for _ in range(3):
            await asyncio.sleep(0)

    def answers(self, connection: int) -> list[tuple[int, bytes, bytes]]:
        """Opaque, header and body of each, in order."""
        frames = FrameDecoder().feed(bytes(self.ends[connection][1].written))
        return [
            (decode_header(form, header).opaque, header, bytes(body))
            for form, header, body in frames
        ]

    def counted(self) -> dict[str, Any]:
        """All that pulls leave behind."""
        broker = self.sim.broker
        stats, offsets = broker.monitoring.stats, broker.state.offsets
        names = [name for name in vars(stats) if name.startswith("get_")]
        counted: dict[str, Any] = {name: getattr(stats, name) for name in names}
        for (topic, group), queues in stats.pulls.items():
            for counter in queues.values():
                key = f"{topic} {group} {counter.queue_id}"
                counted[key] = [getattr(counter, name) for name in type(counter).__slots__]
        counted["committed"] = [
            (group, topic, dict(queues)) for group, topic, queues in offsets.each()
        ]
        counted["held"] = broker.reads.pull.held_pulls
        return counted


@settings(deadline=None, max_examples=20)
@given(turns, st.sampled_from([[10], [10, 200, 3]]), st.sampled_from([1, MESSAGES]))
def test_together_or_one_by_one(turns: Turns, sizes: list[int], each: int) -> None:
    asyncio.run(compare(turns, sizes, each))


@pytest.mark.parametrize("kind", [*sorted(set(KINDS)), *MOVED])
def test_many_of_one_kind(kind: str) -> None:
    """Offsets go from one digit to two on the way, and not in all queues at once."""

    def turn(begins: tuple[int, ...]) -> list[tuple[int, list[Pull]]]:
        return [
            (c, [Pull(kind, number % 2, at + number, 3) for number in range(4)])
            for c, at in enumerate(begins)
        ]

    asyncio.run(
        compare(
            [turn((2, 3, 4))] * LATENCY_EVERY
            + [turn((2, 13, 4)), turn((8, 8, 3)), turn((10, 13, 14))],
            [10],
            1,
        )
    )


async def compare(turns: Turns, sizes: list[int], each: int) -> None:
    number = 0
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        async with sim_broker(Path(one)) as at_once, sim_broker(Path(other)) as alone:
            served, singly = World(at_once, sizes, each), World(alone, sizes, each)
            for turn in turns:
                received = []
                for connection, read in turn:
                    received.append(
                        (
                            connection,
                            [
                                frame_of(pull, connection, number + at)
                                for at, pull in enumerate(read)
                            ],
                        )
                    )
                    number += len(read)
                await served.turn(
                    [(connection, b"".join(frames)) for connection, frames in received]
                )
                await singly.turn(
                    [(connection, frame) for connection, frames in received for frame in frames]
                )
            for connection in range(CONNECTIONS):
                assert served.answers(connection) == singly.answers(connection)
            assert served.counted() == singly.counted()


@pytest.mark.parametrize("sizes", [[10], [10, 200, 3]])
@pytest.mark.parametrize("each", [1, MESSAGES])
def test_every_pull_of_a_turn_brings_its_messages(
    tmp_path: Path, sizes: list[int], each: int
) -> None:
    async def scene() -> None:
        async with sim_broker(tmp_path) as sim:
            served = World(sim, sizes, each)
            await served.turn(
                [(c, frame_of(Pull("plain", c % 2, 4, 14), c, c)) for c in range(CONNECTIONS)]
            )
            for connection in range(CONNECTIONS):
                [(_, header, body)] = served.answers(connection)
                assert b'"nextBeginOffset":"18"' in header
                assert b'"remark":"FOUND"' in header
                messages = decode_messages(body, check_crc=True)
                assert [message.queue_offset for message in messages] == list(range(4, 18))
                assert {message.queue_id for message in messages} == {
                    connection * QUEUES_OF_EACH + connection % 2
                }

    asyncio.run(scene())


def test_who_does_not_read_holds_up_nobody_else(tmp_path: Path) -> None:
    async def scene() -> None:
        async with sim_broker(tmp_path) as sim:
            served = World(sim, [10])
            received = [(c, frame_of(Pull("plain", 0, 4, 3), c, c)) for c in range(CONNECTIONS)]
            await served.turn(received)
            served.ends[1][0].pause_writing()
            await served.turn(received)
            served.ends[1][0].resume_writing()
            await served.turn(received)
            assert [len(served.answers(connection)) for connection in range(CONNECTIONS)] == [
                3,
                3,
                3,
            ]

    asyncio.run(scene())
