"""A slave's connection to its master: sockets around ``store.replica.replica_stream`` (class
HAClient; ha.md §4)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, cast

from ...remoting.clock import Clock
from ...remoting.errors import ConnectError
from ...remoting.outages import Outages, without_figures
from ...remoting.services import happens_within
from ...remoting.transport.address import split_address
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError
from ...store.replica.replica_stream import REPORT_S, SlaveSide
from ...store.replica.replication import ReplicationError, ReplicationSettings
from ...store.replica.replication_secret import NONCE_BYTES, SlaveHandshake
from .door import TLS_HANDSHAKE_S, LinkSecurity

log: Final = logging.getLogger(__name__)

CHECK_S: Final = 1.0
PAUSED_CHECK_S: Final = 0.01
CONNECT_TIMEOUT_S: Final = 5.0
PROOF_S: Final = 5.0
"""So long the master may take to prove that it knows the secret."""
_NO_TLS: Final = (
    "a master of the original has none on its port for slaves, permissive follows it in plain text"
)
PATIENCE_S: Final = 10.0
"""So long nobody need know a master: it may be starting, too."""
_NO_MASTER: Final = (
    "no name server has told of one: is there a master, with the same brokerName and "
    "brokerClusterName, at the same name servers (or set haMasterAddress)?"
)
_MOVED: Final = "the master has another address"
FIRST_RETRY_S: Final = 0.5
LONGEST_RETRY_S: Final = 5.0
"""The original waits so long each time, and as long again before it says where its log ends
(HAClient)."""
MAX_UNINDEXED: Final = 50_000
"""Messages that the slave's index may be behind; while there are more it does not read on."""


class ReplicationClient:
    """Service: follows the master whose address is known (``follow``), as long as the bytes of both
    are the same.

    ``verify`` looks whether the master has the last record of this slave too; it raises
    ``ReplicationError`` when not, and ``OSError`` or ``RocketMQError`` (as ``operating_errors``)
    when that cannot be found out now.
    """

    def __init__(
        self,
        store: MessageStore,
        settings: ReplicationSettings,
        clock: Clock,
        verify: Callable[[str], Awaitable[None]],
        operating_errors: tuple[type[Exception], ...] = (),
        lost: Callable[[], None] = lambda: None,
        security: LinkSecurity = LinkSecurity(),  # noqa: B008  (a NamedTuple)
    ) -> None:
        """``lost`` is called whenever the master cannot be followed: it may be somewhere else
        now."""
        self.store = store
        self.settings = settings
        self.clock = clock
        self.address: str | None = None
        """Of the master's port for slaves."""
        self.link: MasterLink | None = None
        self.security: Final = security
        self._verify = verify
        self._lost = lost
        self._operating_errors: tuple[type[Exception], ...] = (
            *operating_errors,
            OSError,
            StoreError,
            TimeoutError,
        )
        self._changed = asyncio.Event()
        self._outages = Outages(clock)

    def follow(self, address: str) -> None:
        """The master is there now."""
        if address != self.address:
            log.info(
                "the master's port for slaves is %s (before: %s)",
                address,
                self.address or "not known",
            )
            self.address = address
            self._changed.set()
            if self.link is not None:
                self.link.end(_MOVED)

    async def run(self) -> None:
        """Until cancelled. What goes wrong is logged and tried again."""
        failures = 0
        while True:
            while self.address is None:
                self._changed.clear()
                if not await happens_within(self._changed, PATIENCE_S, self.clock):
                    self._log(_NO_MASTER)
            address = self.address
            try:
                async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
                    await self._verify(address)
                    link = await self._connect(address)
            except self._operating_errors as error:
                failures += 1
                self._log(str(error) or type(error).__name__)
            else:
                if address == self.address:
                    failures = await self._follow(link, failures)
                else:  # it could not be told
                    link.end(_MOVED)
            self._lost()
            await self.clock.sleep(min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures - 1, 10)))

    def _log(self, reason: str) -> None:
        self._outages.fails(
            log,
            (without_figures(reason),),
            "not following the master, tried again until it works master=%s reason=%s",
            self.address,
            reason,
            level=logging.ERROR,
        )

    async def _connect(self, address: str) -> MasterLink:
        """Raises ``OSError``, ``StoreError``."""
        if self.settings.ack_after_flush:  # the first report says that all of it is on the disk
            end = self.store.max_phy_offset
            await self.store.sync()
            if self.store.flushed_offset < end:
                raise StoreError("the log of this slave cannot be put on its disk")
        try:
            host, port = split_address(address)
        except ConnectError as error:
            raise OSError(str(error)) from None
        link, tls = MasterLink(self), self.security.outbound
        patience = None if tls is None else TLS_HANDSHAKE_S
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: link, host, port, ssl=tls, ssl_handshake_timeout=patience
            )
        except ConnectionRefusedError as error:
            raise OSError(
                "connection refused (nothing listens there; unless the master is down, look at its "
                "brokerIP2 and haListenPort)"
            ) from error
        except (ssl.SSLError, ConnectionError) as error:
            if tls is None:
                raise
            raise OSError(
                f"{error or 'closed'}; this end speaks TLS, as tls.server.mode=enforcing demands: "
                f"{_NO_TLS}"
            ) from error
        return link

    async def _follow(self, link: MasterLink, failures: int) -> int:
        """Until the connection ends; how many attempts have failed in a row now."""
        self.link = link
        log.info("following the master master=%s from=%d", self.address, link.start)
        began = self.clock.monotonic()
        try:
            while not link.ended:
                if self._has_proved_itself(link, began):
                    failures = 0
                    self._outages.all_work()
                link.check(self.clock.monotonic())
                await link.wait(PAUSED_CHECK_S if link.paused else CHECK_S)
        finally:
            self.link = None
            link.end("this broker stops following")
        if self._has_proved_itself(link, began):
            failures = 0
            self._outages.all_work()
        self._log(link.reason)
        return failures + 1

    def _has_proved_itself(self, link: MasterLink, began: float) -> bool:
        """Something has come over it, or it has lasted."""
        return (
            self.store.max_phy_offset > link.start
            or self.clock.monotonic() > began + LONGEST_RETRY_S
        )


