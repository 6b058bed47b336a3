"""A member of a group follows what the election says: what ends with leadership ends at once, what
begins with it waits until everything is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.broker.replication.group_roles import PATIENCE_S, GroupRoles, LongUndecided

from ...sim import ManualClock, turns
from ..stages import Failing, Stage


class Scene:
    """Roles, what they look like from outside, and an answer to whether the log is committed."""

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.answers: list[asyncio.Future[bool]] = []
        self.roles = GroupRoles(
            self, self._ready, [Stage("master's", self.diary)], [Stage("slave's", self.diary)]
        )

    def be_master(self) -> None:
        self.diary.append("MASTER")

    def be_slave(self) -> None:
        self.diary.append("SLAVE")

    async def lead(self) -> None:
        """It is elected, and all that its log has is committed."""
        self.roles.elected()
        await turns()
        self.answers[-1].set_result(True)
        await turns()

    async def _ready(self) -> bool:
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    def said(self) -> list[str]:
        diary, self.diary[:] = list(self.diary), []
        return diary


def play(scene: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
    """A test that is given a scene in which the service runs."""

    async def run() -> None:
        world = Scene()
        service = asyncio.create_task(world.roles.run())
        await turns()
        await scene(world)
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)

    return lambda: asyncio.run(run())


@play
async def test_a_leader_becomes_master_when_its_log_is_committed(world: Scene) -> None:
    world.roles.elected()
    await turns()
    assert world.said() == [], "nobody knows yet whether its last entries are messages"
    world.answers[0].set_result(True)
    await turns()
    assert world.said() == ["MASTER", "master's begins"]
    assert world.roles.is_master


@play
async def test_what_ends_with_leadership_ends_at_once(world: Scene) -> None:
    await world.lead()
    world.said()
    world.roles.follows()
    assert world.said() == ["SLAVE"], "in the same turn"
    await turns()
    assert world.said() == ["master's ends", "slave's begins"], "one after the other"


@play
async def test_who_lost_leadership_without_a_leader_is_a_slave_with_nothing_to_do(
    world: Scene,
) -> None:
    await world.lead()
    world.said()
    world.roles.alone()
    await turns()
    assert world.said() == ["SLAVE", "master's ends"]
    assert world.roles.is_decided


@play
async def test_a_candidate_that_never_led_nor_followed_stays_undecided(world: Scene) -> None:
    world.roles.alone()
    await turns()
    assert world.said() == []
    assert not world.roles.is_decided


@play
async def test_another_leader_is_followed_anew(world: Scene) -> None:
    world.roles.follows()
    await turns()
    assert world.said() == ["SLAVE", "slave's begins"]
    world.roles.follows()
    await turns()
    assert world.said() == ["slave's ends", "slave's begins"], "it is a slave already"


@play
async def test_leadership_that_is_lost_before_the_log_is_committed_makes_no_master(
    world: Scene,
) -> None:
    world.roles.elected()
    await turns()
    world.answers[0].set_result(True)
    world.roles.alone()  # in the same turn
    await turns()
    assert world.said() == []
    assert not world.roles.is_master


@play
async def test_what_was_committed_in_an_earlier_term_says_nothing_about_the_next_one(
    world: Scene,
) -> None:
    world.roles.elected()
    await turns()
    world.answers[0].set_result(True)
    world.roles.alone()
    world.roles.elected()
    await turns()
    assert world.said() == []
    world.answers[1].set_result(True)
    await turns()
    assert world.said() == ["MASTER", "master's begins"]


def test_a_duty_that_fails_is_not_passed_over() -> None:
    async def run() -> None:
        world = Scene()
        roles = GroupRoles(world, world._ready, [], [Failing()])
        roles.follows()
        with pytest.raises(ExceptionGroup) as failed:
            await roles.run()
        assert "broken" in str(failed.value.exceptions[0])

    asyncio.run(run())


@pytest.mark.parametrize("decided", [False, True])
def test_who_finds_no_leader_is_known_after_a_while(decided: bool) -> None:
    async def scene(world: Scene) -> None:
        clock, known = ManualClock(), list[bool]()
        if decided:
            world.roles.follows()
        service = asyncio.create_task(
            LongUndecided(world.roles, lambda: known.append(True), clock).run()
        )
        await turns()
        clock.advance(PATIENCE_S - 1)
        await turns()
        assert not known
        clock.advance(1)
        await turns()
        assert known == ([] if decided else [True])
        assert world.roles.is_decided is decided, "it is still to be told what it is"
        service.cancel()

    play(scene)()
