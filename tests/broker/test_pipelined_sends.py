"""Many sends and batches of all kinds at a time: each is stored, refused, counted and answered as
if it were alone."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.broker.processors.send import SendProcessor
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.protocol.frames.serialization import decode_header
from aiorocketmq.store.log.commit_log import CommitLog
from aiorocketmq.store.model.errors import OutOfSpaceError
from aiorocketmq.store.put.message_writer import refused
from aiorocketmq.store.queues.consume_queue import ConsumeQueue

from ..sim import connect
from .pipelined_world import (
    BATCHED,
    BATCHES,
    CONNECTIONS,
    KINDS,
    PLAIN,
    SYNC_FLUSH,
    SYNC_MASTER,
    Request,
    World,
    codes_of,
    compare,
    frame_of,
    play,
    play_sync,
    store_files,
    turns_of,
)
from .sim_broker import store_config


@pytest.mark.parametrize("kinds", [KINDS, BATCHES], ids=["messages", "batches"])
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_together_or_one_by_one(kinds: list[str], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        asyncio.run(compare(data.draw(turns_of(kinds)), Path(one), Path(other)))
        assert store_files(Path(one)) == store_files(Path(other))


@pytest.mark.parametrize("kind", sorted(set(KINDS + BATCHES)))
def test_many_of_one_kind(tmp_path: Path, kind: str) -> None:
    """Queue numbers go from one digit to two on the way, and not in all queues at once."""
    group = [
        (number % 2, [Request(kind, max(0, number % 5 - 3), b"body %d" % number)] * 2)
        for number in range(6)
    ]
    asyncio.run(compare([group] * 4, tmp_path / "one", tmp_path / "other"))
    assert store_files(tmp_path / "one") == store_files(tmp_path / "other")


def test_the_requests_of_a_turn_are_stored_in_order(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        for number, frame in enumerate(PLAIN):
            served.receive(number % CONNECTIONS, frame)
        await served.turn()
        assert served.stored() == list(range(12))
        assert all(b'"code":0' in header for answers in served.answers for _, header in answers)

    play(tmp_path, scene)


@pytest.mark.parametrize("frames", ["PLAIN", "BATCHED"])
def test_those_who_wait_are_told_and_the_log_has_a_time(tmp_path: Path, frames: str) -> None:
    arrivals: list[tuple[str, int, int]] = []

    async def scene(served: World) -> None:
        store = served.sim.broker.store
        store.arrivals.listeners.append(
            lambda topic, queue_id, end, *_: arrivals.append((topic, queue_id, end))
        )
        store.arrivals.watch("T", 2)
        served.sim.clock.advance(5)
        served.receive(1, b"".join(globals()[frames]))
        await served.turn()
        assert arrivals == [("T", 2, store.max_offset("T", 2))]
        assert store._log.last_store_timestamp == served.sim.clock.time_ms()

    play(tmp_path, scene)


@pytest.mark.parametrize("frames", ["PLAIN", "BATCHED"])
def test_producers_with_long_addresses(tmp_path: Path, frames: str) -> None:
    async def scene(served: World) -> None:
        served.ends.append(connect(served.sim.owner, ("::2", 50000)))
        served.receive(CONNECTIONS, b"".join(globals()[frames]))
        await served.turn()
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

    play(tmp_path, scene, store=store_config(tmp_path, max_mapped_queue_files=limit))


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
        assert all(queue.limit == queue.position for queue in store._queues.all()), (
            "no room was made"
        )
        for queue, end in zip(store._queues.all(), ends, strict=True):
            queue.limit = end
        assert all(
            "no more" in (decode_header(0, header).remark or "") for _, header in served.answers[1]
        )
        assert len(served.stored()) == 4

    play(tmp_path, scene)


@pytest.mark.parametrize("which", [CommitLog, ConsumeQueue])
@pytest.mark.parametrize("frames", ["PLAIN", "BATCHED"])
def test_a_full_disk_is_told_to_everybody(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    frames: str,
    which: type[CommitLog | ConsumeQueue],
) -> None:
    async def scene(served: World) -> None:
        attempts = []

        def full(*_: object) -> None:
            attempts.append(1)
            raise OutOfSpaceError(tmp_path, "is full")

        store = served.sim.broker.store
        ends: list[Any] = [store._log, *store._queues.all()]
        for each in ends:
            each.limit = each.position
        monkeypatch.setattr(which, "make_room", full)
        sent = globals()[frames]
        served.receive(1, b"".join(sent))
        await served.turn()
        assert len(served.stored()) == 4
        answers = [decode_header(0, header) for _, header in served.answers[1]]
        assert len(answers) == len(sent)
        assert all("the disk is full" in (command.remark or "") for command in answers)
        before = len(attempts)
        served.receive(1, b"".join(sent))
        await served.turn()
        assert len(attempts) == before <= 2, "for a tenth of a second nobody tries again"

    play(tmp_path, scene)


def test_frames_before_a_broken_one_are_served(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        served.receive(1, b"".join(PLAIN[:4]))
        served.receive(2, b"".join(PLAIN[4:]))
        served.receive(1, b"GET / HTTP/1.1\r\n\r\n")
        assert len(served.answers[1]) == 4
        assert [transport.ended for _, transport in served.ends] == [False, True, False]

    play(tmp_path, scene)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("frames", [PLAIN, BATCHED], ids=["messages", "batches"])
def test_answers_wait_for_a_slave_and_leave_together(
    tmp_path: Path, frames: list[bytes], late: bool
) -> None:
    code = ResponseCode.FLUSH_SLAVE_TIMEOUT if late else ResponseCode.SUCCESS

    async def scene(served: World) -> None:
        acks = served.sim.broker.replication.master.server._acks
        served.receive(0, b"".join(frames[:3]))
        served.receive(1, b"".join(frames[3:5]))
        served.receive(2, b"".join(frames[5:]))
        await served.turn()
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
            assert acks.waiting == 1, "the last message is missing"
            acks.update([end])
        assert acks.waiting == 0
        await served.turn()
        assert [transport.writes for _, transport in served.ends] == [1, 0, 1]
        assert codes_of(served.answers[0]) == [(opaque, code) for opaque in (1004, 1005, 1006)]
        assert codes_of(served.answers[2]) == [
            (1004 + number, code) for number in range(5, len(frames))
        ]
        assert [connection.in_flight for connection, _ in served.ends] == [0, 0, 0]

    play_sync(tmp_path, scene, **SYNC_MASTER)


def test_without_a_slave_everybody_is_told_at_once(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        served.sim.broker.replication.master.server._acks.update([])
        served.receive(0, b"".join(PLAIN))
        await served.turn()
        none = ResponseCode.SLAVE_NOT_AVAILABLE
        assert codes_of(served.answers[0]) == [
            (1004 + number, none) for number in range(len(PLAIN))
        ]
        assert served.stored() == list(range(12))

    play_sync(tmp_path, scene, **SYNC_MASTER)


def test_answers_wait_for_the_disk(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        flush = served.sim.broker.store.flush
        served.receive(0, b"".join(PLAIN))
        await served.turn()
        await flush.sync_log()
        served.receive(1, b"".join(PLAIN))
        await served.turn()
        flush._complete()
        await served.turn()
        assert [len(answers) for answers in served.answers] == [len(PLAIN), 0, 0]
        served.sim.clock.advance(100)
        flush._complete()
        await served.turn()
        timeout = ResponseCode.FLUSH_DISK_TIMEOUT
        assert codes_of(served.answers[1]) == [
            (1004 + number, timeout) for number in range(len(PLAIN))
        ]
        assert flush.take_waits_ms() == {0: len(PLAIN), 100_000: len(PLAIN)}
        assert flush.waiting == 0

    play_sync(tmp_path, scene, **SYNC_FLUSH)


@pytest.mark.parametrize("kind", ["no wait", "batches: no wait"])
@pytest.mark.parametrize("feature", [SYNC_MASTER, SYNC_FLUSH], ids=["slave", "disk"])
def test_who_does_not_want_to_wait_does_not(
    tmp_path: Path, feature: dict[str, Any], kind: str
) -> None:
    async def scene(served: World) -> None:
        served.receive(0, b"".join(frame_of(Request(kind, 0, b"x"), number) for number in range(6)))
        await served.turn()
        assert codes_of(served.answers[0]) == [(1000 + number, 0) for number in range(6)]
        assert served.ends[0][0].in_flight == 0

    play_sync(tmp_path, scene, **feature)


def test_while_a_new_topic_is_not_on_the_disk_others_are_answered(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        made = served.sim.connect()
        asking = asyncio.ensure_future(made.send("new", b"x"))
        while served.sim.broker.state.topics.get("new") is None:
            await asyncio.sleep(0)
        served.receive(0, b"".join(PLAIN))
        assert not asking.done()
        assert codes_of(served.answers[0]) == [(1004 + number, 0) for number in range(len(PLAIN))]
        await asking

    play(tmp_path, scene)


def test_no_more_than_a_connection_may_have_in_flight(tmp_path: Path) -> None:
    async def scene(served: World) -> None:
        served.ends[0][0].max_in_flight = len(PLAIN) - 1
        served.receive(0, b"".join(PLAIN))
        await served.turn()
        (_, header), *others = served.answers[0]
        assert decode_header(0, header).code == ResponseCode.SYSTEM_BUSY
        assert others == []

    play_sync(tmp_path, scene, **SYNC_MASTER)


@pytest.mark.parametrize("frames", [PLAIN, BATCHED], ids=["messages", "batches"])
def test_a_queue_that_the_topic_has_no_more(tmp_path: Path, frames: list[bytes]) -> None:
    async def scene(served: World) -> None:
        topic = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)
        served.sim.broker.state.topics.update(topic)
        await served.begin()
        served.receive(1, b"".join(frames))
        await served.turn()
        codes = [decode_header(0, header).code for _, header in served.answers[1]]
        assert codes == [0, 0, 1, 1] * 2

    play(tmp_path, scene)


def test_a_handler_that_fails_answers_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async def scene(served: World) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(SendProcessor, "_answered", fail)
            served.receive(1, b"".join(PLAIN))
        await served.turn()
        commands = [decode_header(0, header) for _, header in served.answers[1]]
        assert [command.opaque for command in commands] == [
            1000 + number for number in range(4, 12)
        ]
        assert {(command.code, command.remark) for command in commands} == {
            (1, "ZeroDivisionError: a bug")
        }
        served.receive(1, frame_of(Request("plain", 0, b"more"), 99))
        assert served.answers[1][-1][0] == 1099
        assert decode_header(0, served.answers[1][-1][1]).code == 0

    play(tmp_path, scene)
