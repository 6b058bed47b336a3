"""Simulated time and network: what all drivers share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.invocations import Response

from ...sim import ManualClock, Pipe, SimOwner


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose timers go by the clock of the scenario."""

    clock: ManualClock | None = None

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
    """Until all have done what they can do without more time."""
    loop = simulated_loop()
    await asyncio.sleep(0)
    while not loop.is_idle:
        await asyncio.sleep(0)


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


def host_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def joined(
    here_owner: Any, here: str, there_owner: Any, there: str
) -> tuple[Connection, Connection]:
    """Two ends of a connection, ``here`` being the one that opened it."""
    opened, accepted = (
        Pipe(host_port(there), host_port(here)),
        Pipe(host_port(here), host_port(there)),
    )
    opened.other, accepted.other = accepted, opened
    opened.own = ours = Connection(here_owner, pause_reading=False)
    accepted.own = theirs = Connection(there_owner)
    ours.connection_made(opened)
    theirs.connection_made(accepted)
    return ours, theirs


class Network:
    """Who listens where. Who is down refuses, and loses what was connected."""

    def __init__(self) -> None:
        self._hosts: dict[str, SimOwner] = {}
        self._connections: list[tuple[str, Connection]] = []
        self._ports = iter(range(50_000, 60_000))

    def listen(self, address: str, owner: SimOwner) -> None:
        self._hosts[address] = owner

    def down(self, address: str) -> None:
        del self._hosts[address]
        for there, connection in self._connections:
            if there == address:
                connection.close("down")
        self._connections = [(there, c) for there, c in self._connections if there != address]

    def connect(self, owner: Any, host: str, address: str) -> Connection:
        """Raises ``ConnectionRefusedError``."""
        if address not in self._hosts:
            raise ConnectionRefusedError
        here = f"{host}:{next(self._ports)}"
        ours, theirs = joined(owner, here, self._hosts[address], address)
        self._connections.append((address, theirs))
        return ours


class SimRemoting(RemotingClient):
    """A client whose connections are pipes."""

    network: Network
    host: str = "10.0.0.100"

    async def _open(self, host: str, port: int) -> Connection:
        await asyncio.sleep(0)
        return self.network.connect(self, self.host, f"{host}:{port}")


def code_of(response: Response) -> str:
    """``ok``, or the name of the code as the original has it."""
    return "ok" if response.code == 0 else ResponseCode(response.code).name
