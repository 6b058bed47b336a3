"""Sends and batches of all kinds, and a broker that gets many of them in one read, or one by
one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageRequestV2
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    ONEWAY_FLAG,
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType
from tests.stored import decode_messages

from ..sim import connect
from ..store.world import folder_contents
from .sim_broker import SimBroker, sim_broker, store_config

CONNECTIONS = 3
KINDS = ["plain"] * 12 + [
    "other tag", "long tag", "v1", "keys", "odd key", "delay", "half", "no wait", "retry",
    "bad queue", "ordered",
    "unknown topic", "oneway", "bad field", "batch", "binary",
]  # fmt: skip
BATCHES = ["batches"] * 12 + [
    "batches: other", "batches: old code", "batches: no flag", "batches: no wait", "batches: delay",
    "batches: half",
    "batches: bad queue", "batches: ordered", "batches: uneven", "batches: keys", "batches: tag",
    "batches: odd key",
    "batches: empty", "batches: cut", "batches: long", "batches: binary", "batches: again",
    "batches: odd flag",
    "batches: compressed",
]  # fmt: skip
"""Kinds of batches; what stands behind the colon is how they differ from the usual."""


class Request(NamedTuple):
    kind: str
    queue_id: int
    body: bytes


def batch_frame_of(request: Request, number: int) -> bytes:
    """The frame of a batch of a few messages, all with the same key, which is its number."""
    kind = request.kind.removeprefix("batches").removeprefix(": ")
    key = f"7F000001{number:08X}{'-x' if kind == 'odd key' else ''}"
    rest = {"other": "TAGS\x01TagB", "keys": "KEYS\x01k1 k2"}.get(
        kind, "WAIT\x01true\x02TAGS\x01TagA"
    )
    bodies = [b"%08d %08d" % (number, each) for each in range(2 + len(request.body) % 3)]
    items = [BatchItem(0, body, f"UNIQ_KEY\x01{key}\x02{rest}".encode()) for body in bodies]
    if kind == "uneven":
        items[-1] = msgspec.structs.replace(items[-1], body=b"longer than the others")
    data = {"empty": b"", "cut": encode_batch(items)[:-1], "long": encode_batch(items * 20)}.get(
        kind, encode_batch(items)
    )
    own = {
        "no wait": "WAIT\x01false",
        "delay": "DELAY\x012",
        "half": "TRAN_MSG\x01true",
        "tag": "TAGS\x01TagC",
    }
    header = SendMessageRequestV2(
        producer_group="P", topic="ordered" if kind == "ordered" else "T", default_topic="TBW102",
        default_topic_queue_nums=4, queue_id=9 if kind == "bad queue" else request.queue_id,
        sys_flag={"half": 4, "prepared": 4, "compressed": 1}.get(kind, 0),
        born_timestamp=1_700_000_000_000 + number, flag=0,
        properties=own.get(kind, "WAIT\x01true"), reconsume_times=3 if kind == "again" else 0,
        batch=kind != "no flag",
    )  # fmt: skip
    code = RequestCode.SEND_MESSAGE_V2 if kind == "old code" else RequestCode.SEND_BATCH_MESSAGE
    command = RemotingCommand(
        code=code, opaque=1000 + number, ext_fields=dict(sorted(to_fields(header).items()))
    )
    form = 1 if kind == "binary" else 0
    encoded = encode_header(command, form)
    if kind == "odd flag":  # for Java that is no batch
        encoded = encoded.replace(b'"m":"true"', b'"m":"1"')
    return encode_frame(form, encoded, data)


def frame_of(request: Request, number: int) -> bytes:
    """The frame of a request; ``number`` makes it the only one of its kind."""
    kind = request.kind
    if kind.startswith("batches"):
        return batch_frame_of(request, number)
    rest = {
        "other tag": "TAGS\x01TagB", "long tag": "TAGS\x01TagLong", "keys": "KEYS\x01k1 k2",
        "delay": "DELAY\x012", "half": "TRAN_MSG\x01true\x02PGROUP\x01P",
        "no wait": "WAIT\x01false",
    }.get(kind, "WAIT\x01true\x02TAGS\x01TagA")  # fmt: skip
    key = f"{number:08X}-x" if kind == "odd key" else f"7F000001{number:08X}"
    header_type = SendMessageRequest if kind == "v1" else SendMessageRequestV2
    header = header_type(
        producer_group="P",
        topic={"unknown topic": "bad/name", "retry": "%RETRY%G", "ordered": "ordered"}.get(
            kind, "T"
        ),
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id={"bad queue": 9}.get(kind, request.queue_id),
        sys_flag=4 if kind == "half" else 0,
        born_timestamp=1_700_000_000_000 + number,
        flag=0,
        properties=f"UNIQ_KEY\x01{key}\x02{rest}",
        reconsume_times=0,
        batch=kind == "batch",
    )
    code = RequestCode.SEND_MESSAGE if kind == "v1" else RequestCode.SEND_MESSAGE_V2
    flag = ONEWAY_FLAG if kind == "oneway" else 0
    command = RemotingCommand(
        code=code,
        opaque=1000 + number,
        flag=flag,
        ext_fields=dict(sorted(to_fields(header).items())),
    )
    form = 1 if kind == "binary" else 0
    encoded = encode_header(command, form)
    if kind == "bad field":
        encoded = encoded.replace(b'"e":"', b'"e":"x')
    return encode_frame(form, encoded, request.body)


def turns_of(kinds: list[str]) -> st.SearchStrategy[list[list[tuple[int, list[Request]]]]]:
    """What the connections send in each turn of the loop: mostly the first kind, now and then
    another one. The queues are there from the first turn on."""
    usual = st.builds(Request, st.just(kinds[0]), st.integers(0, 3), st.binary(max_size=60))
    any_kind = st.builds(Request, st.sampled_from(kinds), st.integers(0, 3), st.binary(max_size=60))
    connections = st.integers(0, CONNECTIONS - 1)
    same = st.lists(
        st.tuples(connections, st.lists(usual, min_size=1, max_size=5)), min_size=3, max_size=6
    )
    mixed = st.lists(
        st.tuples(connections, st.lists(any_kind, min_size=1, max_size=5)), min_size=1, max_size=6
    )
    first = [(0, [Request(kinds[0], queue_id, b"first") for queue_id in range(4)])]
    return st.lists(same | same | mixed, min_size=1, max_size=3).map(lambda turns: [first, *turns])


def _key_within(body: bytes) -> str:
    """Of a batch that was stored as one message."""
    at = body.index(b"7F000001")
    return body[at : at + 16].decode()


class World:
    """A broker with the topics of the requests, and its connections."""

    def __init__(self, sim: SimBroker) -> None:
        for name, order in (("T", False), ("ordered", True), ("%RETRY%G", False)):
            sim.broker.state.topics.update(
                TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, order=order)
            )
        self.sim = sim
        self.ends = [
            connect(sim.owner, ("127.0.0.1", 50000 + number)) for number in range(CONNECTIONS)
        ]

    async def begin(self) -> None:
        """Nothing waits for the file of the topics."""
        await self.sim.broker.tables.topics_file.saved()

    def receive(self, connection: int, data: bytes) -> None:
        self.ends[connection][0].data_received(data)

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    @property
    def answers(self) -> list[list[tuple[int, bytes]]]:
        """Of each connection: opaque and header, in order."""
        frames = [FrameDecoder().feed(bytes(transport.written)) for _, transport in self.ends]
        return [
            [(decode_header(form, header).opaque, header) for form, header, _ in each]
            for each in frames
        ]

    def stored(self) -> list[int]:
        """The numbers of the requests whose messages are in the log, in its order."""
        store = self.sim.broker.store
        data = store.read(store.min_phy_offset, store.max_phy_offset - store.min_phy_offset) or b""
        keys = [
            message.properties.get("UNIQ_KEY") or _key_within(message.body)
            for message in decode_messages(data)
        ]
        return [int(key.removeprefix("7F000001").removesuffix("-x"), 16) for key in keys]


def store_files(folder: Path) -> dict[str, bytes]:
    kept = ("commitlog", "consumequeue", "index")
    return {name: data for name, data in folder_contents(folder).items() if name.startswith(kept)}


async def compare(turns: list[list[tuple[int, list[Request]]]], one: Path, other: Path) -> None:
    """What comes together is done as what comes frame by frame, in the same order."""
    number = 0
    async with sim_broker(one) as at_once, sim_broker(other) as alone:
        served, singly = World(at_once), World(alone)
        for each in (served, singly):
            await each.begin()
        for turn in turns:
            for connection, read in turn:
                frames = [frame_of(request, number + at) for at, request in enumerate(read)]
                number += len(read)
                served.receive(connection, b"".join(frames))
                for frame in frames:
                    singly.receive(connection, frame)
            for each in (served, singly):
                await each.turn()
                each.sim.clock.advance(1)
        assert served.stored() == singly.stored()
        assert served.answers == singly.answers
        for answers in served.answers:
            assert [opaque for opaque, _ in answers] == sorted(opaque for opaque, _ in answers)


def play(folder: Path, scene: Callable[[World], Awaitable[None]], **config: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), sim_broker(folder, **config) as sim:
            served = World(sim)
            await served.begin()
            for queue_id in range(
                4
            ):  # the first message of a queue makes it; no answer to these waits for anything
                served.receive(0, frame_of(Request("no wait", queue_id, b"first"), queue_id))
            await served.turn()
            served.ends[0][1].written.clear()
            served.ends[0][1].writes = 0
            await scene(served)

    asyncio.run(main())


BATCHED = [
    frame_of(Request("batches", number % 4, b"x" * number), number) for number in range(4, 12)
]
MESSAGES = sum(2 + number % 3 for number in range(4, 12))
PLAIN = [frame_of(Request("plain", number % 4, b"body"), number) for number in range(4, 12)]


def play_sync(folder: Path, scene: Callable[[World], Awaitable[None]], **feature: Any) -> None:
    """The same with answers that wait for the disk or a slave."""

    async def with_a_slave(served: World) -> None:
        served.sim.broker.replication.master.server._acks.update([0])
        await scene(served)

    play(folder, with_a_slave, store=store_config(folder, **feature))


SYNC_MASTER = {"broker_role": BrokerRole.SYNC_MASTER}
SYNC_FLUSH = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}


def codes_of(answers: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
    """Opaque and code; each says where its message lies."""
    assert all(b'"msgId":"7F000001' in header for _, header in answers)
    return [(opaque, decode_header(0, header).code) for opaque, header in answers]
