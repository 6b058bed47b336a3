"""Who is told of members that come and go, and how often."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.state.client_watch import TOLD_AT_ONCE, ClientWatch
from aiorocketmq.broker.state.queue_locks import QueueLocks
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ...sim import ManualClock, told_of


class Member:
    """A connection, and what is told over it."""

    def __init__(self, number: int, told: list[tuple[str, int]]) -> None:
        self.number = number
        self.closed = False
        self._told = told

    def invoke_oneway(self, code: RequestCode, header: Any) -> None:
        assert code is RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert not self.closed
        self._told.append((header.consumer_group, self.number))


class World:
    """Groups as the test has them; ``told``: group and member, in order."""

    def __init__(self, **groups: int) -> None:
        self.told: list[tuple[str, int]] = []
        self.groups = {
            name: [Member(number, self.told) for number in range(count)]
            for name, count in groups.items()
        }
        config: Any = BrokerConfig()
        members: Any = self
        self.watch = ClientWatch(config, members, members, QueueLocks(told_of()), ManualClock())

    def connections(self, group: str) -> list[Member]:
        return list(self.groups[group])

    def times(self, group: str) -> set[int]:
        """How often its members were told."""
        counts = Counter(number for name, number in self.told if name == group)
        return {counts[member.number] for member in self.groups[group]}


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(test(**arguments))

    return run


async def until_quiet(world: World) -> None:
    for _ in range(100):
        await asyncio.sleep(0)
    assert not world.watch._untold


@on_a_loop
async def test_a_small_group_is_told_at_once() -> None:
    world = World(g=TOLD_AT_ONCE)
    world.watch.notify("g")
    assert world.times("g") == {1}
    world.watch.notify("g")
    await until_quiet(world)
    assert world.times("g") == {2}


@on_a_loop
async def test_of_many_small_groups_some_are_told_in_a_turn() -> None:
    """A client may be in thousands, and they lose it together."""
    groups = [f"g{number}" for number in range(200)]
    world = World(**dict.fromkeys(groups, 10))
    for group in groups:
        world.watch.notify(group)
    assert len(world.told) == TOLD_AT_ONCE
    before = 0
    while world.watch._untold:
        assert len(world.told) - before <= TOLD_AT_ONCE
        before = len(world.told)
        await asyncio.sleep(0)
    assert {count for group in groups for count in world.times(group)} == {1}
    await asyncio.sleep(0)
    world.watch.notify(groups[0])
    assert world.times(groups[0]) == {2}


@on_a_loop
async def test_a_large_group_is_told_in_turns() -> None:
    world = World(g=1000)
    world.watch.notify("g")
    assert len(world.told) == TOLD_AT_ONCE
    await asyncio.sleep(0)
    assert len(world.told) == 2 * TOLD_AT_ONCE
    await until_quiet(world)
    assert world.times("g") == {1}


@on_a_loop
async def test_changes_that_come_meanwhile_are_told_together_and_to_all() -> None:
    world = World(g=1000)
    for _ in range(500):
        world.watch.notify("g")
    await until_quiet(world)
    assert world.times("g") == {2}, "who was told before the last change has to be told again"
    world.watch.notify("g")
    await until_quiet(world)
    assert world.times("g") == {3}


@on_a_loop
async def test_who_joins_meanwhile_is_told_and_who_has_left_is_not() -> None:
    world = World(g=300)
    world.watch.notify("g")
    for member in world.groups["g"][-100:]:
        member.closed = True
    del world.groups["g"][-100:]
    world.groups["g"].append(Member(300, world.told))
    world.watch.notify("g")
    await until_quiet(world)
    assert world.times("g") == {1, 2}
    assert ("g", 300) in world.told


@on_a_loop
async def test_groups_take_turns() -> None:
    world = World(g=1000, h=100)
    world.watch.notify("g")
    world.watch.notify("h")
    for _ in range(4):
        await asyncio.sleep(0)
    assert world.times("h") == {1}
    assert world.times("g") == {0, 1}
    await until_quiet(world)
    assert world.times("g") == {1}


@pytest.mark.parametrize("count", [1, 1000])
@on_a_loop
async def test_nobody_is_told_where_that_is_switched_off(count: int) -> None:
    world = World(g=count)
    world.watch._config.notify_consumer_ids_changed_enable = False
    world.watch.notify("g")
    await until_quiet(world)
    assert not world.told


@on_a_loop
async def test_groups_whose_locks_end_have_their_turns() -> None:
    """There may be thousands, while a new leader is elected."""
    groups = [f"g{number}" for number in range(50)]
    world = World(**dict.fromkeys(groups, 10))
    for group in groups:
        world.watch._locks.lock(group, "me", [MessageQueue("T", "b", 0)], 0)
    world.watch.notify(groups[0])
    world.told.clear()
    world.watch.end_locks()
    assert not world.told
    await asyncio.sleep(0)
    assert len(world.told) <= TOLD_AT_ONCE
    await until_quiet(world)
    assert {count for group in groups for count in world.times(group)} == {1}
