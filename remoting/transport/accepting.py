"""How many connections a process serves at once, over all its ports (``maxConnections``), and what
happens beyond that.

Accepting pauses: the next connection of each port is held unserved, the others wait in the queue of
the system (``serverSocketBacklog``) until one of those that are served ends. It is the same when
the system has no descriptor or memory for another one. Each port tells of its pauses.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from ..clock import Clock
from ..errors import AddressInUseError
from ..outages import AGAIN_S, Outages
from ..services import happens_within
from .address import is_host

log: Final = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_SYSTEM: Final = ("system",)
_SEATS: Final = ("seats",)


class Seats:
    """One for every connection that is served. All ports of a process share them."""

    def __init__(self, most: int) -> None:
        self.most: Final = most
        self.taken: int = 0
        self._freed = asyncio.Event()

    def take(self) -> None:
        """For a connection that must be served whatever happens: a slave's, or one that had a seat
        all the time."""
        self.taken += 1

    def give_back(self) -> None:
        self.taken -= 1
        self._freed.set()

    @property
    def are_taken(self) -> bool:
        return self.taken >= self.most

    async def wait_for_one(self, clock: Clock, when_none: Callable[[], None]) -> None:
        """Take a seat when there is one; ``when_none`` is called now and then until there is."""
        while self.are_taken:
            when_none()
            self._freed.clear()
            await happens_within(self._freed, AGAIN_S, clock)
        self.taken += 1


async def accept_all(
    listening: socket.socket,
    admit: Callable[[socket.socket], object],
    clock: Clock,
    *,
    server: str,
    seats: Seats | None,
) -> None:
    """Until cancelled: give every connection to ``admit``, which owns its seat from then on."""
    loop = asyncio.get_running_loop()
    outages = Outages(clock)
    while True:
        try:
            sock, _ = await loop.sock_accept(listening)
        except OSError as error:
            if error.errno == errno.ECONNABORTED:  # it has left the queue already
                continue
            reason = error.strerror or error
            outages.fails(log, _SYSTEM, "accepting pauses server=%s reason=%s", server, reason)
            await clock.sleep(_RETRY_S)  # too many open files: the loop must not spin
            continue
        outages.works(_SYSTEM)
        if seats is not None:
            text = (
                "accepting pauses server=%s reason=there are %d connections, and may not be more "
                "(maxConnections, ulimit -n)"
            )
            try:
                await seats.wait_for_one(
                    clock, partial(outages.fails, log, _SEATS, text, server, seats.taken)
                )
            except asyncio.CancelledError:
                sock.close()
                raise
            outages.works(_SEATS)
        admit(sock)


def listening_socket(host: str, port: int, backlog: int, *, port_property: str) -> socket.socket:
    """All interfaces, IPv6 and IPv4 on one socket, unless a host is named. Raises
    ``AddressInUseError`` when the port is taken or not allowed."""
    if host and not is_host(host):
        raise AddressInUseError(f"cannot listen on port {port} of {host}: no address and no name")
    try:
        if host:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            sock = socket.create_server((host, port), family=family, backlog=backlog)
        elif socket.has_dualstack_ipv6():
            sock = socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
            )
        else:
            sock = socket.create_server(("", port), backlog=backlog)
    except OSError as error:
        where = f"port {port}" + (f" of {host}" if host else "")
        if error.errno == errno.EADDRINUSE:
            raise AddressInUseError(
                f"{where} is in use; stop the other process or set {port_property}"
            ) from None
        raise AddressInUseError(f"cannot listen on {where}: {error.strerror or error}") from None
    sock.setblocking(False)
    return sock


def check_bindable(name: str, host: str, port: int) -> None:
    """Whether ``listening_socket`` would work now; nobody can connect meanwhile. ``name``: of the
    property that says so. Blocks where the host is a name. Raises ``AddressInUseError``."""
    what = f"{name}={port or host} cannot be listened on" + (f" at {host}" if port and host else "")
    if host and not is_host(host):
        raise AddressInUseError(f"{what}: no address and no name")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise AddressInUseError(f"{what}: {error.strerror or error}") from None
