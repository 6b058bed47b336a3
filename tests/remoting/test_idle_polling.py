"""The loop looks for the next request before it sleeps, as long as that pays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.remoting import idle_polling
from aiorocketmq.remoting.clock import SystemClock
from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.idle_polling import IdlePolling, helps_here
from aiorocketmq.remoting.server import RemotingServer

WINDOW_S = 50e-6


class World:
    """A loop whose turns are made one by one, each taking ten microseconds."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0
        self.waiting = 0
        self.polling = IdlePolling(WINDOW_S, now=lambda: self.now, reads=lambda: self.reads, waiting=lambda: self.waiting)

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000)

    def begin(self) -> bool:
        self.polling.begin(self.now_ms)
        return self.polling.active

    async def turns(self, count: int) -> None:
        """So many in which nothing comes."""
        for _ in range(count):
            self.now += 10e-6
            await asyncio.sleep(0)

    async def request(self, after: int) -> None:
        """One comes after so many empty turns."""
        await self.turns(after)
        self.reads += 1
        await self.turns(1)

    async def over(self) -> int:
        """How many turns it goes on while nothing comes."""
        count = 0
        while self.polling.active:
            await self.turns(1)
            count += 1
        return count

    async def fail(self) -> None:
        assert self.begin()
        await self.over()

    def until_it_begins(self) -> float:
        """How long (ms) the pause is."""
        start = self.now
        while not self.begin():
            self.now += 0.001
        return round((self.now - start) * 1000)


def play(scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene(World())

    asyncio.run(main())


def test_it_ends_when_nothing_came_for_the_time_of_the_window() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        assert 5 <= await world.over() <= 6

    play(scene)


def test_every_request_begins_the_window_anew() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        for _ in range(100):
            await world.request(after=4)
            assert world.polling.active
        assert 5 <= await world.over() <= 6

    play(scene)


def test_pauses_get_longer_while_it_fails_and_short_again_when_it_paid() -> None:
    async def scene(world: World) -> None:
        await world.fail()
        pauses = []
        for _ in range(8):
            pauses.append(world.until_it_begins())
            await world.over()
        assert pauses == [2, 4, 8, 16, 32, 64, 64, 64]
        world.until_it_begins()
        for _ in range(2):  # two do not make up for the end
            await world.request(after=2)
        await world.over()
        assert world.until_it_begins() == 64
        for _ in range(3):
            await world.request(after=2)
        await world.over()
        assert world.until_it_begins() <= 1

    play(scene)


def test_nobody_is_looked_for_while_requests_come_in_every_turn() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        for _ in range(8):
            assert world.polling.active
            await world.request(after=0)
        assert not world.polling.active
        assert world.until_it_begins() == 2, "it was good for nothing"
        await world.request(after=1)
        for _ in range(7):
            await world.request(after=0)
        assert not world.polling.active
        assert world.until_it_begins() == 4, "one that was waited for is not enough"

    play(scene)


def test_an_empty_turn_now_and_then_keeps_it_going() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        for _ in range(10):
            for _ in range(6):
                await world.request(after=0)
            await world.turns(1)
        assert world.polling.active
        await world.over()

    play(scene)


def test_it_ends_at_once_when_an_answer_waits_for_something_else() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        world.waiting = 1
        await world.turns(1)
        assert not world.polling.active

    play(scene)


def test_it_is_not_begun_twice() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        await world.turns(3)
        assert world.begin()
        assert await world.over() <= 3, "beginning again does not make it longer"

    play(scene)


@pytest.mark.parametrize(("processors", "helps"), [(1, False), (1.5, False), (2, True), (8, True)])
def test_it_needs_a_second_processor(monkeypatch: pytest.MonkeyPatch, processors: float, helps: bool) -> None:
    monkeypatch.setattr(idle_polling, "usable_processors", lambda: processors)
    assert helps_here() is helps


@pytest.mark.parametrize(("window_s", "processors", "polls"), [(100e-6, 2, True), (0.0, 2, False), (100e-6, 1.5, False)])
def test_a_server_polls_when_it_is_asked_to_and_can(
    monkeypatch: pytest.MonkeyPatch, window_s: float, processors: float, polls: bool
) -> None:
    monkeypatch.setattr(idle_polling, "usable_processors", lambda: processors)
    server = RemotingServer(Dispatcher({}), port=0, clock=SystemClock(), idle_polling_s=window_s)
    polling, turns = server.polling, server.turns
    assert (polling is not None) is polls
    assert turns.after_few == (polling.begin if polling is not None else None)
