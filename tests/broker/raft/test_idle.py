"""Members of a group that nobody uses: what wakes them, and what is noticed no later for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiorocketmq.store.raft.ready import Role

from .world import STEP_S, Group, Sends, SimNode

HEARTBEAT_S = 0.3
PATIENCE_S = 3 * HEARTBEAT_S


def idle(test: Callable[[Group, SimNode], Awaitable[None]]) -> None:
    """Everybody has everything, and has for a while."""

    async def main() -> None:
        group = Group()
        try:
            group.start()
            leader, sends = await group.leader(), Sends()
            sends.send(leader, b"all have it")
            await group.until(lambda: sends.told)
            await passes(group, 3.0)
            await test(group, leader)
        finally:
            await group.close()

    asyncio.run(main())


async def passes(group: Group, seconds: float) -> None:
    end = group.clock.monotonic() + seconds
    await group.until(lambda: group.clock.monotonic() >= end)


def test_answers_that_were_expected_do_not_wake_the_leader() -> None:
    async def test(group: Group, leader: SimNode) -> None:
        member: Any = leader.node
        turns, ticks = Counter[str](), Counter[str]()

        def counted(into: Counter[str], what: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any) -> Any:
                into[what.__name__] += 1
                return what(*args)

            return call

        inner = member._member
        inner.take, inner.tick = counted(turns, inner.take), counted(ticks, inner.tick)
        await passes(group, 3.0)
        assert ticks["tick"] >= 10, "heartbeats"
        assert turns["take"] == ticks["tick"]

    idle(test)


def test_a_leader_without_followers_gives_up_as_long_after_their_last_answer() -> None:
    async def test(group: Group, leader: SimNode) -> None:
        [pipe, _] = group.pipes_of(leader)
        written = len(pipe.writes)
        await group.until(lambda: len(pipe.writes) > written)  # and it is answered at once
        group.cut(leader.id)
        took = await group.until(lambda: leader.node.role is not Role.LEADER)
        assert took <= PATIENCE_S + 3 * STEP_S

    idle(test)


def test_a_follower_that_was_away_gets_what_it_lacks_with_its_first_answer() -> None:
    async def test(group: Group, leader: SimNode) -> None:
        [away, _] = (each for each in group.members.values() if each is not leader)
        await away.crash()
        await passes(group, 10.0)
        sends = Sends()
        sends.send(leader, b"later")
        await group.until(lambda: sends.told)
        group.start(away.id)
        took = await group.until(lambda: b"later" in group.stores[away.id].bodies)
        assert took <= 2 * HEARTBEAT_S

    idle(test)
