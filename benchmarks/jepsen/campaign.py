"""A run on one cluster: load, faults one after the other, healing, then the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiorocketmq import Admin
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from examples.demo.errors import DemoError

from ..histories.events import Event, Serves
from ..histories.judge import Violation, compare_logs, judge
from ..raft_group.node_reader import Stored
from ..raft_group.recorder import Recorder
from .clients import QUEUES, Asked, Clients
from .cluster import NAME, PATIENCE_S, Cluster, Shape
from .faults import Fault, Scene, deck, possible
from .figures import Happened, figures
from .network import Network

_TOPIC: Final = "Jepsen"
_CALM_S: Final = 1.0, 3.0
"""Load between two faults."""


class Options(NamedTuple):
    """``seconds``: of load, for each cluster; ``only``: kinds of faults."""

    seconds: float
    seed: int
    only: Sequence[str] = ()
    keep: bool = False


class Campaign:
    """What a run of any kind has. What came of it is in its attributes."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.problems: list[str] = []
        self.violations: list[Violation] = []
        self.happened: list[Happened] = []
        self.stored: Stored = {}
        self._end = 0.0
        """Of the load."""
        self._options = options
        self._journal = (folder / "history.jsonl").open("wb")
        self.recorder = Recorder(journal=self._journal)
        self.clients: Clients | None = None
        self._words: list[Event] = []

    def figures(self) -> dict[str, Any]:
        """All that there is to say."""
        clients = self.clients
        contents = [content for them in self.stored.values() for _, content in them]
        found = figures(self.recorder.events, self.happened, self.violations, self._end)
        return {
            "problems": self.problems,
            "stored": len(contents),
            "stored_again": len(contents) - len(set(contents)),
            "handed_out": clients.handed_out if clients is not None else 0,
            "not_acknowledged": dict(clients.why.most_common()) if clients is not None else {},
            **found,
        }

    async def _pause(self, clients: Clients) -> None:
        """The load ends."""
        await clients.pause()
        self._end = self.recorder.now

    def _close(self) -> None:
        self._journal.close()

    async def _judge(self, clients: Clients, seen: Sequence[Event], stored: Stored) -> None:
        """``seen``: until everything was read. A message whose sender has long given up may be
        stored, and handed out, while it is."""
        self.stored = stored
        self.violations += await asyncio.to_thread(judge, [*seen, *self._words], stored)
        if missing := await clients.until_consumed(stored, PATIENCE_S):
            self.problems.append(f"the push consumer has not been handed {missing:,} messages")
        self.problems += clients.failures()


