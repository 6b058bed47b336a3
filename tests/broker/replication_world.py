"""A master and a slave on a connection that the test owns."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from aiorocketmq.broker.replication.master import ReplicationServer, SlaveLink, SlavePort
from aiorocketmq.broker.replication.slave import MasterLink, ReplicationClient
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType
from aiorocketmq.store.replica.replica_acks import ReplicaAcks
from aiorocketmq.store.replica.replication import ReplicationSettings

from ..sim import ManualClock, receive, turns
from ..store.world import open_store, put_ok


class Wire(asyncio.Transport):
    """One end; what is written here is kept until the test has it delivered to the other one."""

    def __init__(self, own: asyncio.Protocol | asyncio.BufferedProtocol) -> None:
        super().__init__({"peername": ("10.0.0.9", 4711)})
        self.own = own
        self.other: Wire | None = None
        self.unread = bytearray()
        self.writes: list[int] = []
        self.high = 64 * 1024
        self.ended = False
        self.reading = True
        self.full = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(len(data))
        self.unread += data
        if len(self.unread) > self.high and not self.full:
            self.full = True
            self.own.pause_writing()

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(parts))

    def deliver(self, size: int = 1 << 30) -> None:
        assert self.other is not None
        data = bytes(self.unread[:size])
        del self.unread[:size]
        if data and not self.ended and self.other.reading:
            receive(self.other.own, data)
        if self.full and len(self.unread) <= self.high // 4:
            self.full = False
            self.own.resume_writing()

    def abort(self) -> None:
        for end in (self, self.other):
            if end is not None and not end.ended:
                end.ended = True
                asyncio.get_running_loop().call_soon(end.own.connection_lost, None)

    close = abort

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = self.high if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self.unread)

    def is_closing(self) -> bool:
        return self.ended

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class TlsWire(Wire):
    """As ``asyncio.sslproto``: the socket takes all that is written, and whether anything waits is
    asked after that, and when something has come.
    """

    def __init__(self, own: asyncio.Protocol | asyncio.BufferedProtocol) -> None:
        super().__init__(own)
        self._extra["sslcontext"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # type: ignore[attr-defined]
        self.low = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(len(data))
        self.unread += data
        self._control()

    def deliver(self, size: int = 1 << 30) -> None:
        super().deliver(size)
        assert isinstance(self.other, TlsWire)
        self.other._control()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self.high, self.low = high, high // 4 if low is None else low
        self._control()

    def get_write_buffer_size(self) -> int:
        return 0

    def _control(self) -> None:
        if self.high <= 0 and not self.full:
            self.full = True
            self.own.pause_writing()
        elif self.full:
            self.full = False
            self.own.resume_writing()


class World:
    """A master and a slave, connected when the test wants it."""

    def __init__(
        self,
        folder: Path,
        *,
        in_sync: int = 1,
        flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH,
        **settings: Any,
    ) -> None:
        """``flush``: of the master."""
        self.clock = ManualClock()
        self.settings = ReplicationSettings(**settings)
        self.master = open_store(
            folder / "master", mapped_file_size_commit_log=1 << 20, flush_disk_type=flush
        )
        self.slave = open_store(
            folder / "slave", mapped_file_size_commit_log=1 << 20, broker_role=BrokerRole.SLAVE
        )
        acks = ReplicaAcks(in_sync, 1 << 28, 3.0)
        self.server = ReplicationServer(self.master, self.settings, acks, self.clock, SlavePort(1))
        self.client = ReplicationClient(self.slave, self.settings, self.clock, self._verify)

    async def _verify(self, _address: str) -> None:
        pass

    def connect(self, kind: type[Wire] = Wire) -> tuple[Wire, Wire]:
        """The master's end and the slave's."""
        here, there = kind(SlaveLink(self.server)), kind(MasterLink(self.client))
        here.other, there.other = there, here
        here.own.connection_made(here)
        there.own.connection_made(there)
        return here, there

    def close(self) -> None:
        self.master.close()
        self.slave.close()


async def carry(*wires: Wire) -> None:
    """Until nothing is on the way any more."""
    for _ in range(200):
        await turns(4)
        for wire in wires:
            wire.deliver()


def play(folder: Path, scene: Callable[[World], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        world = World(folder, **settings)
        try:
            await scene(world)
        finally:
            world.close()

    asyncio.run(run())


def fill(store: MessageStore, count: int, size: int = 100) -> int:
    """Returns the end."""
    for number in range(count):
        put_ok(store, body=b"%d" % number + bytes(size))
    return store.max_phy_offset
