"""The clients of this process, one for each cluster: made for whoever asks first, closed when
nobody has used one for a while.

Spark keeps its Python processes from task to task, and tells nobody in them that a query has ended.
A client that went on for as long as they do would send heartbeats and ask for routes for ever, and
say in the log that nobody answers once the cluster is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ...client.cluster.instance import ClientInstance
from ...remoting.services import TaskSet
from .connection_options import ConnectionOptions

__all__ = ["IDLE_S", "Client", "SharedClients"]

IDLE_S: Final = 30.0
"""A client is closed when it was not used for so long, and before it was not for twice that."""


class Client:
    """One of them."""

    def __init__(self, instance: ClientInstance) -> None:
        self.instance: Final = instance
        self.users: int = 1
        self.unused_since: float = 0.0


class SharedClients:
    """All of them. Its methods belong to one event loop."""

    def __init__(self, start: Callable[[ConnectionOptions], Awaitable[ClientInstance]]) -> None:
        """``start`` makes a running client."""
        self._start = start
        self._clients: dict[ConnectionOptions, Client] = {}
        self._starting = asyncio.Lock()
        self._tasks = TaskSet("shared clients")

    async def take(self, connection: ConnectionOptions) -> Client:
        """Stays open until ``give_back``, at least. Raises ``RemotingError``, ``TlsError``."""
        async with self._starting:
            if (client := self._clients.get(connection)) is not None:
                client.users += 1
                return client
            client = self._clients[connection] = Client(await self._start(connection))
            self._tasks.spawn(self._close_when_idle(connection, client), name="idle client")
            return client

    def give_back(self, client: Client) -> None:
        """Whoever took it has done with it."""
        client.users -= 1
        client.unused_since = client.instance.clock.monotonic()

    async def close(self, connection: ConnectionOptions) -> None:
        """Now, unless somebody uses it."""
        client = self._clients.get(connection)
        if client is not None and not client.users:
            await self._close(connection)

    async def close_all(self) -> None:
        """Whoever uses them."""
        await self._tasks.close()
        for connection in list(self._clients):
            await self._close(connection)

    async def _close_when_idle(self, connection: ConnectionOptions, client: Client) -> None:
        clock = client.instance.clock
        while self._clients.get(connection) is client:
            await clock.sleep(IDLE_S)
            if not client.users and clock.monotonic() - client.unused_since >= IDLE_S:
                await self.close(connection)

    async def _close(self, connection: ConnectionOptions) -> None:
        await self._clients.pop(connection).instance.stop()