class Local(Campaign):
    """On daemons of its own, with faults."""

    def __init__(self, shape: Shape, network: Network, folder: Path, options: Options) -> None:
        super().__init__(folder, options)
        self._rng = random.Random(f"{options.seed} {shape.name}")
        self._network = network
        self._cluster = Cluster(shape, folder, network, keep=options.keep)

    async def run(self) -> None:
        """All of it. What goes wrong is a problem; what was seen is kept."""
        cluster = self._cluster
        try:
            async with AsyncExitStack() as undo:
                await undo.enter_async_context(cluster)
                await cluster.create_topic(_TOPIC, QUEUES)
                asked = [Asked(each.name, NAME, each.address) for each in cluster.nodes.values()]
                self.clients = Clients(
                    cluster.namesrv, _TOPIC, asked, self.recorder, elects=cluster.elects
                )
                clients = await undo.enter_async_context(self.clients)
                clients.send()
                try:
                    await clients.until_acknowledged(PATIENCE_S)
                    await self._faults(clients)
                except (DemoError, RocketMQError) as error:
                    self.problems.append(str(error))
                finally:
                    await self._network.heal()
                await self._pause(clients)
                await self._verdict(clients)
        except (DemoError, RocketMQError) as error:
            self.problems.append(str(error))
        finally:
            for name, daemon in cluster.daemons.items():
                self.problems += [f"log of {name}: {line}" for line in daemon.bad_lines()]
            self._close()

    async def _faults(self, clients: Clients) -> None:
        faults = [
            each
            for each in possible(self._cluster)
            if not self._options.only or each.kind in self._options.only
        ]
        deadline = time.monotonic() + self._options.seconds
        for fault in deck(faults, self._rng):
            await asyncio.sleep(self._rng.uniform(*_CALM_S))
            if time.monotonic() > deadline:
                return
            await self._round(fault, clients)

    async def _round(self, fault: Fault, clients: Clients) -> None:
        notes: list[str] = []
        began = self.recorder.now
        try:
            await fault.happen(Scene(self._cluster, self._rng, notes.append, self.recorder))
        finally:
            healed = self.recorder.now
            self.happened.append(Happened(fault.kind, "; ".join(notes), began, healed))
        await clients.until_acknowledged(PATIENCE_S)
        print(
            f"{began:>7.1f} {fault.kind:<22} healed after {healed - began:5.1f} s, again after "
            f"{self.recorder.now - healed:5.2f} s  {'; '.join(notes)}",
            flush=True,
        )

    async def _verdict(self, clients: Clients) -> None:
        """While nobody sends."""
        master = await self._cluster.master()
        seen = [*self.recorder.events]
        stored = await self._until_the_same(clients, master.name)
        self._words = self._cluster.words(self.recorder.at)
        if self._cluster.elects:
            logs = {n: e.log_files.log(e.log_files.end()) for n, e in self._cluster.nodes.items()}
            self.violations += await asyncio.to_thread(compare_logs, logs)
        await self._judge(clients, seen, stored)

    async def _until_the_same(self, clients: Clients, master: str) -> Stored:
        """What all brokers have."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            stored = await clients.stored(master)
            different = [
                name
                for name in self._cluster.nodes
                if name != master and await clients.stored(name) != stored
            ]
            if not different:
                return stored
            if time.monotonic() > deadline:
                self.problems.append(f"{different} do not have the messages of {master}")
                return stored
            await asyncio.sleep(0.5)


class Elsewhere(Campaign):
    """On a cluster that is there: load, and whatever happens to it meanwhile."""

    def __init__(self, namesrv: str, folder: Path, options: Options) -> None:
        super().__init__(folder, options)
        self._namesrv = namesrv
        self._topic = f"{_TOPIC}-{options.seed}-{int(time.time())}"

    async def run(self) -> None:
        """All of it. Raises ``RocketMQError`` where the cluster cannot be used."""
        async with Admin(namesrv=self._namesrv) as admin:
            asked = await self._brokers(admin)
            masters = [each for each in asked if each.is_master]
            config = TopicConfig(
                topic_name=self._topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES
            )
            for each in masters:
                await admin.create_topic_on(each.address, config)
            try:
                await self._load(asked, masters)
            finally:
                self._close()
                if not self._options.keep:
                    for cluster in (await admin.cluster_info()).cluster_addr_table:
                        await admin.delete_topic(self._topic, cluster)

    async def _brokers(self, admin: Admin) -> list[Asked]:
        brokers = (await admin.cluster_info()).broker_addr_table
        return [
            Asked(f"{name}-{number}", name, address, number == 0)
            for name, broker in sorted(brokers.items())
            for number, address in sorted(broker.broker_addrs.items())
        ]

    async def _load(self, asked: Sequence[Asked], masters: Sequence[Asked]) -> None:
        self._words = [Serves(at=0.0, node=each.name) for each in masters]
        self.clients = Clients(self._namesrv, self._topic, asked, self.recorder, elects=True)
        async with self.clients as clients:
            clients.send()
            await clients.until_acknowledged(PATIENCE_S)
            await asyncio.sleep(self._options.seconds)
            await self._pause(clients)
            seen, stored = [*self.recorder.events], Stored()
            for each in masters:
                stored |= await clients.stored(each.name)
            await self._judge(clients, seen, stored)
