"""Where daemons run, and what can be done to the ways between them.

``Namespaces`` where they are allowed (root): a host of its own for each, every way can be lost or
slow by itself. Else ``Loopback``: ways between brokers go through proxies, those of clients and of
the name server cannot be cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, Protocol

from examples.demo.daemons import free_port
from examples.demo.errors import DemoError

from ..namespaces import Network as Hosts
from ..namespaces import enter, prefix
from ..raft_group.links import HOST, Links, Way

CLIENT: Final = "client"
NAMESRV: Final = "namesrv"
BROKERS: Final = ("b0", "b1", "b2")
INNER: Final = 5
"""So far above a broker's port lies the one for other brokers."""
_BITS_PER_S: Final = 200_000
"""Of a slow way: less than the messages of a campaign need."""
_LATE_S: Final = (0.05, 0.4)
_PORT: Final = 10911
_NAMESRV_PORT: Final = 9876


class Host(NamedTuple):
    """Where a daemon runs."""

    address: str
    port: int
    prefix: tuple[str, ...] = ()


class Network(Protocol):
    """All hosts, and the ways between them."""

    kind: str

    @property
    def ways(self) -> Sequence[Way]:
        """What can be cut and be slow."""

    def host(self, name: str) -> Host:
        """Of the name server, or of a broker."""

    def inner(self, one: str, other: str) -> str:
        """``host:port`` where ``one`` finds the inner port of ``other``, which may be itself."""

    async def cut(self, ways: Sequence[Way]) -> None:
        """What goes these ways is lost or held, and nobody is told."""

    async def slow(self, ways: Sequence[Way]) -> None:
        """It takes its time."""

    async def heal(self) -> None:
        """All ways are as at the beginning."""


class Namespaces:
    """Of this process's clients, too: it is on the host ``client`` from then on."""

    kind = "network namespaces"

    def __init__(self, hosts: Hosts) -> None:
        self.ways = list(itertools.permutations(hosts.hosts, 2))
        self._hosts = hosts
        self._closed: set[Way] = set()
        self._slow: set[Way] = set()

    def host(self, name: str) -> Host:
        port = _NAMESRV_PORT if name == NAMESRV else _PORT
        return Host(self._hosts.hosts[name], port, prefix(name))

    def inner(self, _one: str, other: str) -> str:
        return f"{self._hosts.hosts[other]}:{_PORT + INNER}"

    async def cut(self, ways: Sequence[Way]) -> None:
        def close() -> None:
            for way in ways:
                self._closed.add(way)
                self._hosts.close_way(*way)

        await asyncio.to_thread(close)

    async def slow(self, ways: Sequence[Way]) -> None:
        def slow() -> None:
            for way in ways:
                self._slow.add(way)
                self._hosts.slow_way(*way, _BITS_PER_S)

        await asyncio.to_thread(slow)

    async def heal(self) -> None:
        def heal() -> None:
            while self._closed:
                self._hosts.open_way(*self._closed.pop())
            while self._slow:
                self._hosts.quick_way(*self._slow.pop())

        await asyncio.to_thread(heal)


class Loopback:
    """Without any right."""

    kind = "loopback, proxies between brokers"

    def __init__(self, ports: dict[str, int], links: Links) -> None:
        self._ports = ports
        self._links = links
        self.ways = links.ways

    def host(self, name: str) -> Host:
        return Host(HOST, self._ports[name])

    def inner(self, one: str, other: str) -> str:
        return self._links.address(one, other)

    async def cut(self, ways: Sequence[Way]) -> None:
        self._links.cut(ways)

    async def slow(self, ways: Sequence[Way]) -> None:
        self._links.delay(ways, *_LATE_S)

    async def heal(self) -> None:
        self._links.heal()


@contextlib.asynccontextmanager
async def network(rng: random.Random) -> AsyncIterator[Network]:
    """The best one that is allowed. Whatever happens, nothing of it stays. Raises ``DemoError``."""
    with contextlib.ExitStack() as undo:
        if (hosts := _hosts(undo)) is not None:
            yield Namespaces(hosts)
            return
    ports = {name: free_port(-2, 1, INNER) for name in BROKERS}
    ports[NAMESRV] = free_port()
    async with Links({name: ports[name] + INNER for name in BROKERS}, rng) as links:
        yield Loopback(ports, links)


def _hosts(undo: contextlib.ExitStack) -> Hosts | None:
    """This process is on that of the clients; None where it must not be."""
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
        return None
    names = (CLIENT, NAMESRV, *BROKERS)
    hosts = Hosts({name: f"10.77.7.{number}" for number, name in enumerate(names, 1)})
    with contextlib.ExitStack() as begun:
        try:
            begun.enter_context(hosts.built())
            enter(CLIENT)
        except DemoError:
            return None
        undo.push(begun.pop_all())
    return hosts
