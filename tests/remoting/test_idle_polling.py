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

WINDOW_S = 105e-6
EMPTY_TURNS = 11
"""So many last as long as the window."""


class World:
    """A loop whose turns are made one by one, each taking ten microseconds."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0
        self.waiting = 0
        self.polling = IdlePolling(WINDOW_S, now=lambda: self.now, reads=lambda: self.reads, waiting=lambda: self.waiting)

    def begin(self) -> bool:
        self.polling.begin()
        return self.polling.active

    async def turns(self, count: int) -> None:
        """So many in which nothing comes."""
        for _ in range(count):
            self.now += 10e-6
            await asyncio.sleep(0)

    async def requests(self, count: int, after: int) -> None:
        """Each comes after so many empty turns."""
        for _ in range(count):
            await self.turns(after)
            self.reads += 1
            await self.turns(1)

    async def requests_until_it_ends(self, after: int) -> int:
        for count in range(1000):
            if not self.polling.active:
                return count
            await self.requests(1, after)
        raise AssertionError("it goes on for ever")

    async def over(self) -> int:
        """How many turns it goes on while nothing comes."""
        for count in range(10 * EMPTY_TURNS):
            if not self.polling.active:
                return count
            await self.turns(1)
        raise AssertionError("it goes on for ever")

    async def fail(self) -> None:
        assert self.begin()
        await self.over()

    def until_it_begins(self) -> int:
        """How long (ms) the pause is."""
        self.now += 1e-6  # a bit more, so that no rounding decides
        for pause_ms in range(1000):
            if self.begin():
                return pause_ms
            self.now += 0.001
        raise AssertionError("it never begins")


def play(scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene(World())

    asyncio.run(main())


def test_it_ends_when_nothing_came_for_the_time_of_the_window() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        assert await world.over() == EMPTY_TURNS

    play(scene)


def test_every_request_begins_the_window_anew() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        for after in [1, 1, 1, EMPTY_TURNS - 2] * 25:
            await world.requests(1, after)
            assert world.polling.active
        assert await world.over() == EMPTY_TURNS

    play(scene)


SOON, LATE = 7, 9
"""Empty turns, a bit less and a bit more than three quarters of the window."""


def test_it_goes_on_and_pays_while_requests_are_found_soon() -> None:
    async def scene(world: World) -> None:
        await world.fail()
        world.until_it_begins()
        await world.requests(1000, SOON)
        assert world.polling.active
        await world.over()
        assert world.until_it_begins() == 0

    play(scene)


def test_it_fails_when_requests_are_found_late() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        for pause_ms in (4, 8, 16):
            assert 20 <= await world.requests_until_it_ends(LATE) <= 50
            assert world.until_it_begins() == pause_ms

    play(scene)


def test_it_fails_however_long_they_were_found_soon() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        await world.requests(10_000, after=1)
        assert 60 <= await world.requests_until_it_ends(LATE) <= 120
        assert world.until_it_begins() == 4

    play(scene)


def test_some_may_be_late() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        for _ in range(100):
            await world.requests(1, after=10)
            await world.requests(9, after=3)
        assert world.polling.active
        await world.over()
        assert world.until_it_begins() == 0

    play(scene)


def test_pauses_get_longer_while_it_fails_and_end_when_it_paid() -> None:
    async def scene(world: World) -> None:
        await world.fail()
        pauses = []
        for _ in range(7):
            pauses.append(world.until_it_begins())
            await world.over()
        assert pauses == [4, 8, 16, 32, 64, 64, 64]
        assert world.until_it_begins() == 64
        await world.requests(1, after=1)  # one does not make up for the end
        await world.over()
        assert world.until_it_begins() == 64
        await world.requests(2, after=1)
        await world.over()
        assert world.until_it_begins() == 0
        await world.over()
        assert world.until_it_begins() == 4, "what was found before does not count any more"

    play(scene)


def test_nobody_is_looked_for_while_requests_come_in_every_turn() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        for pause_ms in (4, 8):
            await world.requests(7, after=0)
            assert world.polling.active, "also the second time"
            await world.requests(1, after=0)
            assert not world.polling.active
            assert world.until_it_begins() == pause_ms, "it was good for nothing"

    play(scene)


def test_who_comes_in_the_first_turn_was_not_looked_for() -> None:
    async def scene(world: World) -> None:
        await world.fail()
        world.until_it_begins()
        await world.requests(1, after=0)
        await world.requests(1, after=1)
        await world.over()
        assert world.until_it_begins() == 8

    play(scene)


def test_what_came_in_between_was_not_looked_for() -> None:
    async def scene(world: World) -> None:
        await world.fail()
        world.reads += 5
        world.until_it_begins()
        assert await world.over() == EMPTY_TURNS

    play(scene)


def test_an_empty_turn_now_and_then_keeps_it_going() -> None:
    async def scene(world: World) -> None:
        assert world.begin()
        for _ in range(10):
            await world.requests(6, after=0)
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
        assert await world.over() == EMPTY_TURNS - 3, "beginning again does not make it longer"

    play(scene)


def test_it_can_begin_again_when_something_failed() -> None:
    async def scene(world: World) -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context["exception"]))
        assert world.begin()
        world.polling._waiting = lambda: 1 // 0
        await world.turns(1)
        assert [type(error) for error in told] == [ZeroDivisionError]
        world.polling._waiting = int
        assert world.begin()
        assert await world.over() == EMPTY_TURNS

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
