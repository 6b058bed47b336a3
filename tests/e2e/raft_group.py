"""A group of brokers that elects its master, as real processes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any, Final

from aiorocketmq import Admin
from aiorocketmq.broker.config.addresses import free_ports
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.transport.client import RemotingClient

from .cluster import _BROKER_READY, HOST, Cluster, DaemonProcess, create_topic, until

GROUP: Final = "raft-a"


class RaftGroup(Cluster):
    """One name server and the members n0, n1, ... of a group. ``start`` them; one that was there
    before keeps its ports and its store."""

    def __init__(self, folder: Path, members: int = 3, **properties: object) -> None:
        super().__init__(folder)
        self.names: Final = [f"n{number}" for number in range(members)]
        self._properties = properties
        ports = iter(free_ports(HOST, 2 * members))
        self._broker_ports = {name: next(ports) for name in self.names}
        self._raft_ports = {name: next(ports) for name in self.names}

    @property
    def peers(self) -> str:
        return ";".join(f"{name}-{HOST}:{port}" for name, port in self._raft_ports.items())

    def move(self, name: str) -> None:
        """It has another address from now on."""
        self._broker_ports[name], self._raft_ports[name] = free_ports(HOST, 2)

    def start(self, *names: str, **properties: object) -> None:
        """These members, all by default."""
        for name in names or self.names:
            self._start(name, {**self._properties, **properties})

    def _start(self, name: str, properties: dict[str, object]) -> None:
        settings = {
            "listenPort": self._broker_ports[name],
            "bindAddress": HOST,
            "brokerIP1": HOST,
            "brokerIP2": HOST,
            "brokerName": GROUP,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.store_of(name),
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 20 * 20_000,
            "maxHashSlotNum": 10_000,
            "maxIndexNum": 40_000,
            "waitTimeMillsInSendQueue": 60_000,
            "enableDLegerCommitLog": "true",
            "dLegerGroup": GROUP,
            "dLegerPeers": self.peers,
            "dLegerSelfId": name,
            **properties,
        }
        self.brokers[name] = DaemonProcess(
            "aiorocketmq.broker",
            _BROKER_READY,
            self._folder / name,
            *(f"--{key}={value}" for key, value in settings.items()),
        )

    def address(self, name: str) -> str:
        return f"{HOST}:{self._broker_ports[name]}"

    def log_of(self, name: str) -> str:
        return (self._folder / name / "daemon.log").read_text()

    def kill(self, *names: str) -> None:
        """SIGKILL, all at once."""
        killed = [self.brokers.pop(name) for name in names]
        for each in killed:
            each.process.send_signal(signal.SIGKILL)
        for each in killed:
            each.end(signal.SIGKILL)

    async def ids(self) -> dict[int, str]:
        """The members by the id under which the name server knows them."""
        async with Admin(namesrv=self.namesrv) as admin:
            known = (await admin.cluster_info()).broker_addr_table.get(GROUP)
        by_address = {self.address(name): name for name in self.names}
        addresses = {} if known is None else known.broker_addrs
        return {broker_id: by_address[address] for broker_id, address in addresses.items()}

    async def leader(self, *but: str) -> str:
        """The member that is master now, another one than those."""
        found: list[str] = []

        async def known() -> bool:
            leader = (await self.ids()).get(0)
            if leader is None or leader in but or leader not in self.brokers:
                return False
            found.append(leader)
            return True

        await until(known, f"the name server knows a master of {GROUP}")
        return found[-1]

    async def complete(self) -> str:
        """Wait until every member that runs has a role and is registered; the leader."""

        async def known() -> bool:
            ids = await self.ids()
            return 0 in ids and set(ids.values()) >= set(self.brokers)

        await until(known, "every member is registered")
        return await self.leader()

    async def max_offset(self, name: str, topic: str, queue_id: int = 0) -> int:
        """Of a queue, as this member says."""
        async with RemotingClient() as remoting:
            response = await remoting.invoke(
                self.address(name),
                RequestCode.GET_MAX_OFFSET,
                QueueRequest(topic=topic, queue_id=queue_id),
                timeout=3,
            )
            header: Any = response.check().header
            return int(header.offset)

    async def create_topic(self, topic: str) -> None:
        """With one queue; every member that runs knows it when this returns."""
        await create_topic(self.namesrv, topic, 1)

        async def known() -> bool:
            tables = await asyncio.gather(*(self._topics(name) for name in self.brokers))
            return all(topic in table.topic_config_table for table in tables)

        await until(known, f"every member knows {topic}")

    async def _topics(self, name: str) -> TopicConfigTable:
        async with RemotingClient() as remoting:
            response = await remoting.invoke(
                self.address(name), RequestCode.GET_ALL_TOPIC_CONFIG, timeout=3
            )
            return decode_body(TopicConfigTable, response.check().body)

    async def all_have(self, count: int, topic: str, queue_id: int = 0) -> None:
        """Wait until every member that runs has so many messages in a queue."""
        await self.all_have_the_same(topic, {count}, queue_id)

    async def all_have_the_same(self, topic: str, counts: set[int], queue_id: int = 0) -> None:
        """Wait until every member that runs has as many messages in a queue as the others, one of
        these counts."""

        async def have() -> bool:
            found = await asyncio.gather(
                *(self.max_offset(name, topic, queue_id) for name in self.brokers)
            )
            return len(set(found)) == 1 and found[0] in counts

        await until(have, f"every member has {counts} messages of {topic}")
