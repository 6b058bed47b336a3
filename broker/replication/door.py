"""The way in at the port for slaves: who is let in, plain or TLS, and then a link
(``master.py``).

As on the other ports the first byte decides between plain and TLS, and ``tls.server.mode`` says
which of them are taken. A plain connection begins with an offset, whose first byte is 0, or with a
hello (``store/replica/replication_secret.py``).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from ...remoting.clock import Clock
from ...remoting.outages import Outages, without_figures
from ...remoting.transport.accepting import Seats
from ...remoting.transport.address import host_and_port
from ...remoting.transport.first_byte import wants_tls
from ...remoting.transport.tls import ServerTls, TlsConfig, TlsMode, client_context, server_tls
from .admission import Admission, NotAdmittedError, Visitor

log: Final = logging.getLogger(__name__)

TLS_HANDSHAKE_S: Final = 5.0
ASK_AGAIN_S: Final = 1.0


class LinkSecurity(NamedTuple):
    """How slave and master know each other; by default not at all, as in the original."""

    tls_mode: TlsMode = TlsMode.DISABLED
    certificate: ServerTls | None = None
    """The master's."""
    outbound: ssl.SSLContext | None = None
    """The slave speaks TLS with it; ``None``: plain."""
    secret: bytes = b""


def link_security(tls: TlsConfig, secret: str) -> LinkSecurity:
    """A broker that takes nothing but TLS speaks nothing else to its master. Raises
    ``TlsError``."""
    outbound = client_context(tls) if tls.server_mode is TlsMode.ENFORCING else None
    return LinkSecurity(tls.server_mode, server_tls(tls), outbound, secret.encode())


class ReplicationDoor:
    """Lets slaves in, each with a seat that it does not wait for: nobody may keep a slave out.
    ``make_link`` makes the protocol of a connection, which sets ``Visitor.end`` and has ``leave``
    called when it has ended. ``registered`` asks for the addresses of slaves.
    """

    def __init__(
        self,
        admission: Admission,
        security: LinkSecurity,
        clock: Clock,
        patience_s: float,
        seats: Seats,
        make_link: Callable[[Visitor], asyncio.Protocol],
        registered: Callable[[], Awaitable[frozenset[str]]],
    ) -> None:
        self.admission = admission
        self._security = security
        self._clock = clock
        self._patience_s = patience_s
        self._seats = seats
        self._make_link = make_link
        self._registered = registered
        self._asked_at = -ASK_AGAIN_S
        self._outages = Outages(clock)

    def receive(self, sock: socket.socket, group: asyncio.TaskGroup) -> None:
        """Somebody has connected."""
        try:
            host, _ = host_and_port(sock.getpeername())
        except OSError:  # it has left already
            sock.close()
            return
        visitor = Visitor(host, lambda _reason: None)
        try:
            gone = self.admission.enter(visitor)
        except NotAdmittedError as error:
            sock.close()
            self.log(host, str(error))
        else:
            self._seats.take()
            task = group.create_task(self._let_in(visitor, sock), name="replication-door")
            visitor.end = lambda _reason: _give_up(task)
            if gone is not None:
                self.log(gone.host, reason := "it makes room for others, there are too many")
                gone.end(reason)
        if self.admission.fills and self._clock.monotonic() - self._asked_at >= ASK_AGAIN_S:
            self._asked_at = self._clock.monotonic()
            group.create_task(self._ask(), name="replication-registered")

    def leave(self, visitor: Visitor) -> None:
        """A connection that had been received has ended."""
        self.admission.leave(visitor)
        self._seats.give_back()

    async def _ask(self) -> None:
        self.admission.registered = await self._registered()

    async def _let_in(self, visitor: Visitor, sock: socket.socket) -> None:
        security, let_in = self._security, False
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            has_certificate = security.certificate is not None
            encrypted = await wants_tls(
                sock, security.tls_mode, has_certificate=has_certificate, timeout=self._patience_s
            )
            link = self._make_link(visitor)
            loop = asyncio.get_running_loop()
            if encrypted and security.certificate is not None:
                await asyncio.to_thread(security.certificate.refresh, self._clock.monotonic())
                await loop.connect_accepted_socket(
                    lambda: link,
                    sock,
                    ssl=security.certificate.context,
                    ssl_handshake_timeout=TLS_HANDSHAKE_S,
                )
            else:
                await loop.connect_accepted_socket(lambda: link, sock)
            let_in = True
        except (OSError, TimeoutError) as error:
            self.log(visitor.host, str(error) or "it has said nothing")
        finally:
            if not let_in:
                self.leave(visitor)
                sock.close()

    def log(self, host: str, reason: str) -> None:
        """It comes again and again."""
        cause = host, without_figures(reason)
        text = "slave refused slave=%s reason=%s"
        self._outages.occurs(log, cause, text, host, reason, level=logging.ERROR)


def _give_up(task: asyncio.Task[None]) -> None:
    task.cancel()
