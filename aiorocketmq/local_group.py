"""A DLedger group on this machine: its members elect the one that takes messages. Each is a process
with a folder, ``n0`` to ``n8``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from .broker.config.addresses import free_ports
from .client.admin import Admin
from .daemon.launch import LaunchError
from .local_brokers import HIGHEST_PORT, LocalBrokers, LocalMember, until
from .local_properties import DEFAULTS
from .remoting.errors import RocketMQError
from .remoting.protocol.bodies.topic_config import TopicConfig

DLEDGER_PORT_DISTANCE: Final = 30_000
"""A member's port for the others lies so much above ``listenPort``: the original's examples use
10911 and 40911."""
MEMBER_DISTANCE: Final = 1000
"""Between the ports of one member and the next, where they are not any."""
LARGEST: Final = 9


class LocalGroup(LocalBrokers):
    """All members. ``start`` returns when the name server knows them and one of them leads."""

    option: ClassVar[str] = "raft"
    prefix: ClassVar[str] = "n"
    settled: ClassVar[frozenset[str]] = frozenset(
        {"enableDLegerCommitLog", "dLegerGroup", "dLegerPeers", "dLegerSelfId"}
    )

    async def leader(self, timeout_s: float) -> LocalMember:
        """The member that takes messages, as the name server says. Raises ``TimeoutError``."""
        found: list[LocalMember] = []

        async def known() -> bool:
            addresses = await self._addresses(admin)
            found[:] = [
                each for each in self.members if each.serves and each.address == addresses.get(0)
            ]
            return bool(found)

        async with Admin(namesrv=self._namesrv) as admin:
            await until(known, "a member leads", timeout_s)
        return found[0]

    async def create_topic(self, topic: str, queue_nums: int, timeout_s: float) -> None:
        """Returns when the name server and every member that serves know it, so that it is there
        whoever leads. Raises ``TimeoutError``."""
        config = TopicConfig(
            topic_name=topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums
        )
        leader = await self.leader(timeout_s)
        async with Admin(namesrv=self._namesrv) as admin:
            await admin.create_topic_on(leader.address, config)

            async def known() -> bool:
                try:
                    everywhere = len(await admin.read_queues(topic)) == queue_nums
                    for member in self.members:
                        if member.serves:
                            table = (await admin.topic_configs(member.address)).topic_config_table
                            everywhere &= topic in table
                except RocketMQError:  # no route yet; or a member has just ended
                    return False
                return everywhere

            await until(known, f"all members know {topic}", timeout_s)

    def _choose_ports(self) -> None:
        for member, (port, peer_port) in zip(self.members, self._ports(), strict=True):
            member.address = f"{self._host}:{port}"
            member.peer_address = f"{self._host}:{peer_port}"

    def _ports(self) -> Sequence[tuple[int, int]]:
        """For each member ``listenPort`` and the one for the others."""
        if self._first_port:
            first = [self._first_port + MEMBER_DISTANCE * n for n in range(len(self.members))]
            if (highest := first[-1] + DLEDGER_PORT_DISTANCE) > HIGHEST_PORT:
                raise LaunchError(
                    f"the last member's port for the others would be {highest}, and there are "
                    f"{HIGHEST_PORT}: choose a lower port for the first broker"
                )
            return [(port, port + DLEDGER_PORT_DISTANCE) for port in first]
        taken = free_ports(self._bind, 2 * len(self.members))
        return list(zip(taken[::2], taken[1::2], strict=True))

    def _own(self, member: LocalMember) -> Mapping[str, str]:
        return {
            "enableDLegerCommitLog": "true",
            "dLegerGroup": self._name,
            "dLegerPeers": ";".join(f"{each.id}-{each.peer_address}" for each in self.members),
            "dLegerSelfId": member.id,
        }

    async def _complete(self, admin: Admin) -> bool:
        addresses = await self._addresses(admin)
        wanted = {member.address for member in self.members}
        return wanted <= set(addresses.values()) and addresses.get(0) in wanted

    async def _addresses(self, admin: Admin) -> Mapping[int, str]:
        """By brokerId."""
        broker = (await admin.cluster_info()).broker_addr_table.get(self._name)
        return MappingProxyType({}) if broker is None else broker.broker_addrs

    @property
    def _name(self) -> str:
        return self._properties.get("brokerName", DEFAULTS["brokerName"])
