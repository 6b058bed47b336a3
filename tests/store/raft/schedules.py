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
        if seed % 20 == 19:
            figure_eight(world)
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
    deliver(world, lambda: all(node.log.end_index >= old for node in rest), 200)
    deliver(world, lambda: False, world.rng.randint(0, 6))
    if first.member is not None:
        world.stop(first)
    leads(world, second, rest)
    world.cut.clear()
    for node in world.nodes.values():
        if node.member is None:
            world.start(node)


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
