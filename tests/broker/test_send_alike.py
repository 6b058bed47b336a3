"""A broker that serves sends together does what one does that serves them one by one, in the order of its commit log."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.broker.processors.batches_alike import AlikeBatches
from aiorocketmq.broker.processors.send_alike import AlikeSends
from aiorocketmq.remoting import gathering
from aiorocketmq.remoting.protocol.batch import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageRequestV2
from aiorocketmq.remoting.protocol.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.record import decode_messages
from aiorocketmq.remoting.protocol.serialization import ONEWAY_FLAG, RemotingCommand, decode_header, encode_header
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.store.commit_log import CommitLog
from aiorocketmq.store.config import BrokerRole, FlushDiskType, MessageStoreConfig
from aiorocketmq.store.consume_queue import ConsumeQueue
from aiorocketmq.store.errors import OutOfSpaceError
from aiorocketmq.store.message_writer import refused

from ..sim import connect
from ..store.world import folder_contents
from .sim_broker import SimBroker, sim_broker

pytest.importorskip("numpy")

CONNECTIONS = 3
KINDS = ["plain"] * 12 + [
    "other tag", "long tag", "v1", "keys", "odd key", "delay", "half", "no wait", "retry", "bad queue", "ordered",
    "unknown topic", "oneway", "bad field", "batch", "binary",
]  # fmt: skip
BATCHES = ["batches"] * 12 + [
    "batches: other", "batches: old code", "batches: no flag", "batches: no wait", "batches: delay", "batches: half",
    "batches: bad queue", "batches: ordered", "batches: uneven", "batches: keys", "batches: tag", "batches: odd key",
    "batches: empty", "batches: cut", "batches: long", "batches: binary", "batches: again", "batches: odd flag",
    "batches: compressed",
]  # fmt: skip
"""Kinds of batches; what stands behind the colon is how they differ from the usual."""


@pytest.fixture(autouse=True)
def _small_groups() -> Iterator[None]:
    """As if few were many, so that small examples do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "_FEW", 2)
        yield


class Request(NamedTuple):
    kind: str
    queue_id: int
    body: bytes


