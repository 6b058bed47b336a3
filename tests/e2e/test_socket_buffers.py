"""Buffers of real sockets."""

from __future__ import annotations

import asyncio
import socket

from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.config import ClientSettings, ServerSettings
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.server import RemotingServer
from aiorocketmq.remoting.transport.socket_buffers import SocketBuffers

from .cluster import HOST, asynchronous


def sizes(connection: Connection) -> tuple[int, int]:
    assert connection._transport is not None
    sock = connection._transport.get_extra_info("socket")
    send = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    return send, sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


@asynchronous
async def test_both_ends_have_the_buffers_that_were_asked_for() -> None:
    wanted = SocketBuffers(40_000, 50_000)
    server = RemotingServer(
        Dispatcher({}),
        ServerSettings(port=0, host=HOST, socket_buffers=wanted),
        clock=SystemClock(),
    )
    await server.listen()
    running = asyncio.ensure_future(server.run())
    try:
        async with (
            RemotingClient(ClientSettings(socket_buffers=SocketBuffers(60_000, 0))) as client,
            asyncio.timeout(10),
        ):
            connection = await client.connection(f"{HOST}:{server.port}")
            connection.send([b"\0\0"])  # the server looks at the first byte
            while not server.connections:
                await asyncio.sleep(0.01)
            doubled = 2  # Linux: for its own book-keeping
            assert sizes(next(iter(server.connections))) == (doubled * 40_000, doubled * 50_000)
            assert sizes(connection)[0] == doubled * 60_000
    finally:
        running.cancel()
        await asyncio.wait([running])
