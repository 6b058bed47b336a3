"""A master's port for slaves: sockets around ``store.replica.replication`` (classes HAService,
HAConnection; ha.md §3, §5).

The master writes once per turn of the loop and slave: straight from the log into the socket, at its
end without a copy. What the socket does not take of a batch waits in the transport, and nothing
more is sent before that is gone. What lies far behind the end and is not in memory is brought there
by a thread first. On SYNC_MASTER a waiting send wakes the sender at once; an ASYNC_MASTER looks
every 10 ms whether the log has grown, so that a send costs nothing for it. With SYNC_FLUSH the log
ends where the disk has it, and a sync that is over wakes the sender.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, cast

from ...remoting.clock import Clock
from ...remoting.services import to_the_end
from ...remoting.transport.accepting import Seats, accept_all, listening_socket
from ...remoting.transport.address import format_address, host_and_port
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError
from ...store.model.status import PutStatus
from ...store.replica.replica_acks import ReplicaAcks
from ...store.replica.replication import (
    LogRange,
    MasterSide,
    ReplicationError,
    ReplicationSettings,
    unsent,
)
from ...store.replica.replication_secret import NONCE_BYTES, MasterHandshake, says_hello
from .admission import MAX_SLAVES, Admission, Visitor
from .door import LinkSecurity, ReplicationDoor

log: Final = logging.getLogger(__name__)

WRITE_BYTES: Final = 512 << 10
"""Sent at once, in batches of ``haTransferBatchSize``."""
WRITE_BATCHES: Final = 256
"""At most: the system takes 1024 parts at once, a batch has two."""
WARM_BYTES: Final = 64 << 20
"""So far behind the end of the log bytes are taken to be in memory."""
COLD_BYTES: Final = 4 << 20
"""So much of what is further behind is brought there at once."""
LOOK_S: Final = 0.01
REST_S: Final = 0.1
REST_AFTER_S: Final = 1.0


def log_range(store: MessageStore) -> LogRange:
    """What the store has to send."""
    file_size = store.config.mapped_file_size_commit_log
    return LogRange(store.min_phy_offset, store.readable_end, file_size, store.max_phy_offset)


async def _nobody() -> frozenset[str]:
    return frozenset()


class SlavePort(NamedTuple):
    """Where slaves connect, and how many may."""

    port: int
    host: str = ""
    seats: Seats | None = None
    """Shared with the other ports; ``None``: enough for all slaves."""
    per_address: int = MAX_SLAVES
    """Connections from one address."""


class ReplicationServer:
    """Service: serves slaves on the port for replication."""

    def __init__(
        self,
        store: MessageStore,
        settings: ReplicationSettings,
        acks: ReplicaAcks,
        clock: Clock,
        port: SlavePort,
        security: LinkSecurity = LinkSecurity(),  # noqa: B008  (a NamedTuple)
        registered: Callable[[], Awaitable[frozenset[str]]] = _nobody,
    ) -> None:
        """``registered`` asks where there are slaves."""
        self.store = store
        self.settings = settings
        self.clock = clock
        self.slaves: dict[SlaveLink, None] = {}
        self._acks = acks
        self._port = port
        self.secret: Final = security.secret
        self.door: ReplicationDoor = ReplicationDoor(
            Admission(port.per_address),
            security,
            clock,
            settings.housekeeping_s,
            port.seats or Seats(MAX_SLAVES),
            lambda visitor: SlaveLink(self, visitor),
            registered,
        )
        self._socket: socket.socket | None = None
        self._group: asyncio.TaskGroup | None = None
        self._work = asyncio.Event()
        self._waking = False

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        self._socket = listening_socket(
            self._port.host, self._port.port, MAX_SLAVES, port_property="haListenPort"
        )

    def close(self) -> None:
        """Stop listening. ``run`` does it at its end; only who never ran has to call it."""
        if self._socket is not None:
            self._socket.close()

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._socket is None:
            await self.listen()
        assert self._socket is not None
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._watch(), name="replication-watch")
                await self._accept(self._socket, group)
        finally:
            self._group = None
            self.close()
            for slave in list(self.slaves):
                slave.end()
            self._acks.end()

    async def _accept(self, listening: socket.socket, group: asyncio.TaskGroup) -> None:
        await accept_all(
            listening,
            lambda sock: self.door.receive(sock, group),
            self.clock,
            server="replication",
            seats=None,
        )

    async def _watch(self) -> None:
        """While there are slaves: has the log grown, who is silent, whose wait is over."""
        end, grown_at = -1, 0.0
        while True:
            if not self.slaves and not self._acks.waiting:
                self._work.clear()
                await self._work.wait()
            now = self.clock.monotonic()
            if self.store.readable_end != end:
                end, grown_at = self.store.readable_end, now
                self._send_to_all()
            self._acks.expire(now)
            for slave in list(self.slaves):
                slave.check(now)
            resting = now - grown_at > REST_AFTER_S and not self._acks.waiting
            await self.clock.sleep(REST_S if resting else LOOK_S)

    # -- what sends wait for

    def when_acked(self, phy_offset: int, done: Callable[[PutStatus], None]) -> None:
        """See ``ReplicaAcks.when_acked``. The sender is woken once the read event is through."""
        self._acks.when_acked(phy_offset, self.clock.monotonic(), done)
        if not self._waking and self._acks.waiting:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    @property
    def waiting(self) -> int:
        """Sends that wait for slaves."""
        return self._acks.waiting

    @property
    def oldest_wait_s(self) -> float:
        """How long the oldest of them has waited."""
        return self._acks.oldest_wait_s(self.clock.monotonic())

    def lags(self) -> dict[str, int]:
        """How many bytes each slave, by its address, is behind; who never reported is none yet."""
        end = self.store.max_phy_offset
        return {s.peer: end - s.side.acked for s in self.slaves if s.side.acked >= 0}

    def _wake(self) -> None:
        self._waking = False
        self._work.set()
        self.store.when_readable(self._send_to_all)

    def _send_to_all(self) -> None:
        for slave in self.slaves:
            slave.send_soon()

    def acked(self) -> None:
        """A slave has reported, or is gone."""
        self._acks.update(slave.side.acked for slave in self.slaves)

    # -- connections

    def connected(self, slave: SlaveLink) -> None:
        self.slaves[slave] = None
        self._work.set()
        log.info(
            "slave connected slave=%s%s", slave.peer, " encrypted=true" if slave.encrypted else ""
        )

    def disconnected(self, slave: SlaveLink, reason: str) -> None:
        self.slaves.pop(slave, None)
        self.acked()
        log.log(
            logging.INFO if slave.is_logged else logging.WARNING,
            "slave gone slave=%s reason=%s",
            slave.peer,
            reason,
        )

    def refuse(self, slave: SlaveLink, error: StoreError) -> None:
        """End a connection; the reason is logged once for as long as it stays the same."""
        slave.is_logged = True
        self.door.log(slave.peer.rpartition(":")[0], str(error))
        slave.end()

    def bring_in(self, slave: SlaveLink, read: Callable[[], None], end: int) -> None:
        """Have a thread read, so that what lies below ``end`` is in memory; then the slave's link
        goes on."""
        if self._group is not None:
            self._group.create_task(slave.bring_in(read, end), name="replication-read")


class SlaveLink(asyncio.Protocol):
    """The master's end of one connection."""

    def __init__(self, server: ReplicationServer, visitor: Visitor | None = None) -> None:
        self.side: MasterSide = MasterSide(server.settings, server.clock.monotonic())
        self.peer: str = "?"
        self.encrypted: bool = False
        self.is_logged = False
        """Why it ends stands in the log already."""
        self._server = server
        self._visitor = visitor
        self._handshake = (
            MasterHandshake(server.secret, os.urandom(NONCE_BYTES)) if server.secret else None
        )
        """Until the slave has proved that it knows the secret, where there is one."""
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._busy = False
        """A turn to send is on its way, or a thread reads."""
        self._warm_until = 0
        self._most = min(WRITE_BYTES, WRITE_BATCHES * server.settings.batch_size)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        self.peer = format_address(*host_and_port(transport.get_extra_info("peername")))
        self.encrypted = transport.get_extra_info("sslcontext") is not None
        # Paused while anything waits there. (Over TLS a limit of 0 also pauses when nothing does,
        # until the slave reports.)
        transport.set_write_buffer_limits(1, 0)
        if self._visitor is not None:
            self._visitor.end = lambda reason: self._server.refuse(self, ReplicationError(reason))
        self._server.connected(self)

    def data_received(self, data: bytes) -> None:
        server = self._server
        try:
            reports = self._proved(data)
            self.side.receive(reports, log_range(server.store), server.clock.monotonic())
        except ReplicationError as error:
            server.refuse(self, error)
            return
        if self._visitor is not None and self.side.acked >= 0:
            self._visitor.has_spoken = True
        server.acked()
        self.send_soon()

    def _proved(self, data: bytes) -> bytes:
        """What of it are reports. Raises ReplicationError."""
        if self._handshake is None:
            if self.side.acked < 0 and says_hello(data):
                raise ReplicationError(
                    "it proves a secret, and this master has none: set the same haSecret at both "
                    "ends"
                )
            return data
        answer = self._handshake.receive(data)
        if answer and self._transport is not None:
            self._transport.write(answer)
        if not self._handshake.done:
            return b""
        rest, self._handshake = self._handshake.rest, None
        return rest

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.send_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._visitor is not None:
            self._server.door.leave(self._visitor)
        self._server.disconnected(self, str(exc) if exc else "closed")

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float) -> None:
        """House-keeping."""
        if self.side.is_silent(now):
            self._server.refuse(
                self, ReplicationError("it has said nothing for haHousekeepingInterval")
            )
        elif self._transport is None or self._paused or self._busy:
            return
        elif (heartbeat := self.side.heartbeat(now)) is not None:
            self._transport.write(heartbeat)

    def send_soon(self) -> None:
        """Have a turn, unless one is coming anyway."""
        if not self._busy and not self._paused and self._transport is not None:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._busy = False
        store = self._server.store
        try:
            wanted = self.side.wanted(log_range(store), self._most)
        except ReplicationError as error:
            self._server.refuse(self, error)
            return
        if wanted is None or self._transport is None or self._transport.is_closing():
            return
        phy_offset, size = wanted
        try:
            if phy_offset < store.max_phy_offset - WARM_BYTES:
                if not self._is_warm(phy_offset):
                    return
                size = min(size, self._warm_until - phy_offset)
            view = store.view(phy_offset, size)
        except StoreError as error:  # it comes again
            self._server.refuse(self, error)
            return
        if view is not None:
            self._write(self.side.batches(view, self._server.clock.monotonic()), self._transport)
            self.send_soon()

    def _is_warm(self, phy_offset: int) -> bool:
        """What is there lies in memory, up to ``_warm_until``; else a thread brings it there, and
        sending goes on then."""
        if phy_offset < self._warm_until:
            return True
        file_size = self._server.store.config.mapped_file_size_commit_log
        end = min(phy_offset + COLD_BYTES, phy_offset - phy_offset % file_size + file_size)
        read = self._server.store.bring_in(phy_offset, end - phy_offset)
        if read is None:
            self._warm_until = end
            return True
        self._busy = True
        self._server.bring_in(self, read, end)
        return False

    async def bring_in(self, read: Callable[[], None], end: int) -> None:
        try:
            await to_the_end(asyncio.to_thread(read))
        except StoreError as error:
            self._server.refuse(self, error)
            return
        self._warm_until = end
        self._busy = False
        self.send_soon()

    def _write(self, parts: list[bytes | memoryview], transport: asyncio.Transport) -> None:
        """As much as the socket takes now; the rest of the batch that has begun goes by way of the
        transport, which then has everybody wait. The transport is asked first: its socket may be
        closed, and its number be another one's. With TLS everything goes by way of the transport.
        """
        if self.encrypted:
            transport.writelines(parts)
            return
        sock = transport.get_extra_info("socket")
        try:
            written = (
                os.writev(sock.fileno(), parts)
                if sock is not None and not transport.get_write_buffer_size()
                else 0
            )
        except OSError:  # it is full, or broken, as the transport will find out
            written = 0
        rest, not_begun = unsent(parts, written)
        self.side.take_back(not_begun)
        if rest:
            transport.write(rest)