def batch_frame_of(request: Request, number: int) -> bytes:
    """The frame of a batch of a few messages, all with the same key, which is its number."""
    kind = request.kind.removeprefix("batches").removeprefix(": ")
    key = f"7F000001{number:08X}{'-x' if kind == 'odd key' else ''}"
    rest = {"other": "TAGS\x01TagB", "keys": "KEYS\x01k1 k2"}.get(kind, "WAIT\x01true\x02TAGS\x01TagA")
    bodies = [b"%08d %08d" % (number, each) for each in range(2 + len(request.body) % 3)]
    items = [BatchItem(0, body, f"UNIQ_KEY\x01{key}\x02{rest}".encode()) for body in bodies]
    if kind == "uneven":
        items[-1] = msgspec.structs.replace(items[-1], body=b"longer than the others")
    data = {"empty": b"", "cut": encode_batch(items)[:-1], "long": encode_batch(items * 20)}.get(kind, encode_batch(items))
    own = {"no wait": "WAIT\x01false", "delay": "DELAY\x012", "half": "TRAN_MSG\x01true", "tag": "TAGS\x01TagC"}
    header = SendMessageRequestV2(
        producer_group="P", topic="ordered" if kind == "ordered" else "T", default_topic="TBW102",
        default_topic_queue_nums=4, queue_id=9 if kind == "bad queue" else request.queue_id,
        sys_flag={"half": 4, "prepared": 4, "compressed": 1}.get(kind, 0), born_timestamp=1_700_000_000_000 + number, flag=0,
        properties=own.get(kind, "WAIT\x01true"), reconsume_times=3 if kind == "again" else 0,
        batch=kind != "no flag",
    )  # fmt: skip
    code = RequestCode.SEND_MESSAGE_V2 if kind == "old code" else RequestCode.SEND_BATCH_MESSAGE
    command = RemotingCommand(code=code, opaque=1000 + number, ext_fields=dict(sorted(to_fields(header).items())))
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
        "delay": "DELAY\x012", "half": "TRAN_MSG\x01true\x02PGROUP\x01P", "no wait": "WAIT\x01false",
    }.get(kind, "WAIT\x01true\x02TAGS\x01TagA")  # fmt: skip
    key = f"{number:08X}-x" if kind == "odd key" else f"7F000001{number:08X}"
    header_type = SendMessageRequest if kind == "v1" else SendMessageRequestV2
    header = header_type(
        producer_group="P",
        topic={"unknown topic": "bad/name", "retry": "%RETRY%G", "ordered": "ordered"}.get(kind, "T"),
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
    command = RemotingCommand(code=code, opaque=1000 + number, flag=flag, ext_fields=dict(sorted(to_fields(header).items())))
    form = 1 if kind == "binary" else 0
    encoded = encode_header(command, form)
    if kind == "bad field":
        encoded = encoded.replace(b'"e":"', b'"e":"x')
    return encode_frame(form, encoded, request.body)


def turns_of(kinds: list[str]) -> st.SearchStrategy[list[list[tuple[int, list[Request]]]]]:
    """What the connections send in each turn of the loop: mostly the first kind, now and then another one. The queues are
    there from the first turn on."""
    usual = st.builds(Request, st.just(kinds[0]), st.integers(0, 3), st.binary(max_size=60))
    any_kind = st.builds(Request, st.sampled_from(kinds), st.integers(0, 3), st.binary(max_size=60))
    connections = st.integers(0, CONNECTIONS - 1)
    same = st.lists(st.tuples(connections, st.lists(usual, min_size=1, max_size=5)), min_size=3, max_size=6)
    mixed = st.lists(st.tuples(connections, st.lists(any_kind, min_size=1, max_size=5)), min_size=1, max_size=6)
    first = [(0, [Request(kinds[0], queue_id, b"first") for queue_id in range(4)])]
    return st.lists(same | same | mixed, min_size=1, max_size=3).map(lambda turns: [first, *turns])


def _key_within(body: bytes) -> str:
    """Of a batch that was stored as one message."""
    at = body.index(b"7F000001")
    return body[at : at + 16].decode()


class World:
    """A broker with the topics of the requests, and its connections."""

    def __init__(self, sim: SimBroker, *, together: bool) -> None:
        for name, order in (("T", False), ("ordered", True), ("%RETRY%G", False)):
            sim.broker.topics.update(TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, order=order))
        self.sim = sim
        self.gathering = sim.owner.gathering
        if not together:
            sim.owner.gathering = None
        self.ends = [connect(sim.owner, ("127.0.0.1", 50000 + number)) for number in range(CONNECTIONS)]

    def receive(self, connection: int, data: bytes) -> None:
        self.ends[connection][0].data_received(data)

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    @property
    def answers(self) -> list[list[tuple[int, bytes]]]:
        """Of each connection: opaque and header, in order."""
        frames = [FrameDecoder().feed(bytes(transport.written)) for _, transport in self.ends]
        return [[(decode_header(form, header).opaque, header) for form, header, _ in each] for each in frames]

    def stored(self) -> list[int]:
        """The numbers of the requests whose messages are in the log, in its order."""
        store = self.sim.broker.store
        data = store.read(store.min_phy_offset, store.max_phy_offset - store.min_phy_offset) or b""
        keys = [message.properties.get("UNIQ_KEY") or _key_within(message.body) for message in decode_messages(data)]
        return [int(key.removeprefix("7F000001").removesuffix("-x"), 16) for key in keys]


@contextlib.asynccontextmanager
async def world(folder: Path, *, together: bool) -> AsyncIterator[World]:
    async with sim_broker(folder) as sim:
        yield World(sim, together=together)


def store_files(folder: Path) -> dict[str, bytes]:
    kept = ("commitlog", "consumequeue", "index")
    return {name: data for name, data in folder_contents(folder).items() if name.startswith(kept)}


@pytest.mark.parametrize("kinds", [KINDS, BATCHES], ids=["messages", "batches"])
def test_together_or_one_by_one(monkeypatch: pytest.MonkeyPatch, kinds: list[str]) -> None:
    groups = watch_groups(monkeypatch)

    @settings(deadline=None, max_examples=40)
    @given(turns_of(kinds))
    def run(turns: list[list[tuple[int, list[Request]]]]) -> None:
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            asyncio.run(compare(turns, Path(one), Path(other)))
            assert store_files(Path(one)) == store_files(Path(other))

    run()
    assert sum(groups) > 20, "most went one by one"


