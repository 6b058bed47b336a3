"""Questions to the name server while a master is missing: at once, and then with gaps."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.client.cluster.master_watch import (
    FIRST_GAP_S,
    GAP_GROWTH,
    LONGEST_BACK_OFF_S,
    LONGEST_GAP_S,
)
from aiorocketmq.client.offsets.offset_store import BrokerOffsets
from aiorocketmq.remoting.errors import BrokerError, ConnectError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ..moving_master import (
    GONE,
    GROUP,
    NAME_SERVER,
    ONE,
    SLAVE,
    STEP_S,
    TOPIC,
    TWO,
    MovingMaster,
    Says,
)

QUEUE = MessageQueue(TOPIC, GROUP, 0)
MAX_OFFSET = RequestCode.GET_MAX_OFFSET
HEADER = QueueRequest(topic=TOPIC, queue_id=0)


def play(
    test: Callable[[MovingMaster], Awaitable[None]],
    one: Says = GONE,
    two: Says = SLAVE,
) -> None:
    async def main() -> None:
        world = MovingMaster({0: ONE, 2: TWO}, {ONE: one, TWO: two})
        async with asyncio.timeout(60):
            for topic in (TOPIC, "Other"):
                await world.instance.routes.refresh(topic)
            world.asked.clear()
            await test(world)

    asyncio.run(main())


def test_gaps_grow_while_somebody_waits() -> None:
    async def test(world: MovingMaster) -> None:
        waiting = asyncio.create_task(world.instance.masters.changed(TOPIC, 2.0))
        await world.pass_time(3.0)
        assert waiting.done()
        asked = world.asked_of(NAME_SERVER)
        gaps = [after - before for before, after in itertools.pairwise(asked)]
        expected = [min(FIRST_GAP_S * GAP_GROWTH**n, LONGEST_GAP_S) for n in range(len(gaps))]
        assert gaps == pytest.approx(expected, abs=1.5 * STEP_S)
        assert 15 < len(gaps) < 25
        assert asked[0] <= STEP_S

    play(test)


def test_whoever_waits_is_woken_by_another_address() -> None:
    async def test(world: MovingMaster) -> None:
        waiting = [
            asyncio.create_task(world.instance.masters.changed(topic, 5.0))
            for topic in (TOPIC, TOPIC, "Other")
        ]
        await world.pass_time(1.0)
        world.ids = {0: TWO, 1: ONE}
        await world.pass_time(LONGEST_GAP_S + STEP_S)
        assert all(each.done() for each in waiting)
        assert world.instance.routes.master(GROUP) == TWO

    play(test)


def test_doubts_are_one_question() -> None:
    async def test(world: MovingMaster) -> None:
        for _ in range(100):
            world.instance.masters.doubt(TOPIC)
        await world.pass_time(1.0)
        assert len(world.asked_of(NAME_SERVER)) == 1
        for _ in range(100):
            world.instance.masters.doubt(TOPIC)
            await world.pass_time(0.02)
        assert len(world.asked_of(NAME_SERVER)) <= 1 + 25
        await world.pass_time(2.0)
        world.instance.masters.doubt("Other")
        await world.pass_time(0.1)
        assert list(world.instance.masters._asked) == ["Other"], "what is old is forgotten"

    play(test)


def test_answers_to_what_was_sent_together_are_one_refusal() -> None:
    async def test(world: MovingMaster) -> None:
        masters = world.instance.masters
        back_offs = []
        for _ in range(6):
            for _ in range(64):
                masters.refused(ONE)
            back_offs.append(round(masters.back_off(ONE), 3))
            await world.pass_time(back_offs[-1] + STEP_S)
            assert masters.back_off(ONE) == 0.0
        assert back_offs == [0.05, 0.1, 0.2, 0.4, LONGEST_BACK_OFF_S, LONGEST_BACK_OFF_S]
        await world.pass_time(2.0)
        assert masters.back_off(ONE) == 0.0
        assert not masters.refusals, "nothing is looked up when nobody refuses"

    play(test)


@pytest.mark.parametrize("one", [GONE, SLAVE])
def test_a_question_goes_to_the_new_master(one: Says) -> None:
    async def test(world: MovingMaster) -> None:
        world.ids = {0: TWO, 1: ONE}
        answer = await world.instance.ask_master(QUEUE, MAX_OFFSET, HEADER, timeout=3)
        assert answer.code == 0
        assert (len(world.asked_of(ONE)), len(world.asked_of(TWO))) == (1, 1)

    play(test, one, Says())


@pytest.mark.parametrize(("one", "error"), [(GONE, ConnectError), (SLAVE, BrokerError)])
@pytest.mark.parametrize("name_server_answers", [True, False])
def test_without_a_new_one_the_error_is_told(
    one: Says, error: type[Exception], name_server_answers: bool
) -> None:
    async def test(world: MovingMaster) -> None:
        world.name_server_answers = name_server_answers
        with pytest.raises(error):
            await world.instance.ask_master(QUEUE, MAX_OFFSET, HEADER, timeout=3)
        assert len(world.asked_of(ONE)) == 1

    play(test, one)


def test_what_may_have_been_done_is_not_done_again() -> None:
    async def test(world: MovingMaster) -> None:
        world.ids = {0: TWO, 1: ONE}
        with pytest.raises(BrokerError, match="other"):
            await world.instance.ask_master(QUEUE, MAX_OFFSET, HEADER, timeout=3)
        assert world.asked_of(TWO) == []

    play(test, Says(1, "some other error"), Says())


def test_offsets_are_at_a_slave_too() -> None:
    async def test(world: MovingMaster) -> None:
        world.ids = {2: TWO}
        answer = await world.instance.ask_owner(QUEUE, MAX_OFFSET, HEADER, timeout=3)
        assert answer.code == 0
        assert len(world.asked_of(TWO)) == 1

    play(test, GONE, Says())


@pytest.mark.parametrize("of_masters", [False, True])
def test_of_a_locked_queue_a_slave_is_not_asked_where_the_group_is(of_masters: bool) -> None:
    """It may know less than the master that gave the lock, which would be told that."""

    async def test(world: MovingMaster) -> None:
        world.ids = {2: TWO}
        offsets = BrokerOffsets(world.instance, "g", of_masters=of_masters)
        if of_masters:
            with pytest.raises(ConnectError):
                await offsets.fetch(QUEUE)
        else:
            assert await offsets.fetch(QUEUE) == 5
        assert len(world.asked_of(TWO)) == (0 if of_masters else 1)

    play(test, GONE, Says())
