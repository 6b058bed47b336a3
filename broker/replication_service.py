"""The commit log between brokers: sockets around the state machines of ``store.replication`` (classes HAService,
HAConnection, HAClient, GroupTransferService; ha.md §1-§5).

``ReplicationServer`` sends the log to slaves, ``ReplicationClient`` follows a master, ``Durability`` is what an answer waits
for. The master writes once per turn of the loop and slave, and not while more than a mebibyte waits for the slave to read.
What lies far behind the end is read in a thread. On SYNC_MASTER a waiting send wakes the sender at once; an ASYNC_MASTER
looks every 10 ms whether the log has grown, so that a send costs nothing for it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final, cast

from ..remoting.clock import Clock
from ..remoting.errors import AddressInUseError
from ..remoting.protocol.codes import ResponseCode
from ..store.errors import StoreError
from ..store.message_store import MessageStore
from ..store.replication import LogRange, MasterSide, ReplicaAcks, ReplicationError, ReplicationSettings, SlaveSide
from ..store.status import PutStatus

log: Final = logging.getLogger(__name__)

WRITE_BYTES: Final = 256 << 10
"""Sent at once, in batches of ``haTransferBatchSize``."""
UNSENT_BYTES: Final = 1 << 20
"""While more waits for the slave to read it nothing is sent."""
WARM_BYTES: Final = 64 << 20
"""So far behind the end of the log bytes are taken to be in memory."""
MAX_SLAVES: Final = 64
LOOK_S: Final = 0.01
REST_S: Final = 0.1
REST_AFTER_S: Final = 1.0
CONNECT_TIMEOUT_S: Final = 5.0
FIRST_RETRY_S: Final = 0.5
LONGEST_RETRY_S: Final = 5.0
MAX_UNINDEXED: Final = 50_000
"""Messages that the slave's index may be behind; while there are more it does not read on."""


class Durability:
    """How safe a message must be before its sender is told that it is stored: on the disk, at the slaves."""

    def __init__(self, store: MessageStore, *, sync_flush: bool = False, server: ReplicationServer | None = None) -> None:
        """``server``: of a SYNC_MASTER, else None."""
        self._store = store
        self._sync_flush = sync_flush
        self._server = server
        self.waits: bool = sync_flush or server is not None
        """There is anything to wait for at all."""

    def when_stored(self, phy_offset: int, done: Callable[[int], None]) -> None:
        """Call ``done`` with the code of the answer once everything below ``phy_offset`` is as safe as configured, or
        cannot be; the message is stored in any case. If both fail the replicas' code counts. Perhaps at once.
        """
        if self._server is None:
            self._store.when_flushed(phy_offset, lambda good: done(_flush_code(good)))
        elif not self._sync_flush:
            self._server.when_acked(phy_offset, lambda status: done(_REPLICA_CODES[status]))
        else:
            codes: list[int] = []

            def one(code: int, *, of_replicas: bool) -> None:
                codes.insert(0 if of_replicas else len(codes), code)
                if len(codes) == 2:
                    done(codes[0] or codes[1])

            self._store.when_flushed(phy_offset, lambda good: one(_flush_code(good), of_replicas=False))
            self._server.when_acked(phy_offset, lambda status: one(_REPLICA_CODES[status], of_replicas=True))


_REPLICA_CODES: Final[dict[PutStatus, int]] = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
}


def _flush_code(good: bool) -> int:
    return ResponseCode.SUCCESS if good else ResponseCode.FLUSH_DISK_TIMEOUT


def log_range(store: MessageStore) -> LogRange:
    """What the store has to send."""
    return LogRange(store.min_phy_offset, store.max_phy_offset, store.config.mapped_file_size_commit_log)