@pytest.mark.parametrize("kind", sorted(set(KINDS + BATCHES)))
def test_many_of_one_kind(tmp_path: Path, kind: str) -> None:
    """Queue numbers go from one digit to two on the way, and not in all queues at once."""
    group = [(number % 2, [Request(kind, max(0, number % 5 - 3), b"body %d" % number)] * 2) for number in range(6)]
    asyncio.run(compare([group] * 4, tmp_path / "one", tmp_path / "other"))
    assert store_files(tmp_path / "one") == store_files(tmp_path / "other")


async def compare(turns: list[list[tuple[int, list[Request]]]], one: Path, other: Path) -> None:
    number = 0
    sent: dict[int, tuple[int, bytes]] = {}
    async with world(one, together=True) as served, world(other, together=False) as singly:
        assert served.gathering is not None
        for turn in turns:
            served.sim.clock.advance(1)
            served.gathering.active = True
            before, first = len(served.stored()), number
            for connection, read in turn:
                frames = []
                for request in read:
                    sent[number] = connection, frame_of(request, number)
                    frames.append(sent[number][1])
                    number += 1
                served.receive(connection, b"".join(frames))
            await served.turn()
            singly.sim.clock.advance(1)
            stored = list(dict.fromkeys(served.stored()[before:]))
            for each in [*stored, *(set(range(first, number)) - set(stored))]:
                singly.receive(*sent[each])
            await singly.turn()
        assert served.stored() == singly.stored()
        for connection in range(CONNECTIONS):
            answers = served.answers[connection]
            assert [opaque for opaque, _ in answers] == sorted(opaque for opaque, _ in answers)
            assert dict(answers) == dict(singly.answers[connection])


def play(folder: Path, scene: Callable[[World], Awaitable[None]], **config: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), sim_broker(folder, **config) as sim:
            served = World(sim, together=True)
            for queue_id in range(4):  # the first message of a queue makes it; no answer to these waits for anything
                served.receive(0, frame_of(Request("no wait", queue_id, b"first"), queue_id))
            await served.turn()
            served.ends[0][1].written.clear()
            served.ends[0][1].writes = 0
            assert served.gathering is not None
            served.gathering.active = True
            await scene(served)

    asyncio.run(main())


BATCHED = [frame_of(Request("batches", number % 4, b"x" * number), number) for number in range(4, 12)]
MESSAGES = sum(2 + number % 3 for number in range(4, 12))
PLAIN = [frame_of(Request("plain", number % 4, b"body"), number) for number in range(4, 12)]


