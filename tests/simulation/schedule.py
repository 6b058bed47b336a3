"""What goes wrong, and when: drawn from the seed of a world."""

from __future__ import annotations

import asyncio

from .world import World

PAUSE_S = 1.5
KINDS = ("kill", "kill", "power", "power", "cut", "drop", "slow", "clock", "namesrv")


class Schedule:
    """Faults until ``stop``; afterwards all is whole again."""

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

    def stop(self) -> None:
        self._stopped = True

    async def run(self) -> None:
        random = self.world.random
        while not self._stopped:
            await asyncio.sleep(random.expovariate(1 / PAUSE_S))
            kind = random.choice(KINDS)
            broker = random.choice(self.brokers)
            lasts = random.expovariate(1 / 4.0)
            number, self.count = self.count, self.count + 1
            if number not in self.skip and not self._stopped:
                await self._do(kind, broker, lasts)
        await self.mend()

    async def _do(self, kind: str, broker: str, lasts: float) -> None:
        world, machine = self.world, self.world.machines[broker]
        match kind:
            case "kill" | "power":
                if not machine.is_up:
                    return
                # a slave has what is damaged mended by connections that block: none here
                power = self.power and machine.name != "slave"
                machine.kill(power=kind == "power" and power)
                await asyncio.sleep(lasts)
                machine.start()
            case "namesrv":
                world.machines["namesrv"].kill()
                await asyncio.sleep(lasts)
                world.machines["namesrv"].start()
            case "cut":
                host = world.random.choice(["10.0.2.1", "10.0.2.2", "10.0.0.1"])
                ways = [(machine.host, host), (host, machine.host)]
                cut = world.random.choice([ways, ways[:1], ways[1:]])
                world.note(f"cut: {', '.join(f'{a} > {b}' for a, b in cut)} for {lasts:.1f} s")
                world.network.cut.update(cut)
                await asyncio.sleep(lasts)
                world.network.heal()
            case "drop":
                world.note(f"connections of producer and {broker} are lost")
                world.network.drop(machine.host, "10.0.2.1")
            case "slow":
                world.note(f"threads take up to a second for {lasts:.1f} s")
                usual, world.loop.thread_s = world.loop.thread_s, lambda: world.random.random()
                await asyncio.sleep(lasts)
                world.loop.thread_s = usual
            case _:
                ahead = world.random.uniform(-5, 5)
                world.note(f"the clock of {broker} jumps to {ahead:+.1f} s")
                machine.clock.ahead_s = ahead

    async def mend(self) -> None:
        for machine in self.world.machines.values():
            if not machine.is_up and machine.main is not None:
                machine.start()
        self.world.network.heal()
        self.world.note("everything is whole")
