"""Between two syncs: who was told mostly sends again, and is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.store.services import sync_rounds
from aiorocketmq.store.services.sync_rounds import SyncRounds

from ...sim import ManualClock


class World:
    """Who waits for the disk."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.waiting = 0
        self.looks = 0
        self.rounds = SyncRounds(self._look, self.clock)

    def _look(self) -> int:
        self.looks += 1
        return self.waiting


def play(scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await scene(World())

    asyncio.run(main())


def test_the_next_round_waits_until_all_are_back() -> None:
    async def scene(world: World) -> None:
        world.waiting = 10
        ending = asyncio.ensure_future(world.rounds.end(50, 0.001))
        for _ in range(50):
            await asyncio.sleep(0)
            assert not ending.done()
            world.waiting += 1
        await asyncio.sleep(0)
        assert ending.done()

    play(scene)


def test_nobody_is_waited_for_who_does_not_come() -> None:
    async def scene(world: World) -> None:
        await world.rounds.end(50, 0.001)
        assert world.looks == 1 + sync_rounds._IDLE_TURNS

    play(scene)


@pytest.mark.parametrize(("seconds", "turns"), [(0.0001, 1), (0.0003, 3), (10.0, 5)])
def test_it_waits_no_longer_than_the_sync_took_nor_than_half_a_millisecond(
    seconds: float, turns: int
) -> None:
    async def scene(world: World) -> None:
        ending = asyncio.ensure_future(world.rounds.end(50, seconds))
        await asyncio.sleep(0)
        for turn in range(turns):
            assert not ending.done(), turn
            world.waiting += 1
            world.clock.advance(0.00010001)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ending.done()

    play(scene)


@pytest.mark.parametrize(("told", "waiting"), [(0, 0), (1, 0), (2, 1), (0, 100)])
def test_few_senders_wait_for_nobody_and_neither_do_those_who_are_back(
    told: int, waiting: int
) -> None:
    async def scene(world: World) -> None:
        world.waiting = waiting
        await world.rounds.end(told, 0.001)
        assert world.looks == 1

    play(scene)
