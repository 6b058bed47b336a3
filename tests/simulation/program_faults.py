"""Programs that are killed, stopped, and started again, and who leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .habits import STEPS
from .invariants import STOPS_S
from .machine import Machine
from .world import World

GOES_ON_S = 2.0
"""So long nobody leads a group of which a member is gone, and nothing else is wrong."""
IN_STEP_S = 20.0
"""So long somebody waits for a copy that has everything, or for a leader."""


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
        self.begun = 0
        """So many faults have."""

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
        if self.power and self.world.random.random() < 0.7:
            await self._at_step(machine, lasts, self._when_it_matters(), power=True)
        else:
            await self._kill(machine, lasts, power=self.power)

    def _when_it_matters(self) -> tuple[str, ...]:
        return (self.world.random.choice(["unsynced", "table"]),)

    async def _member_power(self, machine: Machine, lasts: float) -> None:
        """Of a group one member at a time: it has acknowledged what it forgets. The others have
        that, and a leader by the time it is back; nobody else goes before it has it again."""
        if not await self._in_time(lambda: self._all_have_all(machine)):
            return
        steps = self._when_it_matters() if self.world.random.random() < 0.7 else self.steps
        if await self._goes_at_step(machine, steps, power=True):
            began, alone, count = self.world.loop.now, self.is_alone(), self.begun
            await self._in_time(lambda: self._others_lead(machine))
            took_s = self.world.loop.now - began
            if alone and self.begun == count and took_s > GOES_ON_S:
                machine.ended.append(TimeoutError(f"nobody led for {took_s:.1f} s after it"))
            await asyncio.sleep(max(0.0, lasts - took_s))
            machine.start()
            await self._in_time(lambda: self._all_have_all(machine))

    async def _slave_power(self, machine: Machine, lasts: float) -> None:
        """What a slave forgets that need not have been on its disk its master has, intact."""
        master = self.world.masters().get(machine.broker_name)
        slaves = [each for each in self._same(machine) if each is not master]
        if master is None or not master.is_up or not slaves or master.damaged:
            return
        await self._at_step(slaves[0], lasts, self._when_it_matters(), power=True)

    def is_alone(self) -> bool:
        """Nothing else is wrong, and threads are fast."""
        return False

    def _others_lead(self, machine: Machine) -> bool:
        """Who has what it forgets."""
        master = self.world.masters().get(machine.broker_name)
        return master is not None and master is not machine and master.is_up

    def _in_a_group(self, machine: Machine) -> bool:
        return len(self._same(machine)) > 2

    def _all_have_all(self, machine: Machine) -> bool:
        """Members of its group, of what is committed; and all of them vote."""
        nodes = [
            each.broker.group.node if each.broker is not None and each.broker.group else None
            for each in self._same(machine)
        ]
        known = [each for each in nodes if each is not None and each.votes]
        committed = max((each.committed_index for each in known), default=-1)
        ends = [each.log.end_index for each in known]
        return len(ends) == len(nodes) and min(ends) >= max(committed, 0)

    async def _in_time(self, holds: Callable[[], bool]) -> bool:
        """Whether it does within ``IN_STEP_S``."""
        until = self.world.loop.now + IN_STEP_S
        while not holds():
            if self.world.loop.now > until:
                return False
            await asyncio.sleep(0.1)
        return True

    async def _step(self, machine: Machine, lasts: float) -> None:
        """Between any two steps: right behind one that others can see, or that a disk does."""
        power = self.power and self.world.random.random() < 0.7
        await self._at_step(machine, lasts, self.steps, power=power)

    async def _at_step(
        self, machine: Machine, lasts: float, kinds: tuple[str, ...], *, power: bool
    ) -> None:
        was_up = machine.is_up
        if await self._goes_at_step(machine, kinds, power=power):
            if was_up:
                await asyncio.sleep(lasts)
            machine.start()

    async def _goes_at_step(self, machine: Machine, kinds: tuple[str, ...], *, power: bool) -> bool:
        """Whether it does within some seconds. Rare steps are chosen as often as those that are
        usual."""
        random, reached = self.world.random, asyncio.Event()
        steps = [each for each in machine.steps if each.split()[0] in kinds]
        if not steps:
            return False
        if random.random() < 0.7:
            steps = [random.choice(steps)]
        count = 1 + int(random.expovariate(1 / random.choice([0.5, 2, 20, 200])))

        def kill() -> None:
            machine.kill(power=power)
            reached.set()

        machine.at_step(tuple(steps), count, kill)
        try:
            await asyncio.wait_for(reached.wait(), 5.0)
        except TimeoutError:
            machine.at_step((), 0, kill)
            return False
        return True

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
        await self._ends(machine, lasts)

    async def _namesrv(self, machine: Machine, lasts: float) -> None:
        await self._ends(machine, lasts)

    async def _ends(self, machine: Machine, lasts: float) -> None:
        await self.world.random.choice([self._kill, self._stop])(machine, lasts)

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
