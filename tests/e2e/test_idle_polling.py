"""A server on a real socket looks for the next request. Its clock is the test's, so that no machine is too slow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from aiorocketmq.remoting import idle_polling
from aiorocketmq.remoting.client import RemotingClient
from aiorocketmq.remoting.dispatch import Dispatcher, Reply
from aiorocketmq.remoting.idle_polling import IdlePolling
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.server import RemotingServer

from ..sim import ManualClock

HOST = "127.0.0.1"
WINDOW_S = 0.5
TURNS = 10
"""Of the loop, for what it looks at in each."""


class Clock(ManualClock):
    """The time of day stands still: a turn is tried once only, with the first answer."""

    def time_ms(self) -> int:
        return 1_700_000_000_000


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.waiting = 0
        self.server = RemotingServer(
            Dispatcher({RequestCode.HEART_BEAT: lambda _request, _body, _ctx: Reply()}),
            host=HOST,
            port=0,
            clock=self.clock,
            waiting=lambda: self.waiting,
            idle_polling_s=WINDOW_S,
        )
        self.client = RemotingClient()

    @property
    def polling(self) -> IdlePolling:
        assert self.server.polling is not None
        return self.server.polling

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.server.listen()
        task = asyncio.create_task(self.server.run())
        try:
            async with self.client:
                yield
        finally:
            self.waiting = 0
            task.cancel()
            await asyncio.wait([task])

    async def ask(self) -> None:
        await self.client.invoke(f"{HOST}:{self.server.port}", RequestCode.HEART_BEAT)

    async def goes_on_after(self, seconds: float) -> bool:
        self.clock.advance(seconds)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return self.polling.active


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_polling, "usable_processors", lambda: 2)


def play(scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        async with world.running():
            await scene(world)

    asyncio.run(main())


def test_it_looks_for_the_time_of_the_window_after_every_request() -> None:
    async def scene(world: World) -> None:
        assert not await world.goes_on_after(0), "nobody has asked for anything"
        await world.ask()
        for _ in range(5):
            assert await world.goes_on_after(WINDOW_S * 0.4)
            await world.ask()
        assert await world.goes_on_after(WINDOW_S * 0.9)
        assert not await world.goes_on_after(WINDOW_S * 0.2)

    play(scene)


def test_it_ends_when_an_answer_waits_for_something_else() -> None:
    async def scene(world: World) -> None:
        await world.ask()
        assert await world.goes_on_after(0)
        world.waiting = 1
        assert not await world.goes_on_after(0)

    play(scene)
