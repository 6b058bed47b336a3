"""What goes wrong with machines and between them. Each is a coroutine that ends when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .disk_faults import DiskFaults
from .machine import Machine
from .workload import CLIENTS

QUICK_S = 0.02
HOUR_S = 3600.0
NAME_SERVERS = ("namesrv1", "namesrv2")


class Faults(DiskFaults):
    """All of them: those of programs and disks, and here of the network, threads and clocks."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._busy: set[object] = set()
        """Machines and properties of the world that something is wrong with already."""

    def draw(self, kind: str, lasts: float) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Where it strikes, and how; None: something is wrong there already. ``lasts``: seconds."""
        random = self.world.random
        match kind:
            case "client" | "stall" if kind == "client" or random.random() < 0.5:
                victim: object = random.choice(CLIENTS)
            case "namesrv":
                victim = random.choice(NAME_SERVERS)
            case "clock" if random.random() < 0.5:
                victim = random.choice([*CLIENTS, *NAME_SERVERS])
            case "far" | "slow" | "role" | "disk" | "drop" | "lost":
                victim = kind
            case _:
                victim = self._one().name
        machine = self.world.machines.get(str(victim)) or self._one()
        if kind == "power" and self._in_a_group(machine):
            kind = "member_power"
        elif kind == "power" and not self.power and machine.is_synced_late:
            kind = "slave_power"
        places = {victim, machine.name} if kind == "disk" else {victim}
        if kind == "namesrv":  # a client does not start where none answers
            places = {kind}
        elif kind in ("all", "relay", "heirs", "promote", "member_power", "slave_power"):
            places = set(self.brokers)
        if places & self._busy:
            return None

        async def until_over() -> None:
            self._busy.update(places)
            self.begun += 1
            try:
                await getattr(self, f"_{kind}")(machine, lasts)
            finally:
                self._busy.difference_update(places)

        return until_over

    def is_alone(self) -> bool:
        loop = self.world.loop
        return self._busy == set(self.brokers) and loop.usually_s * loop.slower <= QUICK_S

    def _one(self) -> Machine:
        """A broker; mostly the one that this seed strikes."""
        random, machines = self.world.random, self.world.machines
        name = random.choice(self.brokers)
        if self.struck == "any" or random.random() < 0.3:
            return machines[name]
        if self.struck == "same":
            return machines[self.brokers[self.world.seed % len(self.brokers)]]
        return self.world.masters().get(machines[name].broker_name, machines[name])

    # -- the network

    async def _cut(self, machine: Machine, lasts: float) -> None:
        """One way or both, between a broker and whoever."""
        others = sorted(m.host for m in self.world.machines.values() if m is not machine)
        await self._apart(machine, [self.world.random.choice(others)], lasts)

    async def _alone(self, machine: Machine, lasts: float) -> None:
        """One way or both, between a broker and all other brokers, or one of them, which others
        see; clients reach it."""
        random = self.world.random
        others = [self.world.machines[each].host for each in self.brokers if each != machine.name]
        if others:
            await self._apart(machine, random.choice([others, [random.choice(others)]]), lasts)

    async def _apart(self, machine: Machine, hosts: list[str], lasts: float) -> None:
        away = {(machine.host, host) for host in hosts}
        back = {(host, machine.host) for host in hosts}
        cut = self.world.random.choice([away | back, away, back])
        self.world.note(f"cut for {lasts:.1f} s: {', '.join(f'{a} > {b}' for a, b in sorted(cut))}")
        self.world.network.cut.update(cut)
        await asyncio.sleep(lasts)
        self.world.network.heal(cut)

    async def _relay(self, machine: Machine, lasts: float) -> None:
        """Who was cut off from the others is back in the moment in which another one goes: the
        master, if there is one."""
        random = self.world.random
        others = [each for each in self._same(machine) if each is not machine]
        if not others:
            return
        await self._apart(machine, [each.host for each in others], lasts)
        master = self.world.masters().get(machine.broker_name)
        goes = master if master in others else random.choice(others)
        await self._kill(goes, random.expovariate(1 / lasts), power=self.power)

    async def _heirs(self, machine: Machine, lasts: float) -> None:
        """Who serves goes, and so do those that serve after it, soon after they begin."""
        random, broker_name = self.world.random, machine.broker_name
        going: set[asyncio.Task[None]] = set()
        for _ in range(random.randint(2, 4)):
            heir = await self._who_serves(broker_name)
            if heir is None:
                break
            others = [each.host for each in self._same(heir) if each is not heir]
            way = random.choice(["step", "cut", "kill"] if others else ["step", "kill"])
            if way == "cut":
                goes = self._apart(heir, others, lasts)
            elif way == "step":
                goes = self._at_step(heir, lasts, self.steps, power=self.power)
            else:
                goes = self._kill(heir, lasts, power=self.power)
            going.add(asyncio.ensure_future(goes))
            await asyncio.sleep(random.expovariate(1 / lasts))
        for each in going:
            await each

    async def _who_serves(self, broker_name: str) -> Machine | None:
        """Within some seconds."""
        for _ in range(50):
            machine = self.world.masters().get(broker_name)
            if machine is not None and machine.process is not None:
                return machine
            await asyncio.sleep(0.1)
        return None

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

    async def _stall(self, machine: Machine, lasts: float) -> None:
        """It does not read what comes."""
        self.world.note(f"{machine.name} does not read for {lasts:.1f} s")
        self.world.network.stalled.add(machine.host)
        await asyncio.sleep(lasts)
        self.world.network.read_on(machine.host)

    async def _drop(self, machine: Machine, _lasts: float) -> None:
        other = self.world.random.choice([*CLIENTS, *self.brokers, *NAME_SERVERS])
        self.world.note(f"connections of {other} and {machine.name} are lost")
        self.world.network.drop(machine.host, self.world.machines[other].host)

    async def _lost(self, machine: Machine, lasts: float) -> None:
        """Connections are lost when what they carried has come: answers, mostly, to what is done
        all the same, and is asked for again at once."""
        lasts += 1.0
        share = self.world.random.choice([0.05, 0.3])
        self.world.note(
            f"{share:.0%} of what comes to {machine.name} is the last for {lasts:.1f} s"
        )
        self.world.network.fragile[machine.host] = share
        await asyncio.sleep(lasts)
        del self.world.network.fragile[machine.host]

    # -- the machine

    async def _slow(self, _machine: Machine, lasts: float) -> None:
        loop, random = self.world.loop, self.world.random
        self.world.note(f"threads take up to a second for {lasts:.1f} s")
        usual, loop.thread_s = loop.thread_s, random.random
        await asyncio.sleep(lasts)
        loop.thread_s = usual

    async def _clock(self, machine: Machine, _lasts: float) -> None:
        random = self.world.random
        ahead = random.uniform(-5, 5)
        if random.random() < 0.3:  # of a machine that began with another time, or zone
            ahead = random.choice([-1, 1]) * random.choice([60, HOUR_S, 24 * HOUR_S])
        self.world.note(f"the clock of {machine.name} jumps to {ahead:+.1f} s")
        machine.clock.ahead_s = ahead
