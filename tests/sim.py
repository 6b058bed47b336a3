"""A world that a test owns: a clock that is advanced, a transport that keeps what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.outages import Outages
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.flow import Limits


class ManualClock:
    """Time stands still until ``advance``; whoever sleeps is woken when its time has come."""

    def __init__(self, time_ms: int = 1_700_000_000_000) -> None:
        self._time_ms = time_ms
        self._monotonic = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def time_ms(self) -> int:
        return self._time_ms

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._monotonic + seconds, future))
        await future

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda due: None if due.cancelled() else callback())
        self._sleepers.append((self._monotonic + seconds, future))
        return future

    @property
    def next_due(self) -> float | None:
        """When the next one who sleeps is woken, in seconds of ``monotonic``."""
        return min((when for when, future in self._sleepers if not future.done()), default=None)

    def put_forward(self, seconds: float) -> None:
        """The clock on the wall is; nothing else."""
        self._time_ms += round(seconds * 1000)

    def advance(self, seconds: float) -> None:
        self._monotonic += seconds
        self._time_ms += round(seconds * 1000)
        due = [f for when, f in self._sleepers if when <= self._monotonic]
        self._sleepers = [(when, f) for when, f in self._sleepers if when > self._monotonic]
        for future in due:
            if not future.done():
                future.set_result(None)


async def turns(count: int = 100) -> None:
    """Let everything run that can run: time stands still, and threads are not waited for."""
    for _ in range(count):
        await asyncio.sleep(0)


async def turns_during(work: Coroutine[Any, Any, Any]) -> int:
    """How many turns of the loop others get while something is done."""
    task, taken = asyncio.get_running_loop().create_task(work), 0
    while not task.done():
        taken += 1
        await asyncio.sleep(0)
    await task
    return taken


class SimTransport(asyncio.Transport):
    """A peer that reads only what the test lets it read. ``written`` is everything that was sent to
    it."""

    def __init__(self, peer: tuple[str, int] = ("127.0.0.1", 50000)) -> None:
        self.extra: dict[str, Any] = {"peername": peer, "sockname": ("127.0.0.1", 10911)}
        super().__init__(self.extra)
        self.written = bytearray()
        self.writes = 0
        self.unread = 0
        self.reading = True
        self.ended = False
        self.peer_reads = True
        self.high = 64 * 1024
        self.protocol: asyncio.BaseProtocol | None = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or self.high

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.writes += 1
        if not self.peer_reads:
            self.unread += len(data)
            if self.unread > self.high and self.protocol is not None:
                self.protocol.pause_writing()

    def read_all(self) -> None:
        """The peer reads everything that waits for it."""
        self.unread = 0
        if self.protocol is not None:
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def write_eof(self) -> None:
        """The peer ends, too."""
        self.close()

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            if self.protocol is not None:
                self.protocol.connection_lost(None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.ended


def receive(protocol: asyncio.Protocol | asyncio.BufferedProtocol, data: bytes) -> None:
    """As an event loop does it."""
    if isinstance(protocol, asyncio.Protocol):
        protocol.data_received(data)
        return
    while data:
        room = memoryview(protocol.get_buffer(-1))
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        protocol.buffer_updated(count)


class Pipe(asyncio.Transport):
    """What is written on one end is received on the other, in the next turn of the loop."""

    def __init__(self, peer: tuple[str, int], own: tuple[str, int]) -> None:
        super().__init__({"peername": peer, "sockname": own})
        self.own: asyncio.Protocol | asyncio.BufferedProtocol | None = None
        self.other: Pipe | None = None
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        asyncio.get_running_loop().call_soon(self._deliver, bytes(data))

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(parts))

    def _deliver(self, data: bytes) -> None:
        assert self.other is not None
        if not self.other.ended and self.other.own is not None:
            receive(self.other.own, data)

    def close(self) -> None:
        for end in (self, self.other):
            if end is not None and not end.ended:
                end.ended = True
                if end.own is not None:
                    asyncio.get_running_loop().call_soon(end.own.connection_lost, None)

    abort = close
    write_eof = close

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        self.own = protocol

    def is_closing(self) -> bool:
        return self.ended

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def told_of() -> Outages:
    """What an object under test tells with; no time passes."""
    return Outages(ManualClock())


class SimOwner:
    """Owns simulated connections, as a server or client does."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        limits: Limits | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.limits = limits or Limits()
        self.clock = clock or ManualClock()
        self.outages = Outages(self.clock)
        self.tasks: list[asyncio.Task[Any]] = []
        self.lost: list[Connection] = []

    def connected(self, connection: Connection) -> None:
        pass

    def disconnected(self, connection: Connection) -> None:
        self.lost.append(connection)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> object:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.append(task)
        return task


def connect(
    owner: SimOwner, peer: tuple[str, int] = ("127.0.0.1", 50000)
) -> tuple[Connection, SimTransport]:
    """A connection of ``owner`` with a simulated peer at the other end."""
    transport = SimTransport(peer)
    connection = Connection(owner)
    transport.protocol = connection
    connection.connection_made(transport)
    return connection, transport
