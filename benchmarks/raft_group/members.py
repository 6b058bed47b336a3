"""A name server and a group of three brokers, each a process on its own port, disk and links."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from aiorocketmq import Admin
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from examples.demo.errors import DemoError

from ..histories.events import Leads
from ..soak_replication import Daemon
from .disks import Disk
from .links import HOST, Links
from .log_files import NOTHING, End, LogFiles

GROUP: Final = "raft"
NAMES: Final = ("n0", "n1", "n2")
PATIENCE_S: Final = 60.0
_LONG_ENOUGH_S: Final = 0.3
_LEADS: Final = re.compile(r" member is LEADER term=(\d+) ")
SETTINGS: Final[Mapping[str, Any]] = {
    "mappedFileSizeCommitLog": 256 << 10,
    "mappedFileSizeConsumeQueue": 20 * 2000,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
    "registerNameServerPeriod": 10_000,
    "waitTimeMillsInSendQueue": 10_000,
    "cleanFileForciblyEnable": False,
    "diskMaxUsedSpaceRatio": 99,
}


class Member(Daemon):
    """One broker of the group."""

    def __init__(self, name: str, folder: Path, ports: tuple[int, int], **settings: Any) -> None:
        """``ports``: of the broker, and of its Raft member."""
        self.name = name
        self.address = f"{HOST}:{ports[0]}"
        self.raft_port = ports[1]
        self.disk = Disk(folder / "store")
        self.log_files = LogFiles(self.disk.path / f"dledger-{name}" / "data")
        super().__init__(
            folder,
            "aiorocketmq.broker",
            brokerName=GROUP,
            listenPort=ports[0],
            bindAddress=HOST,
            brokerIP1=HOST,
            brokerIP2=HOST,
            storePathRootDir=self.disk.path,
            enableDLegerCommitLog=True,
            dLegerGroup=GROUP,
            dLegerSelfId=name,
            **SETTINGS,
            **settings,
        )

    def led(self) -> Iterator[Leads]:
        """The terms of which its log says that it is the leader. No time is told."""
        if self.log.exists():
            for found in _LEADS.finditer(self.log.read_text(errors="replace")):
                yield Leads(at=0.0, node=self.name, term=int(found[1]))


class Group:
    """All daemons. ``async with`` starts them, and ends them whatever happens."""

    def __init__(
        self, folder: Path, rng: random.Random, settings: Mapping[str, Any], *, keep: bool = False
    ) -> None:
        """``keep``: what was on the disks."""
        self._keep = keep
        self._agreed = NOTHING
        """Up to here all logs were the same."""
        ports = _free_ports(rng)
        self.namesrv: str = f"{HOST}:{ports[0]}"
        self.name_server = Daemon(
            folder / "namesrv", "aiorocketmq.namesrv", listenPort=ports[0], bindAddress=HOST
        )
        self.members: dict[str, Member] = {
            name: Member(
                name,
                folder / name,
                (ports[10 * number + 10], ports[10 * number + 15]),
                namesrvAddr=self.namesrv,
                **settings,
            )
            for number, name in enumerate(NAMES)
        }
        self.links = Links({name: each.raft_port for name, each in self.members.items()}, rng)

    async def __aenter__(self) -> Group:
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self._end)
            await undo.enter_async_context(self.links)
            await self.name_server.start()
            for name, member in self.members.items():
                member.set(dLegerPeers=self.links.peers_of(name))
            await asyncio.gather(*(member.start() for member in self.members.values()))
            self._undo = undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._undo.aclose()

    async def _end(self) -> None:
        for member in self.members.values():
            member.go_on()
            await member.end(signal.SIGTERM)
            member.disk.close(keep=self._keep)
        await self.name_server.end(signal.SIGTERM)

    @property
    def daemons(self) -> Mapping[str, Daemon]:
        return {"namesrv": self.name_server, **self.members}

    async def leader(self, patience_s: float = PATIENCE_S) -> Member:
        """Whom the name server has as the master. Raises ``DemoError``."""
        deadline = time.monotonic() + patience_s
        async with Admin(namesrv=self.namesrv) as admin:
            while time.monotonic() < deadline:
                with contextlib.suppress(RocketMQError):
                    broker = (await admin.cluster_info()).broker_addr_table.get(GROUP)
                    address = broker.broker_addrs.get(0) if broker is not None else None
                    for member in self.members.values():
                        if member.address == address:
                            return member
                await asyncio.sleep(0.05)
        raise DemoError(f"the group has no master within {patience_s:.0f} s")

    async def create_topic(self, topic: str, queues: int) -> None:
        """The first master may be deposed just then. Raises ``DemoError``, ``RocketMQError``."""
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            leader = await self.leader()
            try:
                async with Admin(namesrv=self.namesrv) as admin:
                    return await admin.create_topic_on(leader.address, config)
            except RocketMQError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)

    async def until_in_step(self, patience_s: float = PATIENCE_S) -> str | None:
        """Until all logs end at the same entry and go on doing so; while nobody sends. What is in
        the way, when that takes too long."""
        deadline = time.monotonic() + patience_s
        before: dict[str, End] = {}
        same_since: float | None = None
        while True:
            ends = {name: each.log_files.end(self._agreed) for name, each in self.members.items()}
            now = time.monotonic()
            if len(set(ends.values())) != 1 or ends != before:
                same_since = None
            elif same_since is None:
                same_since = now
            elif now - same_since > _LONG_ENOUGH_S:
                self._agreed = next(iter(ends.values()))
                return None
            if now > deadline:
                return f"the logs do not come together within {patience_s:.0f} s: {ends}"
            before = ends
            await asyncio.sleep(0.05)


def _free_ports(rng: random.Random) -> list[int]:
    """Fifty free ports side by side, below those that the system gives to connections."""
    for first in itertools.islice(iter(lambda: rng.randrange(15_000, 30_000), 0), 100):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + 50):
                stack.enter_context(socket.create_server((HOST, port)))
            return list(range(first, first + 50))
    raise DemoError("no free ports on 127.0.0.1")
