"""Answers leave at once, or at the end of a turn in which many connections are read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.remoting.dispatch import PENDING, Body, Context, Dispatcher, Outcome, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.transport.coalescing import Coalescing
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.direct_write import MUCH_BYTES

from ...sim import SimOwner, SimTransport

MUCH = 1000
HELD = 2000


class World:
    """A server with its connections."""

    def __init__(self, connections: int) -> None:
        self.held: list[Context] = []
        self.owner = SimOwner(Dispatcher({RequestCode.HEART_BEAT: self._serve}))
        coalescing = self.coalescing = Coalescing()
        self.ends: list[tuple[Connection, SimTransport]] = []
        for number in range(connections):
            connection, transport = (
                Connection(self.owner, coalescing=coalescing),
                SimTransport(("127.0.0.1", 50000 + number)),
            )
            transport.protocol = connection
            connection.connection_made(transport)
            self.ends.append((connection, transport))

    def _serve(self, _request: object, _body: Body, ctx: Context) -> Outcome:
        if ctx.opaque == HELD:
            self.held.append(ctx)
            return PENDING
        return Reply(0, None, bytes(MUCH_BYTES) if ctx.opaque == MUCH else b"")

    def read(self, number: int, opaque: int) -> None:
        header = encode_header(RemotingCommand(code=RequestCode.HEART_BEAT, opaque=opaque), 0)
        self.ends[number][0].data_received(encode_frame(0, header, b""))

    @property
    def writes(self) -> list[int]:
        return [transport.writes for _, transport in self.ends]

    def answers(self, number: int) -> list[int]:
        frames = FrameDecoder().feed(bytes(self.ends[number][1].written))
        return [decode_header(form, header).opaque for form, header, _ in frames]


def play(connections: int, scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene(World(connections))

    asyncio.run(main())


def test_of_few_connections_answers_leave_at_once_but_for_one_turn_in_four_milliseconds() -> None:
    async def scene(world: World) -> None:
        for _ in range(2):
            world.read(0, 1)
            world.read(1, 1)
            before = [transport.writes for _, transport in world.ends]
            await asyncio.sleep(0)
            assert [now - then for now, then in zip(world.writes, before, strict=True)] == [1, 1]
            for opaque in range(2, 5):
                world.read(0, opaque)
                assert world.answers(0)[-1] == opaque
                world.owner.clock.advance(0.001)
            world.owner.clock.advance(0.001)

    play(2, scene)


@pytest.mark.parametrize(("connections", "late"), [(12, True), (11, False)])
def test_while_many_are_read_they_leave_at_the_end_of_the_turn(
    connections: int, late: bool
) -> None:
    async def scene(world: World) -> None:
        for turn in range(3):
            for number in range(connections):
                world.read(number, 2 * turn)
                world.read(number, 2 * turn + 1)
            if late:
                assert world.writes == [turn] * connections
            await asyncio.sleep(0)
        assert world.writes == ([3] if late else [1 + 2 * 2]) * connections
        assert world.answers(0) == [0, 1, 2, 3, 4, 5]
        world.read(0, 6)
        await asyncio.sleep(0)
        world.read(0, 7)
        assert world.answers(0)[-1] == 7, "a turn with few, and it is over"

    play(connections, scene)


def test_large_answers_do_not_wait() -> None:
    async def scene(world: World) -> None:
        world.read(0, 1)
        assert world.writes == [0]
        world.read(0, MUCH)
        assert world.answers(0) == [1, MUCH]
        await asyncio.sleep(0)
        assert world.writes == [1]

    play(1, scene)


def test_what_waits_is_sent_before_a_connection_is_closed() -> None:
    async def scene(world: World) -> None:
        world.read(0, 1)
        world.ends[0][0].close()
        assert world.answers(0) == [1]
        world.read(1, 1)
        world.ends[1][1].close()
        await asyncio.sleep(0)
        assert world.writes == [1, 0], "it was closed by its peer"

    play(2, scene)


def test_an_answer_that_comes_meanwhile_leaves_with_the_others() -> None:
    async def scene(world: World) -> None:
        world.read(0, HELD)
        world.read(0, 1)
        assert world.writes == [0]
        world.held[0].reply(Reply())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert world.answers(0) == [1, HELD]
        assert world.writes == [1]

    play(1, scene)


def test_a_request_without_an_answer_makes_nothing_wait() -> None:
    async def scene(world: World) -> None:
        for number in range(15):
            world.read(number, HELD)
        world.read(15, 1)
        await asyncio.sleep(0)
        world.read(15, 2)
        assert world.answers(15) == [1, 2]

    play(16, scene)


def test_what_one_cannot_send_is_no_harm_to_the_others() -> None:
    async def scene(world: World) -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: told.append(context["exception"])
        )
        for number in range(3):
            world.read(number, 1)
        world.ends[0][0].out.append("no bytes")  # type: ignore[arg-type]
        for _ in range(2):
            await asyncio.sleep(0)
        assert [type(error) for error in told] == [TypeError]
        assert world.writes == [0, 1, 1]

    play(3, scene)
