"""The listening side: accepts connections, looks at their first byte, serves them, and ends
gracefully."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from ..clock import Clock
from ..dispatch import Dispatcher
from ..outages import Outages
from .accepting import Seats, accept_all, listening_socket
from .address import format_address, host_and_port
from .buffers import Buffers
from .coalescing import Coalescing
from .config import ServerSettings
from .connection import Connection
from .farewell import STALL_S
from .first_byte import wants_tls
from .flow import Limits
from .tls import TlsError

log: Final = logging.getLogger(__name__)

_CERTIFICATE: Final = ("certificate",)


class Doorkeeper(Protocol):
    """Says who may connect."""

    def enter(self, host: str) -> str | None:
        """Somebody has connected: why he has to go at once, or ``None``."""

    def leave(self, host: str) -> None:
        """One who was let in has gone."""


class RemotingServer:
    """Serves one port. ``listen`` binds, ``run`` serves until cancelled.

    ``seats`` and ``buffers`` are shared with the other ports of the process. ``on_disconnect`` sees
    every connection. ``waiting``: how many answers will be sent later without anybody asking again,
    by a time limit of their own, which is ``longest_wait_s``; a stop waits for them.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: ServerSettings,
        *,
        clock: Clock,
        seats: Seats | None = None,
        buffers: Buffers | None = None,
        on_disconnect: Callable[[Connection], None] | None = None,
        waiting: Callable[[], int] = int,
        longest_wait_s: Callable[[], float] = float,
    ) -> None:
        self.dispatcher = dispatcher
        self.clock = clock
        self.outages: Outages = Outages(clock)
        self.limits: Limits = settings.limits
        self.seats: Seats = seats or Seats(self.limits.max_connections)
        self.buffers: Buffers = buffers or Buffers(self.limits, clock)
        self.name: str = settings.name
        self.connections: dict[Connection, None] = {}
        self._used: Final = asyncio.Event()
        self._settings = settings
        self._bound_port = 0
        self._tls = settings.tls
        self._on_disconnect = on_disconnect
        self._socket: socket.socket | None = None
        self._group: asyncio.TaskGroup | None = None
        self._requests: set[asyncio.Task[Any]] = set()
        self._waiting = waiting
        self._longest_wait_s = longest_wait_s
        self.coalescing: Coalescing = Coalescing()
        self.doorkeeper: Doorkeeper | None = None
        """Of a port that is not for everybody."""

    @property
    def port(self) -> int:
        """The port that is listened on; the one chosen by the system when 0 was asked for."""
        return self._bound_port or self._settings.port

    async def listen(self) -> None:
        """Bind the port. Raises ``AddressInUseError`` when it is taken or not allowed."""
        settings = self._settings
        self._socket = listening_socket(
            settings.host,
            settings.port,
            settings.backlog,
            port_property=settings.port_property,
        )
        settings.socket_buffers.set_on(self._socket)  # connections that it accepts have the same
        self._bound_port = int(self._socket.getsockname()[1])

    async def run(self) -> None:
        """Serve until cancelled; then stop accepting, let requests in progress end, close
        everything."""
        if self._socket is None:
            await self.listen()
        assert self._socket is not None
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._house_keeping(), name=f"{self.name}-house-keeping")
                await self._accept(self._socket, group)
        finally:
            self.close()
            self._group = None

    def close(self) -> None:
        """Stop listening. ``run`` does it at its end; only who never ran has to call it."""
        if self._socket is not None:
            self._socket.close()

    async def _accept(self, listening: socket.socket, group: asyncio.TaskGroup) -> None:
        try:
            await accept_all(
                listening,
                lambda sock: group.create_task(self._admit(sock)),
                self.clock,
                server=self.name,
                seats=self.seats,
            )
        finally:
            listening.close()
            await self._drain()

    async def _admit(self, sock: socket.socket) -> None:
        """Decide plain or TLS by the first byte, while no transport exists yet; then hand the
        socket to a connection."""

        def connection() -> Connection:
            return Connection(self, coalescing=self.coalescing, buffers=self.buffers)

        peer = _peer_name(sock)
        if not self._let_in(sock, peer):
            return
        made = False
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            encrypted = await wants_tls(
                sock,
                self._settings.tls_mode,
                has_certificate=self._tls is not None,
                timeout=self.limits.first_byte_s,
            )
            loop = asyncio.get_running_loop()
            if encrypted and self._tls is not None:
                await loop.connect_accepted_socket(
                    connection,
                    sock,
                    ssl=self._tls.context,
                    ssl_handshake_timeout=self.limits.tls_handshake_s,
                )
            else:
                await loop.connect_accepted_socket(connection, sock)
            made = True
        except OSError as error:  # also ssl.SSLError, TimeoutError
            probed = isinstance(error, ConnectionResetError)  # connected and left
            reason = str(error) or type(error).__name__
            line = "connection not admitted server=%s peer=%s reason=%s"
            log.log(logging.DEBUG if probed else logging.INFO, line, self.name, peer, reason)
            sock.close()
        except asyncio.CancelledError:
            sock.close()
            raise
        finally:
            self.seats.give_back()  # that of the socket: the connection has one of its own
            if not made:
                self._has_left(peer)

    def _let_in(self, sock: socket.socket, peer: str) -> bool:
        if self.doorkeeper is None:
            return True
        reason = self.doorkeeper.enter(_host(peer))
        if reason is not None:
            sock.close()
            self.seats.give_back()
        return reason is None

    def _has_left(self, peer: str) -> None:
        if self.doorkeeper is not None:
            self.doorkeeper.leave(_host(peer))

    def _tell_old_certificate(self, problem: TlsError | None) -> None:
        if problem is None:
            self.outages.works(_CERTIFICATE)
        else:
            self.outages.fails(
                log,
                _CERTIFICATE,
                "certificate not reloaded, the old one stays: %s",
                problem,
                level=logging.ERROR,
            )

    async def _house_keeping(self) -> None:
        while True:
            if self._tls is None and not self.connections:  # a port that nobody uses wakes nobody
                self._used.clear()
                await self._used.wait()
            await self.clock.sleep(1.0)
            if self._tls is not None:
                await asyncio.to_thread(self._tls.refresh, self.clock.monotonic())
                self._tell_old_certificate(self._tls.problem)
            now = self.clock.monotonic()
            for connection in list(self.connections):
                connection.check(now)
            await self.buffers.keep_house()

    async def _drain(self) -> None:
        """Give requests in progress their grace, then close all connections. Nobody may ask for
        more meanwhile.

        Answers that wait for something else (``waiting``) have a limit of their own, beginning in
        the grace at the latest: they are waited for, however slow the disk is. What is stored and
        not answered is sent once more.
        """
        for connection in self.connections:
            connection.stop_reading()
        deadline = self.clock.monotonic() + self.limits.shutdown_grace_s
        last = deadline + self._longest_wait_s()
        while (now := self.clock.monotonic()) < last and (
            self._waiting()
            or (now < deadline and (self._requests or any(each.busy for each in self.connections)))
        ):
            await self.clock.sleep(0.01)
        await asyncio.sleep(0)  # the last of them may leave together, at the end of this turn
        leaving, left_s = list(self.connections), max(STALL_S, deadline - self.clock.monotonic())
        for connection in leaving:
            connection.close("server stops", longest_s=left_s)
        for connection in leaving:
            await connection.wait_closed()

    # --- ConnectionOwner
    # --------------------------------------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        self.connections[connection] = None
        self._used.set()
        self.seats.take()

    def disconnected(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.seats.give_back()
        self._has_left(connection.peer)
        if self._on_disconnect is not None:
            self._on_disconnect(connection)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> object:
        if self._group is None:
            coroutine.close()
            return None
        task = self._group.create_task(coroutine)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        return task


def _host(peer: str) -> str:
    return peer.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _peer_name(sock: socket.socket) -> str:
    """``host:port`` of the other end, if it is still known."""
    try:
        return format_address(*host_and_port(sock.getpeername()))
    except OSError:
        return "gone"
