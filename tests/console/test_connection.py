"""A seat is not held for ever by who asks and does not read; who reads slowly keeps it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import trustme

pytest.importorskip("uvicorn")

import uvicorn
from uvicorn.server import ServerState

from aiorocketmq.console import connection
from aiorocketmq.console.connection import ConsoleConnection
from aiorocketmq.daemon.event_loop import new_event_loop

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 1.0
PAGE: Final = b"x" * 4_000_000
"""More than a kernel takes for a peer that does not read."""
LOOPS: Final = (asyncio.new_event_loop, new_event_loop)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """A page, and ``/live``: parts without an end."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await receive()  # the request itself
    gone = asyncio.ensure_future(receive())
    while scope["path"] == "/live" and not gone.done():
        await send({"type": "http.response.body", "body": b"x" * 20_000, "more_body": True})
        await asyncio.sleep(0)
    gone.cancel()
    await send({"type": "http.response.body", "body": PAGE})


def run(test: Coroutine[Any, Any, None], loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test, 60))


@asynccontextmanager
async def served(tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, ServerState]]:
    """The port, and who is connected."""
    config, state = uvicorn.Config(app, log_config=None), ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: ConsoleConnection(config, state, {}), HOST, 0, ssl=tls
    )
    try:
        yield server.sockets[0].getsockname()[1], state
    finally:
        server.close()
        for each in list(state.connections):
            each.transport.abort()
        while state.connections or state.tasks:
            await asyncio.sleep(0.01)


def ask(port: int, path: str, times: int = 1, trust: ssl.SSLContext | None = None) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(30)
    peer.connect((HOST, port))
    if trust is not None:
        peer = trust.wrap_socket(peer, server_hostname=HOST)
    peer.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * times)
    return peer


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("tls", [False, True])
def test_who_does_not_read_is_cut(
    tls: bool, loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", PATIENCE_S)
    context = trust = None
    if tls:
        authority = trustme.CA()
        context, trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
        authority.issue_cert(HOST).configure_cert(context)
        authority.configure_trust(trust)

    async def test() -> None:
        async with served(context) as (port, state):
            peers = [
                await asyncio.to_thread(ask, port, path, times, trust)
                for path, times in (("/", 1), ("/", 2), ("/", 20), ("/live", 1))
            ]
            while not state.total_requests:  # the whole of one answer waits to be sent
                await asyncio.sleep(0.01)
            async with asyncio.timeout(20):
                while state.connections:
                    await asyncio.sleep(0.01)
            for peer in peers:
                peer.close()

    run(test(), loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("path", ["/", "/live"])
def test_who_reads_slowly_is_not(
    path: str, loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", PATIENCE_S)

    async def test() -> None:
        async with served() as (port, state):
            peer = await asyncio.to_thread(ask, port, path)
            came = 0
            while came < 750_000:  # for many times as long as anybody is waited for
                part = await asyncio.to_thread(peer.recv, 8 * 1024)
                assert state.connections, f"cut after {came} bytes"
                came += len(part)
                await asyncio.sleep(0.05)
            peer.close()

    run(test(), loop)
