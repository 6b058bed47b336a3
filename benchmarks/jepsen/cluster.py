"""A name server and one to three brokers, each a process on a host and a disk of its own."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiorocketmq import Admin
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from examples.demo.errors import DemoError

from ..histories.events import Event, Leads, Serves
from ..raft_group.disks import Disk
from ..raft_group.log_files import LogFiles
from ..raft_group.members import SETTINGS
from ..soak_replication import Daemon
from .network import BROKERS, INNER, NAMESRV, Network

NAME: Final = "jepsen"
"""Of the brokers: all are replicas of each other."""
PATIENCE_S: Final = 60.0
_WORDS: Final = re.compile(
    r"^(\S+) .* (?:member is (\w+) term=(\d+) |this broker is (SYNC_MASTER) |store opened)",
    re.MULTILINE,
)


class Shape(NamedTuple):
    """A kind of cluster. ``settings``: of each broker."""

    name: str
    what: str
    settings: Callable[[Network], Sequence[Mapping[str, Any]]]


def _one(_network: Network) -> Sequence[Mapping[str, Any]]:
    return [{"flushDiskType": "SYNC_FLUSH"}]


def _pair(network: Network) -> Sequence[Mapping[str, Any]]:
    master, slave = BROKERS[:2]
    return [
        {"brokerRole": "SYNC_MASTER", "haListenPort": network.host(master).port + INNER},
        {
            "brokerRole": "SLAVE",
            "brokerId": 1,
            "haMasterAddress": network.inner(slave, master),
            "haListenPort": network.host(slave).port + INNER,
        },
    ]


def _group(network: Network) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "enableDLegerCommitLog": True,
            "dLegerGroup": NAME,
            "dLegerSelfId": name,
            "dLegerPeers": ";".join(f"{each}-{network.inner(name, each)}" for each in BROKERS),
        }
        for name in BROKERS
    ]


SHAPES: Final = (
    Shape("one", "one broker, SYNC_FLUSH", _one),
    Shape("pair", "a SYNC_MASTER and its slave", _pair),
    Shape("group", "three brokers that elect their master (DLedger)", _group),
)


class Node(Daemon):
    """A broker."""

    def __init__(self, name: str, folder: Path, network: Network, settings: Any) -> None:
        host = network.host(name)
        self.name = name
        self.address = f"{host.address}:{host.port}"
        self.disk = Disk(folder / "store")
        self.log_files = LogFiles(self.disk.path / f"dledger-{name}" / "data")
        super().__init__(
            folder,
            "aiorocketmq.broker",
            host.prefix,
            brokerName=NAME,
            listenPort=host.port,
            bindAddress=host.address,
            brokerIP1=host.address,
            brokerIP2=host.address,
            storePathRootDir=self.disk.path,
            **SETTINGS,
            **settings,
        )

    def words(self, at: Callable[[float], float]) -> Iterator[Event]:
        """What its log says of its part in the group; ``at``: from the system's time."""
        for found in _WORDS.finditer(self.log.read_text(errors="replace")):
            when = at(datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp())
            if found[4]:
                yield Serves(at=when, node=self.name)
            elif found[2] == "LEADER":
                yield Leads(at=when, node=self.name, term=int(found[3]))
            else:
                yield Serves(at=when, node=self.name, ends=True)  # so does a new process


class Cluster:
    """All daemons. ``async with`` starts them, and ends them whatever happens."""

    def __init__(self, shape: Shape, folder: Path, network: Network, *, keep: bool = False) -> None:
        """``keep``: what was on the disks."""
        self.shape = shape
        self.network = network
        self.elects = shape.name == "group"
        self._keep = keep
        host = network.host(NAMESRV)
        self.namesrv = f"{host.address}:{host.port}"
        self.name_server = Daemon(
            folder / NAMESRV,
            "aiorocketmq.namesrv",
            host.prefix,
            listenPort=host.port,
            bindAddress=host.address,
        )
        self.nodes = {
            name: Node(name, folder / name, network, {"namesrvAddr": self.namesrv, **settings})
            for name, settings in zip(BROKERS, shape.settings(network), strict=False)
        }

    async def __aenter__(self) -> Cluster:
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self._end)
            await self.name_server.start()
            await asyncio.gather(*(node.start() for node in self.nodes.values()))
            self._undo = undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._undo.aclose()

    async def _end(self) -> None:
        for daemon in self.daemons.values():
            daemon.go_on()
            await daemon.end(signal.SIGTERM)
        for node in self.nodes.values():
            node.disk.close(keep=self._keep)

    @property
    def daemons(self) -> Mapping[str, Daemon]:
        return {NAMESRV: self.name_server, **self.nodes}

    async def master(self) -> Node:
        """Whom the name server has as such; its first broker where none is elected. Raises
        ``DemoError``."""
        if not self.elects:
            return self.nodes[BROKERS[0]]
        deadline = time.monotonic() + PATIENCE_S
        async with Admin(namesrv=self.namesrv) as admin:
            while time.monotonic() < deadline:
                with contextlib.suppress(RocketMQError):
                    broker = (await admin.cluster_info()).broker_addr_table.get(NAME)
                    address = broker.broker_addrs.get(0) if broker is not None else None
                    for node in self.nodes.values():
                        if node.address == address:
                            return node
                await asyncio.sleep(0.05)
        raise DemoError(f"the group has no master within {PATIENCE_S:.0f} s")

    async def create_topic(self, topic: str, queues: int) -> None:
        """The first master may be deposed just then. Raises ``DemoError``, ``RocketMQError``."""
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            master = await self.master()
            try:
                async with Admin(namesrv=self.namesrv) as admin:
                    return await admin.create_topic_on(master.address, config)
            except RocketMQError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)

    def words(self, at: Callable[[float], float]) -> list[Event]:
        """Who leads and serves, as far as the daemons know."""
        if not self.elects:
            return [Serves(at=0.0, node=BROKERS[0])]
        return [word for node in self.nodes.values() for word in node.words(at)]
