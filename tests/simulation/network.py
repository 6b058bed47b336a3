"""Connections between processes of one world: bytes take their time, one way of a link may be cut,
a process that is killed leaves the other end a reset."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import struct
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable
from math import log
from typing import Any

from ..sim import receive
from .loop import PROCESS, Process, SimulatedLoop

_ARRIVED = struct.Struct("<dqI")
"""When, how many bytes, and their CRC."""
WINDOW = 4096
"""So many bytes are on their way, or wait for the other end, before its writer keeps them."""
PATIENCE_S = 60.0
"""So long a connection attempt to somebody out of reach lasts at most."""


class End(asyncio.Transport):
    """One end of a connection: what is written here arrives at ``other``."""

    other: End

    def __init__(
        self, network: Network, process: Process, own: tuple[str, int], peer: tuple[str, int]
    ) -> None:
        super().__init__({"peername": peer, "sockname": own})
        self._network = network
        self.process = process
        self.own_address, self.peer_address = own, peer
        self.way = (own[0], peer[0])
        self.way_bytes = f"{own[0]}>{peer[0]} ".encode()
        self.protocol: Any = None
        self.came = False
        """The process at this end knows of it."""
        self.on_its_way: deque[bytes | None] = deque()
        """What was written and has not arrived; None: the end."""
        self.bytes_on_way = 0
        self.arrives_at = 0.0
        self._unread = bytearray()
        self._eof = False
        self._closed = False
        self._reading = True
        self._readable: Callable[[], object] | None = None
        self._high, self._low = 64 << 10, 16 << 10
        self._full = False

    # -- of whoever writes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closed and len(data):
            self._network.carry(self, bytes(data))
            unread = self.bytes_on_way + len(self.other._unread)
            if unread - WINDOW > self._high and not self._full:
                self._full = True
                self.protocol.pause_writing()

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._network.carry(self, None)
            loop = asyncio.get_running_loop()
            if self.protocol is not None:
                loop.call_soon(self.protocol.connection_lost, None, context=self.process.context)

    abort = close
    write_eof = close

    def reset(self, *, lost: bool) -> None:
        """The process at this end is gone. ``lost``: with all that has not arrived."""
        self._closed = True
        if lost:
            self.on_its_way.clear()
            self.bytes_on_way = 0
        self._network.carry(self, None)

    def is_closing(self) -> bool:
        return self._closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 << 10 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return max(0, self.bytes_on_way + len(self.other._unread) - WINDOW)

    def _read_on(self) -> None:
        """The other end has taken something."""
        if self._full and self.get_write_buffer_size() <= self._low and not self._closed:
            self._full = False
            loop = asyncio.get_running_loop()
            loop.call_soon(self.protocol.resume_writing, context=self.process.context)

    # -- of whoever reads

    def attach(self, protocol: Any) -> None:
        self.protocol = protocol
        protocol.connection_made(self)
        if self._closed:  # it was lost before anybody had it
            asyncio.get_running_loop().call_soon(protocol.connection_lost, None)
        self._hand_over()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def when_readable(self, call: Callable[[], object] | None) -> None:
        self._readable = call
        if call is not None and (self._unread or self._eof):
            call()

    def is_readable(self) -> bool:
        return bool(self._unread) or self._eof or self._closed

    def take(self, size: int) -> bytes:
        """Nothing: the other end is closed."""
        data = bytes(self._unread[:size])
        del self._unread[:size]
        self.other._read_on()
        return data

    def peek(self) -> bytes:
        return bytes(self._unread[:1])

    def arrived(self, data: bytes | None) -> None:
        if data is None:
            self._eof = True
        else:
            self._unread += data
        self._hand_over()

    def _hand_over(self) -> None:
        if self._readable is not None:
            self._readable()
        if self.protocol is None or not self._reading or self._closed:
            return
        if self.process.host in self._network.stalled:
            return
        if self._unread:
            data = bytes(self._unread)
            self._unread.clear()
            self.other._read_on()
            receive(self.protocol, data)
        if self._eof and not self._closed:
            self._closed = True
            self.protocol.connection_lost(None)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        loop = asyncio.get_running_loop()
        loop.call_soon(self._hand_over, context=self.process.context)

    def is_reading(self) -> bool:
        return self._reading


class Accepted:
    """What an accepted socket is to a server."""

    def __init__(self, end: End) -> None:
        self.end = end

    def getpeername(self) -> tuple[str, int]:
        return self.end.peer_address

    def getsockname(self) -> tuple[str, int]:
        return self.end.own_address

    def setblocking(self, flag: bool) -> None: ...

    def setsockopt(self, *how: Any) -> None: ...

    def getsockopt(self, *how: Any) -> int:
        return 0

    def recv(self, _size: int, _flags: int = 0) -> bytes:
        return self.end.peek()

    def close(self) -> None:
        self.end.close()


class Listener:
    """What a listening socket is to a server."""

    def __init__(self, network: Network, address: tuple[str, int]) -> None:
        self._network = network
        self.address = address
        self.waiting: asyncio.Queue[Accepted] = asyncio.Queue()
        self._closed = False

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def setblocking(self, flag: bool) -> None: ...

    def setsockopt(self, *how: Any) -> None: ...

    def came(self, accepted: Accepted) -> None:
        """A connection, for which nobody may be there any more."""
        accepted.end.came = True
        if self._closed:
            accepted.close()
        else:
            self.waiting.put_nowait(accepted)

    def close(self) -> None:
        self._closed = True
        while not self.waiting.empty():
            self.waiting.get_nowait().close()
        if self._network.listeners.get(self.address) is self:
            del self._network.listeners[self.address]


class Network:
    """All links of a world."""

    def __init__(self, loop: SimulatedLoop, processes: Callable[[], Iterable[Process]]) -> None:
        """``processes``: those that run now."""
        self._loop = loop
        self._processes = processes
        loop.network = self
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.ends: dict[End, None] = {}
        self.cut: set[tuple[str, str]] = set()
        """Ways, from host to host, that nothing comes through."""
        self.stalled: set[str] = set()
        """Hosts that do not read what has come."""
        self.fragile: dict[str, float] = {}
        """Hosts, and with which share of what comes to them their connections to whoever sent it
        are lost."""
        self.usually_s = 0.0002
        """How long bytes take, about."""
        chance = loop.random.random
        self.latency_s: Callable[[tuple[str, str]], float] = lambda _way: (
            0.0001 - log(1.0 - chance()) / (1 / self.usually_s)  # as ``expovariate``
        )
        self.writes: Counter[tuple[str, int]] = Counter()
        """How often each program wrote to a connection in each second."""
        self.seen: Callable[[bytes], None] = lambda _what: None
        """Told all that arrives."""
        self._ports = iter(range(32_768, 1 << 62))

    # -- as sockets have it

    def listen(self, address: tuple[str, int], **_more: Any) -> Listener:
        """In the place of ``socket.create_server``."""
        process = PROCESS.get()
        assert process is not None
        place = (process.host, address[1])
        if place in self.listeners or not process.alive:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        listener = self.listeners[place] = Listener(self, place)
        process.on_kill.append(listener.close)
        return listener

    async def accept(self, listener: Listener) -> tuple[Accepted, tuple[str, int]]:
        accepted = await listener.waiting.get()
        return accepted, accepted.end.peer_address

    async def connect(
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> tuple[End, Any]:
        end, protocol = await self.open(host, port), protocol_factory()
        end.attach(protocol)
        return end, protocol

    async def open(self, host: str, port: int) -> End:
        """A connection whose end nobody reads yet. Raises OSError."""
        process = PROCESS.get()
        assert process is not None
        there, back = (process.host, host), (host, process.host)
        await asyncio.sleep(self.latency_s(there))
        gives_up = self._loop.now + PATIENCE_S
        while there in self.cut or back in self.cut:
            if self._loop.now >= gives_up:
                raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")
            await asyncio.sleep(1.0)
        listener = self.listeners.get((host, port))
        server = next((p for p in self._processes() if p.host == host), None)
        if listener is None or server is None:  # there is none while it ends
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        own = (process.host, next(self._ports))
        ours = End(self, process, own, (host, port))
        theirs = End(self, server, (host, port), own)
        ours.other, theirs.other = theirs, ours
        ours.came = True
        for end in (ours, theirs):
            self.ends[end] = None
        self._loop.call_later(
            self.latency_s(there),
            listener.came,
            Accepted(theirs),
            context=server.context,
        )
        return ours

    # -- what is on its way

    def carry(self, end: End, data: bytes | None) -> None:
        end.on_its_way.append(data)
        end.arrives_at = max(end.arrives_at, self._loop.now + self.latency_s(end.way))
        self._loop.call_at(end.arrives_at, self._arrive, end, context=_NOBODY)
        if data is not None:
            end.bytes_on_way += len(data)
            self.writes[end.process.name, int(self._loop.now)] += 1
            end.process.reached("sent")

    def _arrive(self, end: End) -> None:
        if end.way in self.cut or not end.on_its_way:
            return
        data = end.on_its_way.popleft()
        end.bytes_on_way -= len(data or b"")
        other = end.other
        size, crc = (-1, 0) if data is None else (len(data), zlib.crc32(data))
        self.seen(end.way_bytes + _ARRIVED.pack(self._loop.now, size, crc))
        if other.process.alive:
            other.process.context.run(other.arrived, data)
            fragile = self.fragile.get(other.process.host) if data else None
            if fragile is not None and self._loop.random.random() < fragile:
                self.drop(*end.way)
        if data is None:
            self.ends.pop(end, None)

    def heal(self, ways: set[tuple[str, str]] | None = None) -> None:
        """These ways are whole, or all; what was held up arrives."""
        healed = self.cut & (self.cut if ways is None else ways)
        self.cut -= healed
        for end in [each for each in self.ends if each.way in healed]:
            for _ in range(len(end.on_its_way)):
                end.arrives_at = max(end.arrives_at, self._loop.now + self.latency_s(end.way))
                self._loop.call_at(end.arrives_at, self._arrive, end, context=_NOBODY)

    def read_on(self, host: str) -> None:
        """It reads again."""
        self.stalled.discard(host)
        for end in [each for each in self.ends if each.process.host == host]:
            if end.process.alive:
                self._loop.call_soon(end._hand_over, context=end.process.context)

    def gone(self, process: Process) -> None:
        """Its connections are reset."""
        for end in list(self.ends):
            if end.process is process:
                end.reset(lost=self._loop.random.random() < 0.5)

    def drop(self, one: str, other: str) -> None:
        """Connections between two hosts are lost, at both ends."""
        for end in list(self.ends):
            if set(end.way) == {one, other} and end.process.alive:
                self._loop.call_soon(end.close, context=end.process.context)


def _nobody() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(PROCESS.set, None)
    return context


_NOBODY = _nobody()