class ReplicationServer:
    """Service: serves slaves on the port for replication."""

    def __init__(
        self,
        store: MessageStore,
        settings: ReplicationSettings,
        acks: ReplicaAcks,
        clock: Clock,
        *,
        host: str = "",
        port: int,
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.slaves: set[SlaveLink] = set()
        self._acks = acks
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._group: asyncio.TaskGroup | None = None
        self._work = asyncio.Event()
        self._waking = False
        self._refusals: dict[str, str] = {}

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: SlaveLink(self), self._host or None, self._port, start_serving=False
            )
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be listened on: {error.strerror or error}"
            raise AddressInUseError(f"the port for slaves {self._port} {reason}; set haListenPort") from None

    def close(self) -> None:
        """Stop listening. ``run`` does it at its end; only who never ran has to call it."""
        if self._server is not None:
            self._server.close()

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._server is None:
            await self.listen()
        assert self._server is not None
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._server.start_serving()
                await self._watch()
        finally:
            self._group = None
            self.close()
            for slave in list(self.slaves):
                slave.end()

    async def _watch(self) -> None:
        """While there are slaves: has the log grown, who is silent, whose wait is over."""
        end, grown_at = -1, 0.0
        while True:
            if not self.slaves and not self._acks.waiting:
                self._work.clear()
                await self._work.wait()
            now = self.clock.monotonic()
            if self.store.max_phy_offset != end:
                end, grown_at = self.store.max_phy_offset, now
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
        """How many bytes each slave, by its address, is behind."""
        end = self.store.max_phy_offset
        return {slave.peer: end - max(0, slave.side.acked) for slave in self.slaves}

    def _wake(self) -> None:
        self._waking = False
        self._work.set()
        self._send_to_all()

    def _send_to_all(self) -> None:
        for slave in self.slaves:
            slave.send_soon()

    def acked(self) -> None:
        """A slave has reported, or is gone."""
        self._acks.update(slave.side.acked for slave in self.slaves)

    # -- connections

    def connected(self, slave: SlaveLink) -> bool:
        """Whether it is taken in."""
        if len(self.slaves) >= MAX_SLAVES:
            log.error("a slave is refused, there are %d already slave=%s", MAX_SLAVES, slave.peer)
            return False
        self.slaves.add(slave)
        self._work.set()
        log.info("slave connected slave=%s", slave.peer)
        return True

    def disconnected(self, slave: SlaveLink, reason: str) -> None:
        if slave in self.slaves:
            self.slaves.discard(slave)
            self.acked()
            log.log(logging.INFO if slave.told else logging.WARNING, "slave gone slave=%s reason=%s", slave.peer, reason)

    def refuse(self, slave: SlaveLink, error: StoreError) -> None:
        """End a connection; the reason is logged once for as long as it stays the same."""
        host, reason = slave.peer.rpartition(":")[0], str(error)
        slave.told = True
        if self._refusals.get(host) != reason:
            self._refusals[host] = reason
            log.error("slave refused slave=%s reason=%s", slave.peer, reason)
        slave.end()

    def read_cold(self, slave: SlaveLink, read: Callable[[], bytes]) -> None:
        """Read in a thread, then go on sending."""
        if self._group is not None:
            self._group.create_task(slave.send_cold(read), name="replication-read")


class SlaveLink(asyncio.Protocol):
    """The master's end of one connection."""

    def __init__(self, server: ReplicationServer) -> None:
        self.side: MasterSide = MasterSide(server.settings, server.clock.monotonic())
        self.peer: str = "?"
        self.told = False
        """Why it ends stands in the log already."""
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._busy = False
        """A turn to send is on its way, or a thread reads."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        self.peer = _peer_of(transport)
        transport.set_write_buffer_limits(UNSENT_BYTES)
        if not self._server.connected(self):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        server = self._server
        try:
            self.side.receive(data, log_range(server.store), server.clock.monotonic())
        except ReplicationError as error:
            server.refuse(self, error)
            return
        server.acked()
        self.send_soon()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.send_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server.disconnected(self, str(exc) if exc else "closed")

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float) -> None:
        """House-keeping."""
        if self.side.is_silent(now):
            self._server.refuse(self, ReplicationError("it has said nothing for haHousekeepingInterval"))
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
            wanted = self.side.wanted(log_range(store), WRITE_BYTES)
        except ReplicationError as error:
            self._server.refuse(self, error)
            return
        if wanted is None or self._transport is None:
            return
        if wanted[0] < store.max_phy_offset - WARM_BYTES and (cold := store.cold_read(*wanted)) is not None:
            self._busy = True
            self._server.read_cold(self, cold)
        elif (data := store.read(*wanted)) is not None:
            self._write(data)

    async def send_cold(self, read: Callable[[], bytes]) -> None:
        try:
            data = await asyncio.to_thread(read)
        except StoreError as error:
            self._server.refuse(self, error)
            return
        self._busy = False
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self.side.batches(data, self._server.clock.monotonic())))
            self.send_soon()


class ReplicationClient:
    """Service: follows the master whose address is known (``follow``), as long as the bytes of both are the same.

    ``verify`` looks whether the master has the last record of this slave too; it raises ``ReplicationError`` when not, and
    ``OSError`` or ``RocketMQError`` (as ``operating_errors``) when that cannot be found out now.
    """

    def __init__(
        self,
        store: MessageStore,
        settings: ReplicationSettings,
        clock: Clock,
        verify: Callable[[str], Awaitable[None]],
        operating_errors: tuple[type[Exception], ...] = (),
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.address: str | None = None
        """Of the master's port for slaves."""
        self.link: MasterLink | None = None
        self._verify = verify
        self._operating_errors: tuple[type[Exception], ...] = (*operating_errors, OSError, StoreError, TimeoutError)
        self._changed = asyncio.Event()
        self._told = ""

    def follow(self, address: str) -> None:
        """The master is there now."""
        if address != self.address:
            log.info("the master's port for slaves is %s (before: %s)", address, self.address or "not known")
            self.address = address
            self._changed.set()
            if self.link is not None:
                self.link.end("the master has another address")

    async def run(self) -> None:
        """Until cancelled. What goes wrong is logged and tried again."""
        failures = 0
        while True:
            while self.address is None:
                self._changed.clear()
                await self._changed.wait()
            try:
                async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
                    await self._verify(self.address)
                    link = await self._connect(self.address)
            except self._operating_errors as error:
                failures += 1
                self._tell(str(error) or type(error).__name__)
            else:
                failures = await self._follow(link, failures)
            await self.clock.sleep(min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures, 10)))

    def _tell(self, reason: str) -> None:
        """Once, as long as the reason stays the same."""
        if reason != self._told:
            self._told = reason
            log.error("not following the master, tried again until it works master=%s reason=%s", self.address, reason)

    async def _connect(self, address: str) -> MasterLink:
        """Raises ``OSError``, ``StoreError``."""
        if self.settings.ack_after_flush:
            await self.store.sync()
        host, _, port = address.rpartition(":")
        if not port.isdigit():
            raise OSError(f"{address} is not host:port")
        link = MasterLink(self)
        await asyncio.get_running_loop().create_connection(lambda: link, host.strip("[]"), int(port))
        return link

    async def _follow(self, link: MasterLink, failures: int) -> int:
        """Until the connection ends; how many attempts have failed in a row now."""
        self.link = link
        log.info("following the master master=%s from=%d", self.address, self.store.max_phy_offset)
        start, began = self.store.max_phy_offset, self.clock.monotonic()
        try:
            while not link.ended:
                link.check(self.clock.monotonic())
                await link.wait(REST_S if link.paused else REST_AFTER_S)
        finally:
            self.link = None
            link.end("this broker stops following")
        if self.store.max_phy_offset > start or self.clock.monotonic() > began + LONGEST_RETRY_S:
            failures, self._told = 0, ""
        self._tell(link.reason)
        return failures + 1


