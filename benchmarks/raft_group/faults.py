"""What is done to a group of three, and how it is undone."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from .links import Way
from .members import NAMES, Group, Member

_LONGEST_DOWN_S: Final = 3.0
_LONGEST_CUT_S: Final = 12.0
_LONGEST_DELAY_S: Final = 0.5
_LONGEST_FULL_S: Final = 6.0


class Scene(NamedTuple):
    """Where faults happen. ``note`` tells what is done to whom; ``stands_still_s``: how long a
    process is stopped, least and most."""

    group: Group
    rng: random.Random
    note: Callable[[str], None]
    stands_still_s: tuple[float, float]

    async def victim(self) -> Member:
        """More often than not the leader."""
        if self.rng.random() < 0.6:
            return await self.group.leader()
        return self.rng.choice(list(self.group.members.values()))


class Fault(NamedTuple):
    """``happen`` returns when all has healed. ``weight``: how often it comes."""

    name: str
    weight: int
    happen: Callable[[Scene], Awaitable[None]]
    needs_small_disk: bool = False


async def _kill(scene: Scene, victims: Sequence[Member]) -> None:
    scene.note(f"{', '.join(each.name for each in victims)} killed")
    for each in victims:
        await each.end()
    await asyncio.sleep(scene.rng.uniform(0, _LONGEST_DOWN_S))
    scene.note(f"{', '.join(each.name for each in victims)} started")
    await asyncio.gather(*(each.start() for each in victims))


async def kill_one(scene: Scene) -> None:
    await _kill(scene, [await scene.victim()])


async def kill_several(scene: Scene) -> None:
    """Two, or all."""
    members = list(scene.group.members.values())
    await _kill(scene, scene.rng.sample(members, scene.rng.choice((2, 2, 3))))


async def stop_cleanly(scene: Scene) -> None:
    member = await scene.victim()
    scene.note(f"{member.name} ended by SIGTERM")
    await member.end(signal.SIGTERM)
    await asyncio.sleep(scene.rng.uniform(0, _LONGEST_DOWN_S))
    scene.note(f"{member.name} started")
    await member.start()


async def name_server_killed(scene: Scene) -> None:
    """With the leader, now and then: who the next one is, is heard when it is back."""
    leader = await scene.group.leader() if scene.rng.random() < 0.5 else None
    scene.note("name server killed" + (f", {leader.name} too" if leader is not None else ""))
    await scene.group.name_server.end()
    if leader is not None:
        await leader.end()
    await asyncio.sleep(scene.rng.uniform(0, _LONGEST_DOWN_S))
    scene.note("started")
    await scene.group.name_server.start()
    if leader is not None:
        await leader.start()


async def stand_still(scene: Scene) -> None:
    member = await scene.victim()
    seconds = scene.rng.uniform(*scene.stands_still_s)
    scene.note(f"{member.name} stands still for {seconds:.1f} s")
    member.stand_still()
    await asyncio.sleep(seconds)
    member.go_on()
    scene.note(f"{member.name} goes on")


async def _cut(scene: Scene, ways: Sequence[Way], what: str) -> None:
    seconds = scene.rng.uniform(0.5, _LONGEST_CUT_S)
    scene.note(f"{what} cut for {seconds:.1f} s")
    scene.group.links.cut(ways)
    await asyncio.sleep(seconds)
    scene.group.links.heal()
    scene.note("links whole again")


async def partition_of_one(scene: Scene) -> None:
    name = (await scene.victim()).name
    await _cut(scene, scene.group.links.around(name), f"all links of {name}")


async def partition_of_two(scene: Scene) -> None:
    """Nobody hears anybody."""
    await _cut(scene, scene.group.links.ways, "all links")


async def one_link(scene: Scene) -> None:
    """Both of its ends still hear the third."""
    one, other = scene.rng.sample(NAMES, 2)
    await _cut(scene, [(one, other), (other, one)], f"{one}|{other}")


async def deaf(scene: Scene) -> None:
    name = (await scene.victim()).name
    await _cut(scene, scene.group.links.into(name), f"all ways to {name}")


async def mute(scene: Scene) -> None:
    name = (await scene.victim()).name
    await _cut(scene, scene.group.links.out_of(name), f"all ways from {name}")


async def some_ways(scene: Scene) -> None:
    """Any of the six."""
    ways = scene.group.links.ways
    chosen = scene.rng.sample(ways, scene.rng.randint(1, len(ways)))
    await _cut(scene, chosen, "ways " + ", ".join(f"{one}>{other}" for one, other in chosen))


async def delay(scene: Scene) -> None:
    links, seconds = scene.group.links, scene.rng.uniform(1.0, _LONGEST_CUT_S)
    most = scene.rng.uniform(0.01, _LONGEST_DELAY_S)
    ways = scene.rng.choice([links.ways, links.around(scene.rng.choice(NAMES))])
    scene.note(f"up to {most:.3f} s late for {seconds:.1f} s on {len(ways)} ways")
    links.delay(ways, 0.0, most)
    await asyncio.sleep(seconds)
    links.heal()
    scene.note("links whole again")


async def full_disk(scene: Scene) -> None:
    member = await scene.victim()
    seconds = scene.rng.uniform(1.0, _LONGEST_FULL_S)
    scene.note(f"disk of {member.name} full for {seconds:.1f} s")
    member.disk.fill()
    await asyncio.sleep(seconds)
    member.disk.make_room()
    scene.note(f"disk of {member.name} has room again")
    if not member.runs:
        await member.start()


async def lost_disk(scene: Scene) -> None:
    member = await scene.victim()
    scene.note(f"{member.name} killed, its disk lost")
    await member.end()
    member.disk.lose()
    await asyncio.sleep(scene.rng.uniform(0, _LONGEST_DOWN_S))
    scene.note(f"{member.name} started with nothing")
    await member.start()


FAULTS: Final = (
    Fault("one killed", 6, kill_one),
    Fault("several killed", 2, kill_several),
    Fault("clean stop", 2, stop_cleanly),
    Fault("name server", 1, name_server_killed),
    Fault("stands still", 3, stand_still),
    Fault("partition of one", 3, partition_of_one),
    Fault("partition of two", 2, partition_of_two),
    Fault("one link", 2, one_link),
    Fault("deaf", 2, deaf),
    Fault("mute", 2, mute),
    Fault("some ways", 2, some_ways),
    Fault("delay", 2, delay),
    Fault("disk full", 2, full_disk, needs_small_disk=True),
    Fault("disk lost", 2, lost_disk),
)


def chosen(
    rng: random.Random, count: int, *, small_disks: bool, only: Sequence[str] = ()
) -> list[Fault]:
    """That many, each of them at least once where there are enough. ``only``: these."""
    possible = [
        each
        for each in FAULTS
        if (small_disks or not each.needs_small_disk) and (not only or each.name in only)
    ]
    others = rng.choices(possible, [each.weight for each in possible], k=count)
    each_once = rng.sample(possible, len(possible))
    faults = [*each_once, *others][:count]
    rng.shuffle(faults)
    return faults
