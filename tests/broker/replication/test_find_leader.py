"""Where a follower takes its tables from: from where the leader says, not from where somebody else
still believes it to be."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from aiorocketmq.broker.replication.find_leader import (
    ASK_AGAIN_S,
    REGISTER_AGAIN_S,
    FindLeader,
)
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerResponse

from ...sim import ManualClock

OLD = RegisterBrokerResponse(ha_server_addr="10.0.0.1:10912", master_addr="10.0.0.1:10911")


class Scene:
    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.masters: list[str | None] = []
        self.looked_up = 0
        self.clock = ManualClock()
        sync: Any = SimpleNamespace(
            master_is=self.masters.append, forget_master=lambda: self.masters.append(None)
        )
        self.complaints: list[None] = []
        self.find = FindLeader(
            sync, self._ask, self._look_up, lambda: self.complaints.append(None), self.clock
        )

    async def _ask(self) -> str | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def _look_up(self) -> None:
        self.looked_up += 1

    async def passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for _ in range(10):
            await asyncio.sleep(0)


def play(*answers: str | None, told: bool = True, seconds: float = 5.0) -> Scene:
    async def run() -> Scene:
        scene = Scene(*answers)
        service = asyncio.create_task(scene.find.run())
        await scene.passes(0)
        if told:
            scene.find.registered(OLD)
        for _ in range(round(seconds / ASK_AGAIN_S)):
            await scene.passes(ASK_AGAIN_S)
        service.cancel()
        return scene

    return asyncio.run(run())


def test_the_leader_is_asked_until_it_answers() -> None:
    scene = play(None, None, "10.0.0.2:10911")
    assert scene.masters == [None, "10.0.0.2:10911"]
    assert scene.looked_up == 0


def test_a_leader_that_does_not_answer_is_not_looked_for_elsewhere() -> None:
    """What a name server says is the last leader until the new one has registered."""
    assert play(None).masters == [None]


def test_of_a_leader_that_does_not_say_it_the_name_servers_know() -> None:
    assert play("").masters == [None, "10.0.0.1:10911"]
    scene = play("", told=False, seconds=3 * REGISTER_AGAIN_S)
    assert scene.masters == [None]
    assert 2 <= scene.looked_up <= 3


def test_a_leader_that_does_not_say_it_may_register_later() -> None:
    """Until then the name servers have the last leader; and a former one may come in between."""
    new = RegisterBrokerResponse(ha_server_addr="", master_addr="10.0.0.2:10911")
    none = RegisterBrokerResponse(ha_server_addr="", master_addr=None)

    async def run() -> None:
        scene = Scene("")
        service = asyncio.create_task(scene.find.run())
        await scene.passes(0)
        for answer in (OLD, none, new, OLD, new):
            scene.find.registered(answer)
            await scene.passes(ASK_AGAIN_S)
        told = ["10.0.0.1:10911", "10.0.0.2:10911"]
        assert scene.masters == [None, *told, *told]
        assert not scene.complaints
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)
        scene.find.registered(OLD)
        assert scene.masters == [None, *told, *told], "it does not follow any more"

    asyncio.run(run())


def test_a_leader_hears_that_a_name_server_takes_somebody_else_for_it() -> None:
    """A former leader that was stopped for a while may have registered before it knew."""

    async def run() -> None:
        scene = Scene("10.0.0.2:10911")
        service = asyncio.create_task(scene.find.run())
        await scene.passes(0)
        assert not scene.complaints, "nobody has said anything"
        scene.find.registered(OLD)
        assert len(scene.complaints) == 1
        scene.find.registered(RegisterBrokerResponse(ha_server_addr="", master_addr=None))
        assert len(scene.complaints) == 2, "or that there is none"
        scene.find.registered(
            RegisterBrokerResponse(ha_server_addr="", master_addr="10.0.0.2:10911")
        )
        assert len(scene.complaints) == 2
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)
        scene.find.registered(OLD)
        assert len(scene.complaints) == 2, "it does not follow any more"

    asyncio.run(run())


def test_what_was_said_before_the_leader_was_known_counts() -> None:
    scene = play(None, None, "10.0.0.2:10911")
    assert len(scene.complaints) == 1
    assert not play("").complaints, "a leader that does not say where it is"
