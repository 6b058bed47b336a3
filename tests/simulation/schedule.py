"""When what goes wrong: drawn from the seed of a world."""

from __future__ import annotations

import asyncio

from .faults import Faults
from .habits import Habits
from .world import World


class Schedule:
    """Faults, several at a time if need be, until ``stop``; afterwards all is whole again."""

    def __init__(
        self, world: World, faults: Faults, habits: Habits, *, skip: frozenset[int]
    ) -> None:
        """``skip``: faults that are left out, by number (to find those that matter)."""
        self.world = world
        self.count = 0
        self._faults = faults
        self._habits = habits
        self._skip = skip
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    async def run(self) -> None:
        random, habits = self.world.random, self._habits
        kinds, weights = list(habits.faults), list(habits.faults.values())
        lasting: set[asyncio.Task[None]] = set()
        while not self._stopped:
            await asyncio.sleep(random.expovariate(1 / habits.pause_s))
            if len(lasting) >= habits.at_once:
                done, lasting = await asyncio.wait(lasting, return_when=asyncio.FIRST_COMPLETED)
                _raise_what_failed(done)
            [kind] = random.choices(kinds, weights)
            strike = self._faults.draw(kind, random.expovariate(1 / habits.lasts_s))
            number, self.count = self.count, self.count + 1
            if strike is not None and number not in self._skip and not self._stopped:
                lasting.add(asyncio.ensure_future(strike()))
        if lasting:
            _raise_what_failed((await asyncio.wait(lasting))[0])
        self._mend()

    def _mend(self) -> None:
        for machine in self.world.machines.values():
            machine.disk_trouble = None
            if not machine.is_up:
                machine.start()
        self.world.network.heal()
        self.world.note("everything is whole")


def _raise_what_failed(done: set[asyncio.Task[None]]) -> None:
    for task in done:
        task.result()