class MasterLink(asyncio.Protocol):
    """The slave's end of the connection."""

    def __init__(self, client: ReplicationClient) -> None:
        store = client.store
        self.ended: bool = False
        self.paused: bool = False
        """Nothing is read until the index has come after."""
        self.reason: str = "closed by the master, whose log tells why"
        self._client = client
        self._store = store
        self._side = SlaveSide(
            store.max_phy_offset, store.config.mapped_file_size_commit_log, client.settings, client.clock.monotonic()
        )
        self._transport: asyncio.Transport | None = None
        self._end = asyncio.Event()
        self._flushing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._report()

    def data_received(self, data: bytes) -> None:
        if self.ended:
            return
        store = self._store
        try:
            if (broken := store.flush.broken) is not None:
                raise broken  # what the disk has is unknown: nothing more may be acknowledged
            for piece in self._side.receive(data, self._client.clock.monotonic()):
                store.replica.append(*piece)
        except StoreError as error:
            self.end(str(error))
            return
        self._side.wrote(store.max_phy_offset, store.flushed_offset)
        self._report()
        if self._client.settings.ack_after_flush:
            self._flush()
        if store.replica.waiting > MAX_UNINDEXED and self._transport is not None:
            self.paused = True
            self._transport.pause_reading()

    def _report(self) -> None:
        report = self._side.report(self._client.clock.monotonic())
        if report is not None and self._transport is not None:
            self._transport.write(report)

    def _flush(self) -> None:
        """Report once what has come is on the disk; what comes meanwhile goes with the next sync."""
        if self._flushing or self._side.written <= self._side.flushed:
            return
        self._flushing = True
        self._store.when_flushed(self._side.written, self._flushed)

    def _flushed(self, _in_time: bool) -> None:
        self._flushing = False
        if not self.ended:
            self._side.wrote(self._store.max_phy_offset, self._store.flushed_offset)
            self._report()
            asyncio.get_running_loop().call_soon(self._flush)

    def check(self, now: float) -> None:
        """House-keeping."""
        if self.paused:
            if self._store.replica.waiting < MAX_UNINDEXED // 2 and self._transport is not None:
                self.paused = False
                self._transport.resume_reading()
        elif self._side.is_silent(now):
            self.end("the master has said nothing for haHousekeepingInterval")
        self._report()

    async def wait(self, seconds: float) -> None:
        """Return after that time, or when the connection has ended."""
        sleep = asyncio.ensure_future(self._client.clock.sleep(seconds))
        ended = asyncio.ensure_future(self._end.wait())
        try:
            await asyncio.wait((sleep, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            ended.cancel()
            await asyncio.gather(sleep, ended, return_exceptions=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.ended:
            self.end(str(exc) if exc else self.reason)

    def end(self, reason: str) -> None:
        """Close the connection."""
        if self.ended:
            return
        self.ended = True
        self.reason = reason
        self._end.set()
        if self._transport is not None:
            self._transport.abort()


def _peer_of(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else "?"
