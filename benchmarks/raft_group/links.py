"""The network between the members of a group: a small TCP proxy for each ordered pair.

A member is told the proxies' addresses as those of its peers, so each has a list of its own. Both
ways of a connection are a direction each: bytes from a to b are late or held, whoever has opened
the connection. What is held comes when the link is whole again, as TCP does it, unless an end has
given up by then. Connections that begin while a way is held are accepted and get nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

HOST: Final = "127.0.0.1"
_CHUNK: Final = 1 << 16
_UNDER_WAY: Final = 64
"""Chunks that a way holds before it stops reading."""

Way = tuple[str, str]
"""From whom, to whom."""


class Links:
    """All links of a group. Use as ``async with``."""

    def __init__(self, ports: Mapping[str, int], rng: random.Random) -> None:
        """``ports``: where the members themselves listen."""
        self._ports = dict(ports)
        self._rng = rng
        self._servers: dict[Way, asyncio.Server] = {}
        self._whole: dict[Way, asyncio.Event] = {}
        self._delays: dict[Way, tuple[float, float]] = {}
        self._connections: set[asyncio.Task[None]] = set()
        for way in itertools.permutations(ports, 2):
            self._whole[way] = event = asyncio.Event()
            event.set()

    async def __aenter__(self) -> Links:
        for way in self._whole:
            self._servers[way] = await asyncio.start_server(self._accept(way), HOST, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def peers_of(self, member: str) -> str:
        """``dLegerPeers`` for it. Its own entry has the port that it listens at."""
        return ";".join(f"{other}-{self.address(member, other)}" for other in self._ports)

    def address(self, member: str, other: str) -> str:
        """Of ``other``, for ``member``."""
        port = self._ports[other]
        if other != member:
            port = self._servers[member, other].sockets[0].getsockname()[1]
        return f"{HOST}:{port}"

    # -- faults

    def cut(self, ways: Iterable[Way]) -> None:
        """Nothing goes these ways any more; nobody is told."""
        for way in ways:
            self._whole[way].clear()

    def delay(self, ways: Iterable[Way], least_s: float, most_s: float) -> None:
        """What goes these ways takes so long, each chunk another time; their order stays."""
        self._delays.update((way, (least_s, most_s)) for way in ways)

    def heal(self) -> None:
        """All links are as at the beginning."""
        self._delays.clear()
        for event in self._whole.values():
            event.set()

    def around(self, member: str) -> list[Way]:
        """All ways from it and to it."""
        return [way for way in self._whole if member in way]

    def out_of(self, member: str) -> list[Way]:
        return [way for way in self._whole if way[0] == member]

    def into(self, member: str) -> list[Way]:
        return [way for way in self._whole if way[1] == member]

    @property
    def ways(self) -> list[Way]:
        return list(self._whole)

    # -- connections

    def _accept(self, way: Way) -> Callable[[StreamReader, StreamWriter], Awaitable[None]]:
        async def connected(reader: StreamReader, writer: StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                with contextlib.suppress(OSError):
                    await self._serve(way, reader, writer)
            except asyncio.CancelledError:
                pass  # the campaign is over; the server's own callback would call it an error
            finally:
                self._connections.discard(task)
                writer.transport.abort()

        return connected

    async def _serve(self, way: Way, reader: StreamReader, writer: StreamWriter) -> None:
        one, other = way
        for each in ((one, other), (other, one)):
            await self._whole[each].wait()
        there, back = await asyncio.open_connection(HOST, self._ports[other])
        try:
            pumps = [
                asyncio.ensure_future(self._carry(reader, back, (one, other))),
                asyncio.ensure_future(self._carry(there, writer, (other, one))),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            back.transport.abort()

    async def _carry(self, source: StreamReader, sink: StreamWriter, way: Way) -> None:
        """Until one end closes: that, too, takes its time."""
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

        async def take() -> None:
            data = b"-"
            while data:
                try:
                    data = await source.read(_CHUNK)
                except ConnectionError:
                    data = b""
                await under_way.put((loop.time() + self._rng.uniform(*self._delay(way)), data))

        taking = asyncio.ensure_future(take())
        try:
            while True:
                due, data = await under_way.get()
                if (left := due - loop.time()) > 0:
                    await asyncio.sleep(left)
                await self._whole[way].wait()
                if not data:
                    return
                sink.write(data)
                await sink.drain()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    def _delay(self, way: Way) -> tuple[float, float]:
        return self._delays.get(way, (0.0, 0.0))
