"""The console, put together: what lets people in, what asks the cluster, the pages; and its life
as a server.

``serve`` runs until it is cancelled. Whatever happens here, the cluster only sees a client go.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from ..daemon.local_address import local_address
from ..remoting.clock import Clock
from ..remoting.errors import AddressInUseError
from ..remoting.system_clock import SystemClock
from ..remoting.transport.address import is_host
from ..remoting.transport.config import ALL_INTERFACES
from .audit import AuditLog
from .connection import ConsoleConnection
from .door import Door
from .live import Live
from .pages import accounts, dead_letters, groups, messages, overview, sending, sign_in, topics
from .rendering import FOLDER, Templates, environment
from .security import Gate
from .sessions import Sessions
from .settings import ConsoleSettings
from .site import MOST_BODY_BYTES, Site
from .views import Views

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
TICK_S: Final = 1.0
_AREAS: Final = (
    sign_in, overview, topics, groups, messages, dead_letters, sending, accounts,
)  # fmt: skip


class Console:
    """One console. ``app`` is its ASGI application; ``close`` ends what it has open."""

    def __init__(self, settings: ConsoleSettings, port: int, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self.views: Final = Views(settings, clock)
        self.live: Final = Live(clock)
        self.sessions: Final = Sessions(clock)
        hosts = hosts_of(settings, port)
        self._door: Final = Door(settings, self.sessions, self.views)
        self._door.cookie = f"mqconsole-{port}"
        self.audit: Final = AuditLog(settings.audit_file, clock)
        site = Site(self._door, self.live, Templates(environment()), self.audit)
        for area in _AREAS:
            area.add_to(site)
        static = Mount("/static", StaticFiles(directory=FOLDER / "static"))
        self.app: Final = Starlette(
            routes=[*site.routes, static],
            middleware=[Middleware(Gate, hosts=hosts)],
            max_body_size=MOST_BODY_BYTES,
        )

    async def close(self) -> None:
        await self.live.close()
        await self._door.close()
        await self.views.close()
        self.audit.close()


def hosts_of(settings: ConsoleSettings, port: int) -> dict[str, str]:
    """What a request may call this console -> ``http`` or ``https``, which a proxy in front of it
    may speak where it does not itself."""
    names = list(LOOPBACK_NAMES)
    if settings.host in ALL_INTERFACES:
        names += [local_address(), socket.gethostname()]
    else:
        names.append(f"[{settings.host}]" if ":" in settings.host else settings.host)
    usual = port == (443 if settings.certificate else 80)
    found = [f"{name}:{port}" for name in names] + (names if usual else [])
    hosts = {name.lower(): settings.scheme for name in found}
    for name in settings.public_hosts:
        scheme, there, host = name.lower().rpartition("://")
        hosts[host] = scheme if there else settings.scheme
    return hosts


def bind(settings: ConsoleSettings) -> socket.socket:
    """Raises ``AddressInUseError``."""
    if settings.host and not is_host(settings.host):
        raise AddressInUseError(f"cannot listen on {settings.host}: it is no address and no name")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise AddressInUseError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another "
            "port (0: any)"
        ) from None
    return listener


async def serve(settings: ConsoleSettings, ready: Callable[[str], object]) -> None:
    """Serve until cancelled. ``ready`` is called with the address for a browser. Raises
    ``AddressInUseError``."""
    with bind(settings) as listener:
        port = listener.getsockname()[1]
        console = Console(settings, port)
        server = _Server(
            uvicorn.Config(
                console.app,
                http=ConsoleConnection,
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=1,
                limit_concurrency=500,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.key,
            )
        )
        shown = "localhost" if settings.host in (*ALL_INTERFACES, "127.0.0.1") else settings.host
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="console")
        begun = asyncio.create_task(server.begun.wait())
        try:
            await asyncio.wait((serving, begun), return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                ready(f"{settings.scheme}://{shown}:{port}/")
            await asyncio.shield(serving)
        finally:
            server.end()
            await console.close()
            begun.cancel()
            await asyncio.wait((serving,))


class _Server(uvicorn.Server):
    """Signals are the program's: it cancels ``serve``, which calls ``end``."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()
        self._ending = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()

    async def main_loop(self) -> None:
        """A turn a second, which the date in the headers needs. The original's look ten times as
        often whether it is to end: 0.1 % of a core for nothing."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_S)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
