"""What is done to a cluster, and how it is undone."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from ..histories.events import Serves
from ..raft_group.links import Way
from ..raft_group.recorder import Recorder
from .cluster import Cluster, Node
from .network import BROKERS, CLIENT, NAMESRV

_DOWN_S: Final = 0.0, 3.0
_STILL_S: Final = 3.0, 15.0
_CUT_S: Final = 1.0, 12.0
_SLOW_S: Final = 4.0, 10.0
_FULL_S: Final = 2.0, 6.0
_BEAT_S: Final = 0.2, 0.05
"""A slow process: so long it stands still, so long it runs."""


class Scene(NamedTuple):
    """Where faults happen. ``note`` tells what is done to whom."""

    cluster: Cluster
    rng: random.Random
    note: Callable[[str], None]
    recorder: Recorder

    async def called(self, name: str) -> str:
        """A host: that of the master, of a slave, or the one of that name."""
        if name == "master":
            return (await self.cluster.master()).name
        if name == "slave":
            master = (await self.cluster.master()).name
            return self.rng.choice([each for each in self.cluster.nodes if each != master])
        return name

    async def victims(self, name: str) -> Sequence[Node]:
        """Brokers: all, or one."""
        nodes = self.cluster.nodes
        return list(nodes.values()) if name == "all" else [nodes[await self.called(name)]]

    @contextlib.contextmanager
    def without(self, victims: Sequence[Node]) -> Iterator[None]:
        """They are down. The slave of a master that waits for it has all that was acknowledged,
        and is held to that meanwhile."""
        others = set(self.cluster.nodes) - {each.name for each in victims}
        heirs = others if not self.cluster.elects and BROKERS[0] not in others else set()
        for name in heirs:
            self.recorder.add(Serves(at=self.recorder.now, node=name))
        yield
        for name in heirs:
            self.recorder.add(Serves(at=self.recorder.now, node=name, ends=True))


class Fault(NamedTuple):
    """``happen`` returns when all has healed. ``hosts``: what has to be there."""

    kind: str
    hosts: tuple[str, ...]
    happen: Callable[[Scene], Awaitable[None]]
    brokers: tuple[int, ...] = (1, 2, 3)
    """How many it needs."""
    needs_small_disk: bool = False
    needs_ways: bool = False


async def _kill(who: str, number: signal.Signals, scene: Scene) -> None:
    victims = await scene.victims(who)
    names = ", ".join(each.name for each in victims)
    scene.note(f"{names} {number.name}")
    for each in victims:
        await each.end(number)
    with scene.without(victims):
        await asyncio.sleep(scene.rng.uniform(*_DOWN_S))
    scene.note(f"{names} started")
    await asyncio.gather(*(each.start() for each in victims))


async def _kill_after_cut(scene: Scene) -> None:
    """The slave hears nothing of what the master takes before its end."""
    network, master, slave = scene.cluster.network, BROKERS[0], BROKERS[1]
    seconds = scene.rng.uniform(*_CUT_S) / 2
    scene.note(f"{master}|{slave} cut for {seconds:.1f} s")
    await network.cut([(master, slave), (slave, master)])
    await asyncio.sleep(seconds)
    node = scene.cluster.nodes[master]
    scene.note(f"{master} SIGKILL")
    await node.end()
    await network.heal()
    with scene.without([node]):
        await asyncio.sleep(1 + scene.rng.uniform(*_DOWN_S))
    scene.note(f"{master} started")
    await node.start()


async def _kill_name_server(scene: Scene) -> None:
    scene.note("name server SIGKILL")
    await scene.cluster.name_server.end()
    await asyncio.sleep(scene.rng.uniform(*_DOWN_S))
    scene.note("name server started")
    await scene.cluster.name_server.start()


async def _stand_still(who: str, scene: Scene) -> None:
    [node] = await scene.victims(who)
    seconds = scene.rng.uniform(*_STILL_S)
    scene.note(f"{node.name} SIGSTOP for {seconds:.1f} s")
    node.stand_still()
    await asyncio.sleep(seconds)
    node.go_on()


async def _beats(who: str, scene: Scene) -> None:
    [node] = await scene.victims(who)
    seconds = scene.rng.uniform(*_SLOW_S)
    still_s, runs_s = _BEAT_S
    scene.note(f"{node.name} runs {runs_s:g} s of {still_s + runs_s:g} for {seconds:.1f} s")
    for _ in range(round(seconds / (still_s + runs_s))):
        node.stand_still()
        await asyncio.sleep(still_s)
        node.go_on()
        await asyncio.sleep(runs_s)


async def _on_ways(ways: Sequence[tuple[str, str]], slow: bool, scene: Scene) -> None:
    """The same host has the same name in all of them."""
    hosts = {name: await scene.called(name) for name in {each for way in ways for each in way}}
    await _ways(scene, [(hosts[one], hosts[other]) for one, other in ways], slow=slow)


async def _isolated(who: str, scene: Scene) -> None:
    [node] = await scene.victims(who)
    hosts = {CLIENT, NAMESRV, *scene.cluster.nodes}
    ways = [way for way in scene.cluster.network.ways if node.name in way and hosts.issuperset(way)]
    await _ways(scene, ways, slow=False)


async def _from_all(there: bool, back: bool, scene: Scene) -> None:
    """The master is cut off from all other brokers, not from clients: they go on sending to it."""
    master, nodes = await scene.called("master"), scene.cluster.nodes
    ways = [(master, each) for each in nodes if there and each != master]
    ways += [(each, master) for each in nodes if back and each != master]
    await _ways(scene, ways, slow=False)


async def _ways(scene: Scene, ways: Sequence[Way], *, slow: bool) -> None:
    network = scene.cluster.network
    seconds = scene.rng.uniform(*(_SLOW_S if slow else _CUT_S))
    told = " ".join(f"{one}>{other}" for one, other in ways)
    scene.note(f"{told} {'slow' if slow else 'cut'} for {seconds:.1f} s")
    await (network.slow(ways) if slow else network.cut(ways))
    await asyncio.sleep(seconds)
    await network.heal()


async def _full_disk(who: str, scene: Scene) -> None:
    [node] = await scene.victims(who)
    seconds = scene.rng.uniform(*_FULL_S)
    scene.note(f"disk of {node.name} full for {seconds:.1f} s")
    await asyncio.to_thread(node.disk.fill)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(node.disk.make_room)
    if not node.runs:
        scene.note(f"{node.name} had ended, is started")
        await node.start()


async def _lost_disk(who: str, scene: Scene) -> None:
    [node] = await scene.victims(who)
    scene.note(f"{node.name} SIGKILL, its disk lost")
    await node.end()
    await asyncio.to_thread(node.disk.lose)
    await asyncio.sleep(scene.rng.uniform(*_DOWN_S))
    scene.note(f"{node.name} started with nothing")
    await node.start()


def _of(who: str, kind: str, happen: Callable[[str, Scene], Awaitable[None]]) -> Fault:
    return Fault(f"{who} {kind}", (who,), partial(happen, who))


def _cut(one: str, other: str, *, slow: bool = False) -> Iterator[Fault]:
    """Both ways, and each."""
    there, back = (one, other), (other, one)
    what = "slow" if slow else "cut"
    for sign, ways in (("|", [there, back]), (">", [there]), ("<", [back])):
        kind, hosts = f"{one}{sign}{other} {what}", (one, other)
        yield Fault(kind, hosts, partial(_on_ways, ways, slow), needs_ways=True)


def _faults() -> Iterator[Fault]:
    for who in ("master", "slave"):
        yield Fault(f"{who} killed", (who,), partial(_kill, who, signal.SIGKILL))
        yield _of(who, "stands still", _stand_still)
        yield _of(who, "runs slowly", _beats)
        yield _of(who, "isolated", _isolated)._replace(needs_ways=True)
        yield _of(who, "disk full", _full_disk)._replace(needs_small_disk=True)
    yield Fault("all killed", ("master", "slave"), partial(_kill, "all", signal.SIGKILL))
    yield Fault("master stopped", ("master",), partial(_kill, "master", signal.SIGTERM))
    yield Fault("name server killed", (), _kill_name_server)
    yield from _cut("master", "slave")
    for sign, there, back in (("|", True, True), (">", True, False), ("<", False, True)):
        happen = partial(_from_all, there, back)
        yield Fault(
            f"master{sign}all slaves cut", ("master", "slave"), happen, (3,), needs_ways=True
        )
    hosts = ("master", "slave")
    yield Fault("slave cut, master killed", hosts, _kill_after_cut, (2,), needs_ways=True)
    yield from _cut("client", "master")
    both, *_ = _cut(NAMESRV, "master")
    yield both
    both, *_ = _cut("master", "slave", slow=True)
    yield both
    yield _of("slave", "disk lost", _lost_disk)


FAULTS: Final = tuple(_faults())


def possible(cluster: Cluster) -> list[Fault]:
    """Those that can happen to it."""
    brokers = {"master", *(["slave"] if len(cluster.nodes) > 1 else ())}
    outside = {CLIENT, NAMESRV} & {host for way in cluster.network.ways for host in way}
    small_disks = all(node.disk.can_be_full for node in cluster.nodes.values())
    has_ways = len(brokers) > 1 or bool(outside)
    return [
        fault
        for fault in FAULTS
        if set(fault.hosts) <= brokers | outside
        and len(cluster.nodes) in fault.brokers
        and (small_disks or not fault.needs_small_disk)
        and (has_ways or not fault.needs_ways)
    ]


def deck(faults: Sequence[Fault], rng: random.Random) -> Iterator[Fault]:
    """Each of them once, in any order; then again."""
    while True:
        yield from rng.sample(faults, len(faults))