def watch_groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests were served together, each time."""
    groups: list[int] = []

    def watch(kind: type[AlikeSends | AlikeBatches]) -> None:
        send = kind.send

        def watched(self: Any, requests: gathering.AlikeRequests) -> bool:
            done = send(self, requests)
            if done:
                groups.append(len(requests.bodies))
            return done

        monkeypatch.setattr(kind, "send", watched)

    watch(AlikeSends)
    watch(AlikeBatches)
    return groups


def test_the_requests_of_a_turn_are_served_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        for number, frame in enumerate(PLAIN):
            served.receive(number % CONNECTIONS, frame)
        assert groups == []
        await served.turn()
        assert groups == [len(PLAIN)]
        assert served.stored() == list(range(12))
        assert all(b'"code":0' in header for answers in served.answers for _, header in answers)

    play(tmp_path, scene)


def test_the_batches_of_a_turn_are_served_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        topic = served.sim.broker.topics.get("T")
        assert topic is not None
        puts, batched, found = topic.put_nums, topic.batched_nums, served.sim.broker.stats.put_messages
        for number, frame in enumerate(BATCHED):
            served.receive(number % CONNECTIONS, frame)
        await served.turn()
        assert groups == [len(BATCHED)]
        assert len(served.stored()) == 4 + MESSAGES
        assert (topic.put_nums - puts, topic.batched_nums - batched) == (MESSAGES, MESSAGES - len(BATCHED))
        assert served.sim.broker.stats.put_messages - found == MESSAGES
        headers = [header for answers in served.answers for _, header in answers]
        ids = [decode_header(0, header).ext_fields["msgId"].split(",") for header in headers]
        store = served.sim.broker.store
        at = [int(msg_id[16:], 16) for each in ids for msg_id in each]
        messages = decode_messages(store.read(0, store.max_phy_offset) or b"")
        assert sorted(at) == [message.commit_log_offset for message in messages][4:]

    play(tmp_path, scene)


def test_two_batches_are_enough_and_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_FEW", 24)
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        for count in (1, 2, 2):
            served.receive(0, b"".join((BATCHED[1], BATCHED[4])[:count]))  # those of four messages
            await served.turn()
        assert groups == [2, 2]

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
        served.receive(1, b"".join(frame_of(Request(f"batches: {kind}", 0, b"x"), number) for number in range(4, 12)))
        await served.turn()
        assert {decode_header(0, header).code for _, header in served.answers[1]} == {ResponseCode.MESSAGE_ILLEGAL}
        assert len(served.stored()) == 4

    play(tmp_path, scene)


@pytest.mark.parametrize("cut", [[0, 100], [0, 0], []], ids=["in an item", "at the beginning", "nowhere"])
def test_bodies_that_are_no_batches_alone_are_refused(tmp_path: Path, cut: list[int]) -> None:
    items = encode_batch([BatchItem(0, b"body", b"UNIQ_KEY\x01A\x02WAIT\x01true")] * 12)
    header = FrameDecoder().feed(BATCHED[0])[0][1]
    bodies = [items[start:stop] for start, stop in zip(cut, [*cut[1:], None], strict=False)]

    async def scene(served: World) -> None:
        served.receive(1, b"".join(encode_frame(0, header, body) for body in [items, *bodies, items]))
        await served.turn()
        good = [bool(body) and not len(body) % (len(items) // 12) for body in bodies]
        codes = [0 if each else ResponseCode.MESSAGE_ILLEGAL for each in [True, *good, True]]
        assert [decode_header(0, header).code for _, header in served.answers[1]] == codes

    play(tmp_path, scene)


@pytest.mark.parametrize("frames", ["PLAIN", "BATCHED"])
def test_a_group_is_an_arrival_and_has_a_time(tmp_path: Path, frames: str) -> None:
    arrivals: list[tuple[str, int, int]] = []

    async def scene(served: World) -> None:
        store = served.sim.broker.store
        store.on_arrival.append(lambda topic, queue_id, end, *_: arrivals.append((topic, queue_id, end)))
        store.watch("T", 2)
        served.sim.clock.advance(5)
        served.receive(1, b"".join(globals()[frames]))
        await served.turn()
        assert arrivals == [("T", 2, store.max_offset("T", 2))]
        assert store._log.last_store_timestamp == served.sim.clock.time_ms()

    play(tmp_path, scene)


@pytest.mark.parametrize("frames", ["PLAIN", "BATCHED"])
def test_producers_with_long_addresses_go_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: str) -> None:
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        served.ends.append(connect(served.sim.owner, ("::2", 50000)))
        served.receive(CONNECTIONS, b"".join(globals()[frames]))
        await served.turn()
        assert groups == []
        assert {decode_header(0, header).code for _, header in served.answers[CONNECTIONS]} == {0}

    play(tmp_path, scene)


@pytest.mark.parametrize("limit", [2, 3])
@pytest.mark.parametrize("frames", [PLAIN, BATCHED], ids=["messages", "batches"])
def test_more_queues_than_can_be_mapped(tmp_path: Path, frames: list[bytes], limit: int) -> None:
    """Room for one queue costs another one its mapping."""

    async def scene(served: World) -> None:
        store = served.sim.broker.store
        for _ in range(3):
            served.receive(1, b"".join(frames))
            await served.turn()
        assert {decode_header(0, header).code for _, header in served.answers[1]} == {0}
        assert sum(store.max_offset("T", queue_id) for queue_id in range(4)) == len(served.stored())

    play(tmp_path, scene, store=config_of(tmp_path, max_mapped_queue_files=limit))


@pytest.mark.parametrize("frames", ["PLAIN", "BATCHED"])
def test_a_store_that_takes_nothing(tmp_path: Path, frames: str) -> None:
    async def scene(served: World) -> None:
        store = served.sim.broker.store
        store._writer.refusal = refused("no more")
        ends = [queue.limit for queue in store._queues.all()]
        for queue in store._queues.all():
            queue.limit = queue.position
        served.receive(1, b"".join(globals()[frames]))
        await served.turn()
        assert all(queue.limit == queue.position for queue in store._queues.all()), "no room was made"
        for queue, end in zip(store._queues.all(), ends, strict=True):
            queue.limit = end
        assert all("no more" in (decode_header(0, header).remark or "") for _, header in served.answers[1])
        assert len(served.stored()) == 4

    play(tmp_path, scene)


@pytest.mark.parametrize("which", [CommitLog, ConsumeQueue])
@pytest.mark.parametrize("frames", ["PLAIN", "BATCHED"])
def test_a_full_disk_is_told_to_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: str, which: type[CommitLog | ConsumeQueue]
) -> None:
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        attempts = []

        def full(*_: object) -> None:
            attempts.append(1)
            raise OutOfSpaceError(tmp_path, "is full")

        store = served.sim.broker.store
        for each in (store._log, *store._queues.all()):
            each.limit = each.position
        monkeypatch.setattr(which, "make_room", full)
        sent = globals()[frames]
        served.receive(1, b"".join(sent))
        await served.turn()
        assert groups == []
        assert len(served.stored()) == 4
        answers = [decode_header(0, header) for _, header in served.answers[1]]
        assert len(answers) == len(sent)
        assert all("the disk is full" in (command.remark or "") for command in answers)
        before = len(attempts)
        assert served.gathering is not None
        served.gathering.active = True
        served.receive(1, b"".join(sent))
        await served.turn()
        assert len(attempts) == before <= 2, "for a tenth of a second nobody tries again"

    play(tmp_path, scene)


def test_frames_before_a_broken_one_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        served.receive(1, b"".join(PLAIN[:4]))
        served.receive(2, b"".join(PLAIN[4:]))
        served.receive(1, b"GET / HTTP/1.1\r\n\r\n")
        assert groups == [len(PLAIN)]
        assert len(served.answers[1]) == 4
        assert [transport.ended for _, transport in served.ends] == [False, True, False]

    play(tmp_path, scene)


def config_of(folder: Path, **feature: Any) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(folder), mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=100, max_index_num=400, **feature,
    )  # fmt: skip


def play_sync(folder: Path, scene: Callable[[World], Awaitable[None]], **feature: Any) -> None:
    """The same with answers that wait for the disk or a slave."""

    async def with_a_slave(served: World) -> None:
        served.sim.broker.master.server._acks.update([0])
        await scene(served)

    play(folder, with_a_slave, store=config_of(folder, **feature))


SYNC_MASTER = {"broker_role": BrokerRole.SYNC_MASTER}
SYNC_FLUSH = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}


def codes_of(answers: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
    """Opaque and code; each says where its message lies."""
    assert all(b'"msgId":"7F000001' in header for _, header in answers)
    return [(opaque, decode_header(0, header).code) for opaque, header in answers]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("frames", [PLAIN, BATCHED], ids=["messages", "batches"])
def test_answers_of_a_group_wait_for_a_slave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: list[bytes], late: bool
) -> None:
    groups = watch_groups(monkeypatch)
    code = ResponseCode.FLUSH_SLAVE_TIMEOUT if late else ResponseCode.SUCCESS

    async def scene(served: World) -> None:
        acks = served.sim.broker.master.server._acks
        served.receive(0, b"".join(frames[:3]))
        served.receive(1, b"".join(frames[3:5]))
        served.receive(2, b"".join(frames[5:]))
        await served.turn()
        assert groups == [len(frames)]
        assert acks.waiting == len(frames)
        assert [connection.in_flight for connection, _ in served.ends] == [3, 2, len(frames) - 5]
        assert not any(transport.writes for _, transport in served.ends)
        served.ends[1][1].close()
        await served.turn()
        if late:
            acks.expire(served.sim.clock.monotonic() + 100)
        else:
            end = served.sim.broker.store.max_phy_offset
            acks.update([end - 1])
            assert acks.waiting == len(frames), "the last message is missing"
            acks.update([end])
        assert acks.waiting == 0
        assert [transport.writes for _, transport in served.ends] == [1, 0, 1]
        assert codes_of(served.answers[0]) == [(opaque, code) for opaque in (1004, 1005, 1006)]
        assert codes_of(served.answers[2]) == [(1004 + number, code) for number in range(5, len(frames))]
        assert [connection.in_flight for connection, _ in served.ends] == [0, 0, 0]

    play_sync(tmp_path, scene, **SYNC_MASTER)


def test_without_a_slave_a_group_is_told_at_once(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        served.sim.broker.master.server._acks.update([])
        served.receive(0, b"".join(PLAIN))
        await served.turn()
        none = ResponseCode.SLAVE_NOT_AVAILABLE
        assert codes_of(served.answers[0]) == [(1004 + number, none) for number in range(len(PLAIN))]
        assert served.stored() == list(range(12))

    play_sync(tmp_path, scene, **SYNC_MASTER)


def test_answers_of_a_group_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        flush = served.sim.broker.store.flush
        served.receive(0, b"".join(PLAIN))
        await served.turn()
        assert groups == [len(PLAIN)] == [flush.waiting]
        await flush.sync_log()
        served.receive(1, b"".join(PLAIN))
        await served.turn()
        flush._complete()
        assert [len(answers) for answers in served.answers] == [len(PLAIN), 0, 0]
        served.sim.clock.advance(100)
        flush._complete()
        timeout = ResponseCode.FLUSH_DISK_TIMEOUT
        assert codes_of(served.answers[1]) == [(1004 + number, timeout) for number in range(len(PLAIN))]
        assert flush.take_waits_ms() == {0: len(PLAIN), 100_000: len(PLAIN)}
        assert flush.waiting == 0

    play_sync(tmp_path, scene, **SYNC_FLUSH)


@pytest.mark.parametrize("kind", ["no wait", "batches: no wait"])
@pytest.mark.parametrize("feature", [SYNC_MASTER, SYNC_FLUSH], ids=["slave", "disk"])
def test_who_does_not_want_to_wait_does_not(tmp_path: Path, feature: dict[str, Any], kind: str) -> None:
    async def scene(served: World) -> None:
        served.receive(0, b"".join(frame_of(Request(kind, 0, b"x"), number) for number in range(6)))
        await served.turn()
        assert codes_of(served.answers[0]) == [(1000 + number, 0) for number in range(6)]
        assert served.ends[0][0].in_flight == 0

    play_sync(tmp_path, scene, **feature)


def test_while_a_new_topic_is_not_on_the_disk_requests_go_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        made = served.sim.connect()
        asking = asyncio.ensure_future(made.send("new", b"x"))
        while served.sim.broker.topics.get("new") is None:
            await asyncio.sleep(0)
        served.receive(0, b"".join(PLAIN))
        await served.turn()
        assert not any(groups)
        assert codes_of(served.answers[0]) == [(1004 + number, 0) for number in range(len(PLAIN))]
        await asking
        assert served.gathering is not None
        served.gathering.active = True  # it had given up for a while
        served.receive(1, b"".join(PLAIN))
        await served.turn()
        assert groups == [len(PLAIN)]

    play(tmp_path, scene)


def test_no_more_than_a_connection_may_have_in_flight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = watch_groups(monkeypatch)

    async def scene(served: World) -> None:
        served.ends[0][0].max_in_flight = len(PLAIN) - 1
        served.receive(0, b"".join(PLAIN))
        await served.turn()
        assert not any(groups)
        (_, header), *others = served.answers[0]
        assert decode_header(0, header).code == ResponseCode.SYSTEM_BUSY
        assert others == []

    play_sync(tmp_path, scene, **SYNC_MASTER)


@pytest.mark.parametrize("frames", [PLAIN, BATCHED], ids=["messages", "batches"])
def test_a_queue_that_the_topic_has_no_more(tmp_path: Path, frames: list[bytes]) -> None:
    async def scene(served: World) -> None:
        topic = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)
        served.sim.broker.topics.update(topic)
        served.receive(1, b"".join(frames))
        await served.turn()
        codes = [decode_header(0, header).code for _, header in served.answers[1]]
        assert codes == [0, 0, 1, 1] * 2

    play(tmp_path, scene)


def test_a_handler_that_fails_answers_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async def scene(served: World) -> None:
        monkeypatch.setattr(AlikeSends, "_answers", fail)
        served.receive(1, b"".join(PLAIN))
        await served.turn()
        commands = [decode_header(0, header) for _, header in served.answers[1]]
        assert [command.opaque for command in commands] == [1000 + number for number in range(4, 12)]
        assert {(command.code, command.remark) for command in commands} == {(1, "ZeroDivisionError: a bug")}
        served.receive(1, frame_of(Request("plain", 0, b"more"), 99))
        await served.turn()
        assert served.answers[1][-1][0] == 1099

    play(tmp_path, scene)
