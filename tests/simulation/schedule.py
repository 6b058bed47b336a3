"""What goes wrong, and when: drawn from the seed of a world."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

from .disk import SimulatedDisk
from .invariants import STOPS_S
from .workload import CLIENTS
from .world import Machine, World

PAUSE_S = 1.5
VOTES_S = 60.0
"""A member whose disk was lost has been filled again by then."""
ERRNOS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EROFS, errno.EMFILE)
KINDS = {
    "kill": 4,
    "power": 4,
    "stop": 2,
    "client": 3,
    "cut": 3,
    "far": 2,
    "drop": 2,
    "slow": 2,
    "errno": 2,
    "full": 1,
    "clock": 2,
    "namesrv": 2,
    "role": 2,
    "disk": 1,
}
"""Faults, and how often one is drawn compared with the others."""


class Schedule:
    """Faults one after the other until ``stop``; afterwards all is whole again."""

    def __init__(
        self, world: World, brokers: list[str], *, power: bool, skip: frozenset[int]
    ) -> None:
        """``power``: the power of machines may fail. ``skip``: faults that are left out, by number
        (to find those that matter)."""
        self.world = world
        self.brokers = brokers
        self.power = power
        self.skip = skip
        self.count = 0
        self._stopped = False
        self._kinds: dict[str, Callable[[Machine, float], Awaitable[None]]] = {
            "kill": self._kill,
            "power": self._kill,
            "stop": self._stop,
            "client": self._client,
            "cut": self._cut,
            "far": self._far,
            "drop": self._drop,
            "slow": self._slow,
            "errno": self._errno,
            "full": self._full,
            "clock": self._clock,
            "namesrv": self._namesrv,
            "role": self._role,
            "disk": self._disk,
        }

    def stop(self) -> None:
        self._stopped = True

    async def run(self) -> None:
        random = self.world.random
        kinds, weights = list(KINDS), list(KINDS.values())
        while not self._stopped:
            await asyncio.sleep(random.expovariate(1 / PAUSE_S))
            [kind] = random.choices(kinds, weights)
            machine = self.world.machines[random.choice(self.brokers)]
            lasts = random.expovariate(1 / 4.0)
            number, self.count = self.count, self.count + 1
            if number in self.skip or self._stopped:
                continue
            if kind == "power" and self.power:
                await self._kill(machine, lasts, power=True)
            else:
                await self._kinds[kind](machine, lasts)
        await self.mend()

    async def mend(self) -> None:
        for machine in self.world.machines.values():
            machine.disk_trouble = None
            if not machine.is_up:
                machine.start()
        self.world.network.heal()
        self.world.note("everything is whole")

    # -- programs

    async def _kill(self, machine: Machine, lasts: float, *, power: bool = False) -> None:
        machine.kill(power=power)
        await asyncio.sleep(lasts)
        machine.start()

    async def _stop(self, machine: Machine, lasts: float) -> None:
        """SIGTERM."""
        if not await machine.stop(STOPS_S):
            machine.ended.append(TimeoutError("it was told to stop and goes on"))
        await asyncio.sleep(lasts)
        machine.start()

    async def _client(self, _machine: Machine, lasts: float) -> None:
        name = self.world.random.choice(CLIENTS)
        await self._kill(self.world.machines[name], lasts)

    async def _namesrv(self, _machine: Machine, lasts: float) -> None:
        name = self.world.random.choice(["namesrv1", "namesrv2"])
        await self._kill(self.world.machines[name], lasts)

    async def _role(self, machine: Machine, _lasts: float) -> None:
        """Somebody wants another leader."""
        master = self.world.masters().get(machine.broker_name)
        if master is None or master.broker is None or master.broker.group is None:
            return
        self.world.note(f"{master.name} is asked to hand over")
        assert master.process is not None
        await asyncio.wait([master.process.start(master.broker.group.node.transfer())], timeout=5)

    # -- the network

    async def _cut(self, machine: Machine, lasts: float) -> None:
        """One way or both, between a broker and whoever."""
        random = self.world.random
        others = sorted(m.host for m in self.world.machines.values() if m is not machine)
        host = random.choice(others)
        ways = [(machine.host, host), (host, machine.host)]
        cut = random.choice([ways, ways[:1], ways[1:]])
        self.world.note(f"cut: {', '.join(f'{a} > {b}' for a, b in cut)} for {lasts:.1f} s")
        self.world.network.cut.update(cut)
        await asyncio.sleep(lasts)
        self.world.network.heal()

    async def _far(self, machine: Machine, lasts: float) -> None:
        """All that comes to a broker, or goes from it, takes up to 0.5 s."""
        network, random = self.world.network, self.world.random
        self.world.note(f"{machine.name} is far away for {lasts:.1f} s")
        usual = network.latency_s
        network.latency_s = lambda way: (
            random.uniform(0, 0.5) if machine.host in way else usual(way)
        )
        await asyncio.sleep(lasts)
        network.latency_s = usual

    async def _drop(self, machine: Machine, _lasts: float) -> None:
        self.world.note(f"connections of producer and {machine.name} are lost")
        self.world.network.drop(machine.host, self.world.machines["producer"].host)

    # -- the machine

    async def _slow(self, _machine: Machine, lasts: float) -> None:
        loop, random = self.world.loop, self.world.random
        self.world.note(f"threads take up to a second for {lasts:.1f} s")
        usual, loop.thread_s = loop.thread_s, random.random
        await asyncio.sleep(lasts)
        loop.thread_s = usual

    async def _clock(self, machine: Machine, _lasts: float) -> None:
        ahead = self.world.random.uniform(-5, 5)
        self.world.note(f"the clock of {machine.name} jumps to {ahead:+.1f} s")
        machine.clock.ahead_s = ahead

    async def _errno(self, machine: Machine, lasts: float) -> None:
        """Any call may fail, in any way."""
        random = self.world.random
        number, often = random.choice(ERRNOS), random.choice([0.05, 0.3, 1.0])
        self.world.note(
            f"{often:.0%} of the calls of {machine.name}'s disk end with "
            f"{errno.errorcode[number]} for {lasts:.1f} s"
        )
        await self._trouble(
            machine, lasts, lambda _call: number if random.random() < often else None
        )

    async def _full(self, machine: Machine, lasts: float) -> None:
        self.world.note(f"the disk of {machine.name} is full for {lasts:.1f} s")
        takes_space = ("open", "resize", "append", "allocate", "make_directories")
        await self._trouble(
            machine, lasts, lambda call: errno.ENOSPC if call in takes_space else None
        )

    async def _trouble(
        self, machine: Machine, lasts: float, trouble: Callable[[str], int | None]
    ) -> None:
        """Whoever sees to it starts the broker again afterwards: one whose disk failed refuses
        messages until then."""
        machine.disk_trouble = trouble
        await asyncio.sleep(lasts)
        machine.disk_trouble = None
        await self._stop(machine, 0.0)

    async def _disk(self, machine: Machine, lasts: float) -> None:
        """A member of a whole group loses its disk. It is the only one until it votes again: what
        two of three hold may be lost with two disks."""
        members = [m for m in self.world.machines.values() if m.broker_name]
        if not all(_votes(each) for each in members):
            return
        machine.kill()
        self.world.note(f"the disk of {machine.name} is lost")
        machine.disk = SimulatedDisk()
        self.world.remove_tables(machine)
        await asyncio.sleep(lasts)
        machine.start()
        until = self.world.loop.now + VOTES_S
        while not _votes(machine) and self.world.loop.now < until:
            await asyncio.sleep(0.1)


def _votes(machine: Machine) -> bool:
    """It is a member of a group, and has all that it ever acknowledged."""
    broker = machine.broker
    return broker is not None and broker.group is not None and broker.group.node.votes