class MasterLink(asyncio.BufferedProtocol):
    """The slave's end of the connection."""

    def __init__(self, client: ReplicationClient) -> None:
        self.start: Final[int] = client.store.max_phy_offset
        """Where the log ended before anything came: the first batch may be there before whoever
        connected goes on."""
        store = client.store
        self.ended: bool = False
        self.paused: bool = False
        """Nothing is read until the index has come after."""
        self.reason: str = "closed by the master, whose log tells why"
        self._client = client
        self._store = store
        self._side = SlaveSide(
            store.max_phy_offset,
            store.config.mapped_file_size_commit_log,
            client.settings,
            client.clock.monotonic(),
        )
        secret = client.security.secret
        self._handshake = SlaveHandshake(secret, os.urandom(NONCE_BYTES)) if secret else None
        """Until the master has proved that it knows the secret, where there is one."""
        self._proof_by = client.clock.monotonic() + PROOF_S
        self._room = memoryview(b"")
        self._transport: asyncio.Transport | None = None
        self._woken = asyncio.Event()
        self._flushing = False
        self._report_soon: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._handshake is not None:
            self._transport.write(self._handshake.hello)
        self._report()

    def get_buffer(self, _sizehint: int) -> memoryview:
        self._room = self._side.get_buffer()
        return self._room

    def buffer_updated(self, count: int) -> None:
        """So many bytes have come."""
        if self.ended:
            return
        if self._handshake is not None:
            self._prove(self._handshake, bytes(self._room[:count]))
            return
        store = self._store
        try:
            if (broken := store.flush.broken) is not None:
                raise broken  # what the disk has is unknown: nothing more may be acknowledged
            for piece in self._side.buffer_updated(count, self._client.clock.monotonic()):
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
            self._woken.set()  # to look often from now on

    def _prove(self, handshake: SlaveHandshake, data: bytes) -> None:
        """What the master says before it knows that it may send, and we that it is the master."""
        try:
            answer = handshake.receive(data)
        except ReplicationError as error:
            self.end(f"the master is refused: {error}")
            return
        if answer and self._transport is not None:
            self._transport.write(answer)
        if handshake.done:
            self._handshake = None
            self._report()

    def _report(self) -> None:
        if self._handshake is not None:
            return
        report = self._side.report(self._client.clock.monotonic())
        if report is not None and self._transport is not None:
            self._transport.write(report)
        elif self._side.late and self._report_soon is None:
            self._report_soon = asyncio.get_running_loop().call_later(REPORT_S, self._report_late)

    def _report_late(self) -> None:
        self._report_soon = None
        self._report()

    def _flush(self) -> None:
        """Report once what has come is on the disk; what comes meanwhile goes with the next
        sync."""
        if self._flushing or self._side.written <= self._side.flushed:
            return
        self._flushing = True
        self._store.flush.when_flushed(self._side.written, self._flushed)

    def _flushed(self, _in_time: bool) -> None:
        self._flushing = False
        if (broken := self._store.flush.broken) is not None:
            self.end(str(broken))
        if not self.ended:
            self._side.wrote(self._store.max_phy_offset, self._store.flushed_offset)
            self._report()
            asyncio.get_running_loop().call_soon(self._flush)

    def check(self, now: float) -> None:
        """House-keeping."""
        if self._handshake is not None and now >= self._proof_by:
            self.end(
                "the master does not prove that it knows haSecret: one of the original, or "
                "without a secret, cannot"
            )
        elif self.paused:
            if self._store.replica.waiting < MAX_UNINDEXED // 2 and self._transport is not None:
                self.paused = False
                self._transport.resume_reading()
        elif self._side.is_silent(now):
            self.end("the master has said nothing for haHousekeepingInterval")
        self._report()

    async def wait(self, seconds: float) -> None:
        """Return after that time, or when the connection has ended or is paused."""
        try:
            await happens_within(self._woken, seconds, self._client.clock)
        finally:
            self._woken.clear()

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
        self._woken.set()
        if self._report_soon is not None:
            self._report_soon.cancel()
        if self._transport is not None:
            self._transport.abort()
