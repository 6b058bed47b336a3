"""Programs that are killed, stopped, and started again, and who leads."""

from __future__ import annotations

import asyncio

from .habits import STEPS
from .invariants import STOPS_S
from .machine import Machine
from .world import World


class ProgramFaults:
    """``power``: the power of brokers may fail; if not, they are killed instead. ``steps``: at
    which of theirs. ``struck``: who mostly is."""

    def __init__(
        self,
        world: World,
        brokers: list[str],
        *,
        power: bool,
        steps: tuple[str, ...],
        struck: str,
    ) -> None:
        self.world = world
        self.struck = struck
        self.steps = steps
        self.brokers = brokers
        self.power = power

    async def _kill(self, machine: Machine, lasts: float, *, power: bool = False) -> None:
        machine.kill(power=power)
        await asyncio.sleep(lasts)
        machine.start()

    async def _all(self, _machine: Machine, lasts: float) -> None:
        """All brokers at once, as with the power of their rack; each is back in its own time."""
        random, power = self.world.random, self.power and self.world.random.random() < 0.7
        machines = [self.world.machines[each] for each in self.brokers]
        for machine in machines:
            machine.kill(power=power)
        for machine in random.sample(machines, len(machines)):
            await asyncio.sleep(random.expovariate(1 / lasts))
            machine.start()

    def _same(self, machine: Machine) -> list[Machine]:
        """Those that have copies of the same messages."""
        machines = (self.world.machines[each] for each in self.brokers)
        return [each for each in machines if each.broker_name == machine.broker_name]

    async def _power(self, machine: Machine, lasts: float) -> None:
        """Mostly when it matters: in front of a sync, or when a table claims something."""
        random = self.world.random
        if self.power and random.random() < 0.7:
            await self._at_step(machine, lasts, (random.choice(["unsynced", "table"]),), power=True)
        else:
            await self._kill(machine, lasts, power=self.power)

    async def _step(self, machine: Machine, lasts: float) -> None:
        """Between any two steps: right behind one that others can see, or that a disk does."""
        power = self.power and self.world.random.random() < 0.7
        await self._at_step(machine, lasts, self.steps, power=power)

    async def _at_step(
        self, machine: Machine, lasts: float, kinds: tuple[str, ...], *, power: bool
    ) -> None:
        """Rare steps are chosen as often as those that are usual."""
        random, reached = self.world.random, asyncio.Event()
        steps = [each for each in machine.steps if each.split()[0] in kinds]
        if not steps:
            return
        if random.random() < 0.7:
            steps = [random.choice(steps)]
        count = 1 + int(random.expovariate(1 / random.choice([0.5, 2, 20, 200])))
        process = machine.process

        def kill() -> None:
            machine.kill(power=power)
            reached.set()

        machine.at_step(tuple(steps), count, kill)
        try:
            await asyncio.wait_for(reached.wait(), 5.0)
        except TimeoutError:
            machine.at_step((), 0, kill)
            return
        if process is not None:
            await asyncio.sleep(lasts)
        machine.start()

    async def _stop(self, machine: Machine, lasts: float) -> None:
        """SIGTERM."""
        if not await machine.stop(STOPS_S):
            machine.ended.append(TimeoutError("it was told to stop and goes on"))
        await asyncio.sleep(lasts)
        machine.start()

    async def _twice(self, machine: Machine, lasts: float) -> None:
        """Once more, soon after it has started: perhaps while it still opens what it has."""
        random = self.world.random
        await self._kill(machine, lasts, power=self.power and random.random() < 0.5)
        power = self.power and random.random() < 0.5
        await self._at_step(machine, lasts, random.choice([STEPS, self.steps]), power=power)

    async def _client(self, machine: Machine, lasts: float) -> None:
        await self._kill(machine, lasts)

    async def _namesrv(self, machine: Machine, lasts: float) -> None:
        await self._kill(machine, lasts)

    async def _role(self, machine: Machine, _lasts: float) -> None:
        """Somebody wants another leader; now and then the next one at once."""
        while await self._handed_over(machine) and self.world.random.random() < 0.3:
            pass

    async def _handed_over(self, machine: Machine) -> bool:
        master = self.world.masters().get(machine.broker_name)
        if master is None or master.broker is None or master.broker.group is None:
            return False
        if (process := master.process) is not None:  # it does not stop just now
            self.world.note(f"{master.name} is asked to hand over")
            await asyncio.wait([process.start(master.broker.group.node.transfer())], timeout=5)
        return True
