"""Simulated time and network: what all drivers share."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from typing import Any, TypeVar, TypeVarTuple

from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.responses import Response

from ...sim import ManualClock, Pipe
from ..language import ScenarioError

MOST_TURNS = 20_000
Protocol = asyncio.Protocol | asyncio.BufferedProtocol
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Network:
    """Who listens where; connections are pipes."""

    def __init__(self) -> None:
        self._listening: dict[str, Callable[[], Protocol]] = {}
        self._accepted: list[tuple[str, Pipe]] = []
        self._ports = iter(range(50_000, 60_000))
        self.refuses = False
        """Everybody, for now."""

    def listen(self, address: str, protocol: Callable[[], Protocol]) -> None:
        self._listening[address] = protocol

    def down(self, address: str) -> None:
        """Nobody listens there any more, and whoever was connected is so no longer."""
        self._listening.pop(address, None)
        for where, pipe in self._accepted:
            if where == address:
                pipe.abort()
        self._accepted = [entry for entry in self._accepted if entry[0] != address]

    def connect(self, opens: Callable[[], Any], address: str) -> tuple[Pipe, Any]:
        """The end of who opens. Raises ``ConnectionRefusedError``."""
        if self.refuses or address not in self._listening:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        host, _, port = address.rpartition(":")
        here, there = ("10.0.9.9", next(self._ports)), (host, int(port))
        ours, theirs = Pipe(there, here), Pipe(here, there)
        ours.other, theirs.other = theirs, ours
        ours.own, theirs.own = opens(), self._listening[address]()
        self._accepted.append((address, theirs))
        theirs.own.connection_made(theirs)
        ours.own.connection_made(ours)
        return ours, ours.own


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose timers go by the clock of the scenario, and whose connections by its network."""

    clock: ManualClock | None = None

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        self.work: set[asyncio.Future[Any]] = set()
        """What threads are doing, files mostly. That takes no simulated time."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self.work.add(future)
        future.add_done_callback(self.work.discard)
        return future

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_more: Any
    ) -> tuple[asyncio.Transport, Any]:
        await asyncio.sleep(0)
        return self.network.connect(protocol_factory, f"{host}:{port}")

    def time(self) -> float:
        return self.clock.monotonic() if self.clock is not None else super().time()

    @property
    def next_timer(self) -> float | None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return min((timer.when() for timer in timers if not timer.cancelled()), default=None)

    @property
    def is_idle(self) -> bool:
        """Whoever asks is the only one who has something to do."""
        return not self._ready  # type: ignore[attr-defined]


def simulated_loop() -> SimulatedLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop


async def settle() -> None:
    """Until all have done what they can do without more time. Raises ``ScenarioError`` when that
    has no end."""
    loop = simulated_loop()
    for _ in range(MOST_TURNS):
        await asyncio.sleep(0)
        if loop.work:
            await asyncio.wait(loop.work)
        elif loop.is_idle:
            return
    raise ScenarioError("somebody is never done, without any time that passes")


async def pass_time(clock: ManualClock, seconds: float) -> None:
    """From one who is due to the next, so that each finds the time that it asked for."""
    loop = simulated_loop()
    end = clock.monotonic() + seconds
    await settle()
    while True:
        due = min((at for at in (clock.next_due, loop.next_timer) if at is not None), default=end)
        if due > end:
            break
        clock.advance(max(0.0, due - clock.monotonic()))
        await settle()
        if due == end:
            break
    clock.advance(end - clock.monotonic())
    await settle()


def keep_running(stack: AsyncExitStack, *services: Coroutine[Any, Any, None]) -> None:
    """Services that are cancelled when the scenario ends."""

    async def end(task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for service in services:
        stack.push_async_callback(end, asyncio.create_task(service))


def code_of(response: Response) -> str:
    """``ok``, or the name of the code as the original has it."""
    return "ok" if response.code == 0 else ResponseCode(response.code).name
