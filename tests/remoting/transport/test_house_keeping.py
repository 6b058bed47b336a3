"""A port looks after its connections once a second, and after nobody while there are none."""

from __future__ import annotations

import asyncio

from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.transport.config import ServerSettings
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.server import RemotingServer

from ...sim import ManualClock, SimTransport, turns


def test_a_port_without_connections_wakes_nobody() -> None:
    async def main() -> None:
        clock = ManualClock()
        server = RemotingServer(Dispatcher({}), ServerSettings(port=0), clock=clock)
        keeping = asyncio.create_task(server._house_keeping())
        await turns()
        assert clock.next_due is None
        for _ in range(2):
            transport, connection = SimTransport(), Connection(server)
            transport.protocol = connection
            connection.connection_made(transport)
            await turns()
            assert clock.next_due == clock.monotonic() + 1
            seconds = 0
            while server.connections and seconds < 1000:
                clock.advance(1)
                await turns()
                seconds += 1
            assert connection.close_reason == "idle"
            clock.advance(1)
            await turns()
            assert clock.next_due is None
        keeping.cancel()

    asyncio.run(main())
