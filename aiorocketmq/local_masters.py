"""Masters on this machine side by side, each a process, so that as many cores take messages: how
RocketMQ grows. A topic has queues on all of them. Their folders and names are ``broker-0``,
``broker-1``, ..."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from .broker.config.addresses import free_ports
from .client.admin import Admin
from .daemon.launch import LaunchError
from .local_brokers import HIGHEST_PORT, LocalBrokers, LocalMember, until
from .remoting.errors import RocketMQError

LARGEST: Final = 64
PORT_STEP: Final = 10
"""Between ``listenPort`` of one and the next, where they are not any: each has ports from two below
to one above."""


class LocalMasters(LocalBrokers):
    """All masters. ``start`` returns when the name server knows them all."""

    option: ClassVar[str] = "masters"
    prefix: ClassVar[str] = "broker-"
    settled: ClassVar[frozenset[str]] = frozenset(
        {"brokerName", "brokerId", "brokerRole", "enableDLegerCommitLog"}
    )

    async def create_topic(self, topic: str, queue_nums: int, timeout_s: float) -> None:
        """With so many queues on each. Returns when the name server knows them all. Raises
        ``TimeoutError``."""
        async with Admin(namesrv=self._namesrv) as admin:
            await admin.create_topic(topic, queues=queue_nums)

            async def known() -> bool:
                try:
                    queues = await admin.read_queues(topic)
                except RocketMQError:  # no route yet
                    return False
                return len(queues) == queue_nums * len(self.members)

            await until(known, f"the name server knows {topic} on all masters", timeout_s)

    def _choose_ports(self) -> None:
        ports = (
            [self._first_port + PORT_STEP * n for n in range(len(self.members))]
            if self._first_port
            else free_ports(self._bind, len(self.members))
        )
        if (highest := max(ports) + 1) > HIGHEST_PORT:
            raise LaunchError(
                f"the last master's port for slaves would be {highest}, and there are "
                f"{HIGHEST_PORT}: choose a lower port for the first broker"
            )
        for member, port in zip(self.members, ports, strict=True):
            member.address = f"{self._host}:{port}"

    def _own(self, member: LocalMember) -> Mapping[str, str]:
        return {"brokerName": member.id}

    async def _complete(self, admin: Admin) -> bool:
        known = (await admin.cluster_info()).broker_addr_table
        return all(
            member.id in known and known[member.id].master_addr == member.address
            for member in self.members
        )
