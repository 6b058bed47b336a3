"""Sends that wait at a master which stands still go on when there is another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiorocketmq.client.cluster.silent_masters import LOOK_EVERY_S, PATIENCE_S, SilentMasters
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport.invocations import Invocations, Send

from ..moving_master import GROUP, NAME_SERVER, ONE, SLAVE, TOPIC, TWO, MovingMaster


class Wire:
    """A connection whose oldest send has waited for so long."""

    def __init__(self, waits_s: float) -> None:
        self.waits_s = waits_s
        self.cut_because = ""

    def oldest_send_s(self) -> float:
        return 0.0 if self.cut_because else self.waits_s

    def cut(self, reason: str) -> None:
        self.cut_because = reason


class Wires:
    """As a RemotingClient."""

    def __init__(self, **wires: Wire) -> None:
        self.wires = wires
        self.looked_at: list[float] = []
        self.now: Callable[[], float] = lambda: 0.0

    def addresses(self) -> list[str]:
        self.looked_at.append(self.now())
        return list(self.wires)

    def connected_to(self, address: str) -> Wire:
        return self.wires[address]


def play(
    ids: dict[int, str], wires: dict[str, Wire], test: Callable[[MovingMaster], Awaitable[None]]
) -> None:
    async def main() -> None:
        world = MovingMaster(ids, {ONE: SLAVE, TWO: SLAVE})
        await world.instance.routes.refresh(TOPIC)
        world.asked.clear()
        silent = SilentMasters(
            Wires(**wires),  # type: ignore[arg-type]
            world.instance.routes,
            world.instance.masters,
            world.clock,
        )
        looking = asyncio.create_task(silent.run())
        await test(world)
        looking.cancel()

    asyncio.run(main())


def test_its_connection_ends_with_the_route() -> None:
    wires = {ONE: Wire(0.0), TWO: Wire(PATIENCE_S), NAME_SERVER: Wire(0.0)}

    async def test(world: MovingMaster) -> None:
        await world.pass_time(1.0)
        assert world.asked == []
        wires[ONE].waits_s = PATIENCE_S
        await world.pass_time(1.0)
        assert 2 <= len(world.asked_of(NAME_SERVER)) <= 5
        assert not any(wire.cut_because for wire in wires.values())
        world.ids = {0: TWO}
        await world.pass_time(2 * LOOK_EVERY_S)
        assert wires[ONE].cut_because
        assert not wires[TWO].cut_because, "the new one is given its time"

    play({0: ONE, 2: TWO}, wires, test)


def test_while_no_send_waits_nobody_looks_often() -> None:
    """A send that begins to wait behind a look is found as soon as one in front of it."""

    async def main() -> None:
        world = MovingMaster({0: ONE, 2: TWO}, {ONE: SLAVE, TWO: SLAVE})
        await world.instance.routes.refresh(TOPIC)
        wires, clock = Wires(**{ONE: Wire(0.0)}), world.clock
        wires.now = clock.monotonic
        silent = SilentMasters(wires, world.instance.routes, world.instance.masters, clock)  # type: ignore[arg-type]
        looking = asyncio.create_task(silent.run())
        await world.pass_time(10 * PATIENCE_S)
        assert len({round(at, 3) for at in wires.looked_at}) <= 12
        world.asked.clear()
        wires.wires[ONE].waits_s = PATIENCE_S - LOOK_EVERY_S
        await world.pass_time(PATIENCE_S)
        wires.wires[ONE].waits_s = PATIENCE_S
        await world.pass_time(LOOK_EVERY_S + 0.05)
        assert world.asked_of(NAME_SERVER)
        looking.cancel()

    asyncio.run(main())


def test_a_group_that_has_none_at_present() -> None:
    wires = {ONE: Wire(PATIENCE_S)}

    async def test(world: MovingMaster) -> None:
        await world.pass_time(0.5)
        world.ids = {2: TWO}
        await world.pass_time(2 * LOOK_EVERY_S)
        assert wires[ONE].cut_because

    play({0: ONE, 2: TWO}, wires, test)


def test_a_broker_without_replicas_is_waited_for() -> None:
    wires = {ONE: Wire(PATIENCE_S)}

    async def test(world: MovingMaster) -> None:
        await world.pass_time(2.0)
        assert world.asked == []
        assert not wires[ONE].cut_because

    play({0: ONE}, wires, test)


def test_whom_nobody_knows_is_left_alone() -> None:
    wires = {ONE: Wire(PATIENCE_S)}

    async def test(world: MovingMaster) -> None:
        world.instance.routes._brokers[GROUP] = {0: TWO, 2: "h:1"}
        await world.pass_time(2.0)
        assert not wires[ONE].cut_because

    play({0: TWO}, wires, test)


def test_only_sends_count() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        waiting = Invocations(loop)
        waiting.add(RequestCode.PULL_MESSAGE, 1, 30)
        assert waiting.oldest_send_s() == 0.0
        waiting.add(Send(RequestCode.SEND_MESSAGE_V2), 2, 30)
        code, future, begun, when = waiting.table[2]
        waiting.table[2] = code, future, begun - 5, when
        assert 5 <= waiting.oldest_send_s() < 6
        waiting.table.pop(2)
        assert waiting.oldest_send_s() == 0.0
        waiting.fail("over")

    asyncio.run(main())
