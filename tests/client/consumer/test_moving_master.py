"""A consumer goes on reading while a group has no master, and knows the next one at once."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.client.consumer.pulling import (
    ERROR_DELAY,
    Pulled,
    PullRequest,
    PullSettings,
    QueuePuller,
)
from aiorocketmq.client.consumer.subscription import tag_subscription
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import PullSysFlag
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ..moving_master import GONE, GROUP, ONE, THREE, TOPIC, TWO, MovingMaster, Says
from ..scripted_broker import NotingOwner, member_of

NOTHING = Says(ResponseCode.PULL_NOT_FOUND)
SOON_S = 0.35
SETTINGS = PullSettings(32, 15.0, PullSysFlag.SUSPEND, commits_on_pull=False)


class OnePullAtATime:
    """Wants another one when the test says so."""

    def __init__(self) -> None:
        self.pulled = 0
        self.wanted = asyncio.Semaphore(0)

    async def room(self) -> None:
        await self.wanted.acquire()

    def put(self, _pulled: Pulled) -> None:
        self.pulled += 1

    @property
    def consumed(self) -> int | None:
        return None

    def restart(self, _offset: int) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("ids", "reader"), [({2: TWO, 3: THREE}, TWO), ({0: THREE, 1: ONE, 2: TWO}, THREE)]
)
def test_a_pull_goes_on_as_soon_as_the_route_changes(ids: dict[int, str], reader: str) -> None:
    async def main() -> None:
        brokers = dict.fromkeys((ONE, TWO, THREE), NOTHING)
        world = MovingMaster({0: ONE, 2: TWO, 3: THREE}, brokers)
        await world.instance.routes.refresh(TOPIC)
        target = OnePullAtATime()
        member = member_of(world.instance, NotingOwner(), TOPIC)
        subscription = tag_subscription(TOPIC, "*", 1)
        queue = MessageQueue(TOPIC, GROUP, 0)
        puller = QueuePuller(PullRequest(member, queue, subscription, SETTINGS, 5), target)
        pulling = asyncio.create_task(puller.run())
        target.wanted.release()
        await world.pass_time(0.1)
        assert (target.pulled, len(world.asked_of(ONE))) == (1, 1)
        world.brokers[ONE] = GONE
        target.wanted.release()
        target.wanted.release()
        await world.pass_time(0.5)
        world.asked.clear()
        world.ids = ids
        await world.pass_time(SOON_S)
        assert target.pulled == 2
        pulls = [address for _, address, code in world.asked if code is RequestCode.PULL_MESSAGE]
        assert pulls == [reader]
        assert SOON_S < ERROR_DELAY
        pulling.cancel()

    asyncio.run(main())
