"""Between two syncs: who was told sends again, and what comes meanwhile is stored in one go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.broker import sync_rounds
from aiorocketmq.broker.sync_rounds import SyncRounds
from aiorocketmq.remoting import gathering
from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.gathering import Gathering
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frame import encode_frame
from aiorocketmq.remoting.protocol.serialization import RemotingCommand, encode_header

from ..sim import ManualClock, SimOwner, connect


def frame(opaque: int) -> bytes:
    return encode_frame(0, encode_header(RemotingCommand(code=RequestCode.HEART_BEAT, opaque=opaque), 0), b"")


class World:
    """A server whose frames are gathered, and who waits for the disk."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.waiting = 0
        self.looks = 0
        self.served: list[int] = []
        owner = SimOwner(Dispatcher({RequestCode.HEART_BEAT: self._serve}), clock=self.clock)
        self.gathering = owner.gathering = Gathering(owner.dispatcher, self.clock.time_ms)
        self.gathering.active = True
        self.connection, _ = connect(owner)
        self.rounds = SyncRounds(self._look, self.clock)
        self.rounds.gatherings.append(self.gathering)

    def _serve(self, _request: object, _body: Body, ctx: Context) -> Reply:
        self.served.append(ctx.opaque)
        return Reply()

    def _look(self) -> int:
        self.looks += 1
        return self.waiting

    def come(self, first: int, count: int) -> None:
        self.connection.data_received(b"".join(map(frame, range(first, first + count))))


def play(scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await scene(World())

    asyncio.run(main())


def test_what_comes_during_a_sync_is_served_when_it_is_over() -> None:
    async def scene(world: World) -> None:
        world.rounds.begin()
        world.come(0, 3)
        for _ in range(3):
            await asyncio.sleep(0)
            world.come(3 + 2 * _, 2)
        assert world.served == []
        await world.rounds.end(0, 0.001)
        assert world.served == list(range(9)), "before the next sync begins"
        world.come(9, 2)
        await asyncio.sleep(0)
        assert world.served == list(range(11)), "as ever"

    play(scene)


def test_a_sync_that_hangs_does_not_hold_anything_back() -> None:
    async def scene(world: World) -> None:
        world.rounds.begin()
        for first in (0, 5):
            world.come(first, 5)
            while len(world.served) < first + 5:
                await asyncio.sleep(0.0005)

    play(scene)


def test_the_next_round_waits_until_nearly_all_are_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_LONGEST_HOLD_S", 60.0)  # 46 turns may take longer than a millisecond

    async def scene(world: World) -> None:
        world.rounds.begin()
        world.come(0, 10)
        ending = asyncio.ensure_future(world.rounds.end(50, 0.001))
        for step in range(46):
            await asyncio.sleep(0)
            assert world.served == []
            world.come(10 + step, 1)
        assert not ending.done()
        world.waiting = 1  # another one was stored without being gathered
        await ending
        assert len(world.served) == 56

    play(scene)


def test_nobody_is_waited_for_who_does_not_come() -> None:
    async def scene(world: World) -> None:
        world.rounds.begin()
        await world.rounds.end(50, 0.001)
        assert world.looks == 1 + sync_rounds._IDLE_TURNS

    play(scene)


@pytest.mark.parametrize(("seconds", "turns"), [(0.0001, 1), (0.0003, 3), (10.0, 5)])
def test_it_waits_no_longer_than_the_sync_took_nor_than_half_a_millisecond(seconds: float, turns: int) -> None:
    async def scene(world: World) -> None:
        world.rounds.begin()
        ending = asyncio.ensure_future(world.rounds.end(50, seconds))
        await asyncio.sleep(0)
        for turn in range(turns):
            assert not ending.done(), turn
            world.come(turn, 1)
            world.clock.advance(0.00010001)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ending.done()

    play(scene)


@pytest.mark.parametrize(("told", "waiting"), [(0, 0), (1, 0), (10, 5), (0, 100), (1, 99)])
def test_few_senders_wait_for_nobody_and_neither_do_those_who_are_back(told: int, waiting: int) -> None:
    async def scene(world: World) -> None:
        world.waiting = waiting
        world.rounds.begin()
        await world.rounds.end(told, 0.001)
        assert world.looks == 1

    play(scene)


def test_nothing_is_held_back_by_a_round_that_was_cancelled() -> None:
    async def scene(world: World) -> None:
        world.rounds.begin()
        ending = asyncio.ensure_future(world.rounds.end(50, 0.001))
        await asyncio.sleep(0)
        world.come(0, 5)
        ending.cancel()
        await asyncio.wait([ending])
        assert world.served == list(range(5))

    play(scene)


def test_a_bug_in_a_handler_does_not_end_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: World) -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context["exception"]))
        world.rounds.begin()
        world.come(0, 5)
        monkeypatch.setattr(world.gathering, "_serve", lambda _reads: 1 // 0)
        await world.rounds.end(0, 0.001)
        await asyncio.sleep(0)
        assert [type(error) for error in told] == [ZeroDivisionError]
        assert world.connection.closed

    play(scene)
