"""Schedules for the world of ``model.py``: anything, and what chance finds too seldom."""

from __future__ import annotations

from collections.abc import Callable

from aiorocketmq.store.raft.entry_log import CommittedConflict
from aiorocketmq.store.raft.ready import Role

from .model import Node, Violation, World

STEPS = 400


def run(seed: int) -> World:
    """One schedule; a seed is always the same one. Raises Violation."""
    world = World(seed, 3 if seed % 2 else 5)
    try:
        drill = DRILLS.get(seed % 20)
        if drill is not None:
            drill(world)
        for _ in range(STEPS):
            world.step()
        if seed % 4 < 2:
            world.heal()
    except CommittedConflict as error:
        raise Violation(str(error)) from error
    return world


def figure_eight(world: World) -> None:
    """An entry of an old term gets to a majority, and must not be committed by that: who has a
    later one may still lead (Raft, figure 8). How far it gets is chance."""
    first, second, *others = world.nodes.values()
    rest = others[: len(world.names) // 2]
    first.settings = first.settings._replace(push_bytes=1, window_requests=1)
    leads(world, first, [second, *rest])
    world.put()
    deliver(world, lambda: False, 30)
    alone_with_an_entry(world, first)
    leads(world, second, rest)
    alone_with_an_entry(world, second)
    leads(world, first, rest)
    old = first.log.end_index - 1
    deliver(world, lambda: knows(first, old, rest), 200)
    deliver(world, lambda: False, world.rng.choice((0, 0, 1, 5)))
    if first.member is not None:
        world.stop(first)
    leads(world, second, rest)
    world.cut.clear()
    for node in world.nodes.values():
        if node.member is None:
            world.start(node)


def knows(leader: Node, index: int, followers: list[Node]) -> bool:
    """It has heard of all of them that they have it."""
    member = leader.member
    return member is not None and all(member.match_index(f.name) >= index for f in followers)


def lost_log(world: World) -> None:
    """A quorum has an entry; one of them loses its log while the leader is away. With the vote of
    that one somebody could lead who lacks the entry."""
    first, second, *others = world.nodes.values()
    leads(world, first, [second, *others[: len(world.names) // 2 - 1]])
    world.put()
    deliver(world, lambda: first.log.committed >= 0, 200)
    world.stop(first)
    world.stop(second)
    world.lose(second, -1)
    world.start(second)
    world.cut.clear()
    deliver(world, lambda: False, world.rng.randint(0, 200))


def all_empty(world: World) -> None:
    """Everybody's marker says that there was a log, and nobody has one: they elect once all are
    there (that this happens is seen where a schedule ends in peace)."""
    for node in world.nodes.values():
        world.stop(node)
        node.votes = False
    for node in world.nodes.values():
        world.start(node)


DRILLS = {19: figure_eight, 9: lost_log, 8: lost_log, 4: all_empty, 5: all_empty}
"""How a schedule of this rest begins."""


def leads(world: World, node: Node, voters: list[Node]) -> None:
    """It stands until it leads, with these."""
    among = {node.name, *(voter.name for voter in voters)}
    world.cut = {(a, b) for a in world.names for b in world.names if not {a, b} <= among}
    for one in (node, *voters):
        if one.member is None:
            world.start(one)
    deliver(world, lambda: node.leads_term >= 0, 2000, stands=node)


def alone_with_an_entry(world: World, node: Node) -> None:
    """Its last entry stays with it, and then it dies."""
    world.cut = {(a, b) for a in world.names for b in world.names}
    if node.leads_term >= 0:
        world.put_at(node, b"alone")
    if node.member is not None:
        world.stop(node)


def deliver(
    world: World, done: Callable[[], bool], steps: int, *, stands: Node | None = None
) -> None:
    """In order, without faults, until that is so."""
    odds = world.odds
    world.odds = odds._replace(lose=0, double=0, in_order=1, hold_sync=0, malice=0)
    for step in range(steps):
        if done():
            break
        member = stands.member if stands is not None else None
        if stands is not None and step % 100 == 0 and member and member.role is not Role.LEADER:
            world.stand(stands)
        if world.network:
            world.deliver()
        else:
            world.pass_time()
    world.odds = odds
