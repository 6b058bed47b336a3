"""What connections hold is counted, and what the budget says is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import TASK_BYTES, Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.remoting.transport import buffers as buffers_module
from aiorocketmq.remoting.transport.buffers import Buffers
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.flow import Limits

from ...sim import SimOwner, SimTransport

MIB = 1 << 20
CODE = RequestCode.SEND_MESSAGE_V2
LIMITS = Limits(max_buffered_bytes=16 * MIB, write_pause_bytes=MIB)


class World:
    def __init__(self) -> None:
        def answer(_request: Any, _body: Body, _ctx: Context) -> Reply:
            return Reply(body=bytes(3 * MIB))

        self.owner = SimOwner(Dispatcher({RequestCode.GET_ALL_TOPIC_CONFIG: answer}), limits=LIMITS)
        self.buffers = Buffers(LIMITS, self.owner.clock)
        self.budget = self.buffers._budget
        self.ports = 50_000

    def connect(self) -> tuple[Connection, SimTransport]:
        self.ports += 1
        transport = SimTransport(("127.0.0.1", self.ports))
        connection = Connection(self.owner, buffers=self.buffers)
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport


def play(scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene(World())

    asyncio.run(main())


def frame(size: int, code: int = CODE) -> bytes:
    return encode_frame(0, encode_header(RemotingCommand(code=code, opaque=1)), bytes(size))


def test_only_bytes_that_came_and_are_left_behind_count() -> None:
    async def scene(world: World) -> None:
        connection, _ = world.connect()
        data = frame(5 * MIB)
        connection.data_received(frame(100) + data[:8])  # which announces five mebibytes
        assert world.budget.total == 8
        connection.data_received(data[8:MIB])
        assert world.budget.total == MIB
        connection.data_received(data[MIB:])
        assert world.budget.total == 0
        connection.data_received(data[:MIB])
        connection.connection_lost(None)
        assert world.budget.total == 0

    play(scene)


def test_complete_frames_are_not_counted_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: World) -> None:
        connection, _ = world.connect()
        monkeypatch.setattr(Buffers, "hold", None)
        connection.data_received(frame(10))
        connection.data_received(frame(10) + frame(100_000))
        connection.check(1.0)

    play(scene)


def test_answers_that_nobody_reads_count() -> None:
    async def scene(world: World) -> None:
        connection, transport = world.connect()
        transport.peer_reads = False
        connection.data_received(frame(0, RequestCode.GET_ALL_TOPIC_CONFIG))
        assert world.budget.total > 3 * MIB
        transport.read_all()
        assert world.budget.total == 0

    play(scene)


def test_less_than_a_pause_is_counted_once_a_second() -> None:
    async def scene(world: World) -> None:
        connection, transport = world.connect()
        transport.unread = 5000
        connection.check(1.0)
        assert world.budget.total == 5000
        transport.unread = 0
        connection.check(2.0)
        assert world.budget.total == 0

    play(scene)


def test_the_largest_are_not_read_and_then_cut_with_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(world: World) -> None:
        peers = [world.connect() for _ in range(10)]
        for connection, _ in peers:
            connection.data_received(frame(9 * MIB)[: 5 * MIB // 4])
        await asyncio.sleep(0)
        paused = [transport for _, transport in peers if not transport.reading]
        assert 3 <= len(paused) < 10
        assert not any(transport.ended for _, transport in peers)
        world.owner.clock.advance(6.0)
        world.buffers.judge()
        cut = [transport for _, transport in peers if transport.ended]
        assert cut
        assert set(cut) <= set(paused)
        assert world.budget.total <= 10 * MIB
        assert all(transport.reading for _, transport in peers if not transport.ended)
        lines = [record.getMessage() for record in caplog.records]
        assert sum(line.startswith("connection not read for now") for line in lines) == len(paused)
        told = [line for line in lines if "connection cut" in line]
        assert len(told) == 1, "all are of one host"
        assert "maxBufferedBytes=16777216" in told[0]

    play(scene)


def test_who_is_not_read_stays_so_whatever_else_goes_on() -> None:
    async def scene(world: World) -> None:
        connection, transport = world.connect()
        connection.hold_back()
        transport.peer_reads = False
        connection.data_received(frame(0, RequestCode.GET_ALL_TOPIC_CONFIG))
        transport.read_all()
        assert not transport.reading
        connection.go_on()
        assert transport.reading

    play(scene)


def test_memory_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(buffers_module, "give_back", lambda: given_back.append(1) or True)

    async def scene(world: World) -> None:
        world.buffers = Buffers(Limits(max_buffered_bytes=1 << 40), world.owner.clock)
        peers = [world.connect() for _ in range(2)]
        for connection, transport in peers:
            transport.unread = 50 * MIB
            connection.check(1.0)
        await world.buffers.keep_house()
        assert given_back == []
        for connection, transport in peers:
            transport.unread = 0
            connection.check(2.0)
        await world.buffers.keep_house()
        assert given_back == [], "who was cut a moment ago has not let go of it yet"
        await world.buffers.keep_house()
        assert given_back == [1]
        await world.buffers.keep_house()
        assert given_back == [1]

    play(scene)


def test_the_default_is_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers_module, "usable_memory", lambda: 4 << 30)
    assert Buffers(Limits(), SimOwner(Dispatcher({})).clock)._budget.limit == 1 << 30
    monkeypatch.setattr(buffers_module, "usable_memory", lambda: 1)
    assert Buffers(Limits(), SimOwner(Dispatcher({})).clock)._budget.limit == 2 * 17 * MIB


def test_who_has_thousands_of_short_requests_wait_in_tasks_is_not_read_any_more() -> None:
    async def scene(world: World) -> None:
        answers = asyncio.Event()

        async def answer(_request: Any, _body: Body, _ctx: Context) -> Reply:
            await answers.wait()
            return Reply()

        world.owner.dispatcher = Dispatcher({RequestCode.HEART_BEAT: answer})
        connection, transport = world.connect()
        most = LIMITS.max_buffered_bytes // TASK_BYTES
        connection.data_received(frame(0, RequestCode.HEART_BEAT) * most)
        await asyncio.sleep(0)
        assert not transport.reading
        answers.set()
        await asyncio.gather(*world.owner.tasks)
        assert world.budget.total == 0

    play(scene)


def test_requests_that_wait_in_tasks_count_until_they_are_answered() -> None:
    async def scene(world: World) -> None:
        answers = asyncio.Event()

        async def answer(_request: Any, _body: Body, _ctx: Context) -> Reply:
            await answers.wait()
            return Reply()

        world.owner.dispatcher = Dispatcher({RequestCode.HEART_BEAT: answer})
        connection, transport = world.connect()
        connection.data_received(
            frame(3 * MIB, RequestCode.HEART_BEAT) + frame(100, RequestCode.HEART_BEAT)
        )
        long_header = encode_header(
            RemotingCommand(code=RequestCode.HEART_BEAT, ext_fields={"a": "x" * 100_000})
        )
        connection.data_received(encode_frame(0, long_header))
        assert 0 <= world.budget.total - 3 * MIB - 100_000 - 3 * TASK_BYTES < 1000
        answers.set()
        await asyncio.gather(*world.owner.tasks)
        assert world.budget.total == 0
        connection.data_received(frame(3 * MIB, RequestCode.HEART_BEAT))
        assert world.budget.total > 3 * MIB
        transport.close()
        assert world.budget.total == 0

    play(scene)


class _Held:
    """A connection that has much again and again."""

    peer = "10.0.0.9:4711"

    def __init__(self) -> None:
        self.paused = 0

    def hold_back(self) -> None:
        self.paused += 1

    def go_on(self) -> None: ...

    def cut(self, reason: str) -> None: ...


def test_who_is_held_back_again_and_again_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(world: World) -> None:
        connection = _Held()
        for _ in range(20):
            world.buffers.hold(connection, 14 * MIB)
            world.buffers.judge()
            world.buffers.hold(connection, 0)
            world.buffers.judge()
        assert connection.paused == 20

    play(scene)
    assert caplog.text.count("connection not read for now") == 1
