"""Links of ``benchmarks.raft_faults`` do what the campaign believes that they do."""

from __future__ import annotations

import asyncio
import random
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable

import pytest

from benchmarks.raft_group.links import HOST, Links

from .cluster import asynchronous

NAMES = ("a", "b", "c")


class Wire:
    """A connection of a's to b, through the proxy. ``there`` echoes in upper case what comes."""

    def __init__(self, links: Links, reader: StreamReader, writer: StreamWriter) -> None:
        self.links = links
        self.arrived: list[bytes] = []
        """At b."""
        self.reader = reader
        self._writer = writer

    def say(self, line: bytes) -> None:
        self._writer.write(line + b"\n")

    async def hear(self) -> bytes:
        async with asyncio.timeout(10):
            return (await self.reader.readline()).rstrip()

    async def silent(self) -> bool:
        """Nothing comes within a tenth of a second, which is long on a loopback."""
        try:
            async with asyncio.timeout(0.1):
                await self.reader.read(1)
        except TimeoutError:
            return True
        return False


def wired(test: Callable[[Wire], Awaitable[None]]) -> None:
    async def main() -> None:
        wire: Wire | None = None
        ended = asyncio.Event()

        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            assert wire is not None
            while line := await reader.readline():
                wire.arrived.append(line.rstrip())
                writer.write(line.upper())
            writer.close()
            ended.set()

        server = await asyncio.start_server(serve, HOST, 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            async with Links(dict.fromkeys(NAMES, port), random.Random(1)) as links:
                found = re.search(r"b-[\d.]+:(\d+)", links.peers_of("a"))
                assert found is not None
                reader, writer = await asyncio.open_connection(HOST, int(found[1]))
                wire = Wire(links, reader, writer)
                wire.say(b"first")
                assert await wire.hear() == b"FIRST"
                await test(wire)
                writer.close()
            async with asyncio.timeout(10):
                await ended.wait()
        await asyncio.sleep(0)

    asynchronous(main)()


def test_every_member_has_peers_of_its_own() -> None:
    async def main() -> None:
        ports = dict(zip(NAMES, (1, 2, 3), strict=True))
        async with Links(ports, random.Random(1)) as links:
            lists = {name: links.peers_of(name).split(";") for name in NAMES}
        for name, entries in lists.items():
            assert [entry.partition("-")[0] for entry in entries] == list(NAMES)
            assert f"{name}-{HOST}:{ports[name]}" in entries
        assert len({entry for entries in lists.values() for entry in entries}) == 9

    asynchronous(main)()


@pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
def test_a_way_that_is_cut(way: tuple[str, str]) -> None:
    async def test(wire: Wire) -> None:
        wire.links.cut([way])
        wire.say(b"second")
        assert await wire.silent()
        assert (b"second" in wire.arrived) is (way == ("b", "a"))
        wire.links.heal()
        assert await wire.hear() == b"SECOND", "it was only held"

    wired(test)


def test_other_ways_are_not() -> None:
    async def test(wire: Wire) -> None:
        wire.links.cut([("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")])
        wire.say(b"second")
        assert await wire.hear() == b"SECOND"

    wired(test)


def test_delays_keep_the_order() -> None:
    async def test(wire: Wire) -> None:
        loop = asyncio.get_running_loop()
        wire.links.delay([("a", "b")], 0.05, 0.2)
        began = loop.time()
        for number in range(20):
            wire.say(b"n%d" % number)
            await asyncio.sleep(0)
        assert [await wire.hear() for _ in range(20)] == [b"N%d" % number for number in range(20)]
        assert loop.time() - began >= 0.05

    wired(test)
