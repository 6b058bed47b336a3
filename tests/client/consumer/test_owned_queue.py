"""A queue of a push consumer and the offset that the group may commit (client.md §4.5 to §4.7,
§4.10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.consumer.group_member import GroupMember
from aiorocketmq.client.consumer.owned_queue import CacheLimits, OwnedQueue, checked_limits
from aiorocketmq.client.consumer.pulling import Pulled, PullRequest, PullSettings, PullStatus
from aiorocketmq.client.consumer.rebalance import averagely
from aiorocketmq.client.consumer.subscription import tag_subscription
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.client.offsets.start_offset import StartFrom, StartPolicy
from aiorocketmq.remoting.protocol.bodies.heartbeat import ConsumeType
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.services import TaskSet

from ..messages import stored
from ..scripted_broker import NotingOwner, ScriptedBroker, member_of

QUEUE = MessageQueue("T", "broker-a", 0)
SUBSCRIPTION = tag_subscription("T", "*", 1)


class Owner:
    """A consumer that only notes what it is told."""

    def __init__(self) -> None:
        self.given_up: list[MessageQueue] = []

    def take(self, queue: MessageQueue, offset: int) -> None:
        raise AssertionError("nothing is to be taken here")

    async def give_up(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        self.given_up += queues
        return queues

    def stalled(self) -> list[MessageQueue]:
        return []


class Member(GroupMember):
    """A member that knows who is in its group without asking."""

    ids: tuple[str, ...] = ()

    async def _member_ids(self, _route: object) -> list[str]:
        return list(self.ids)


class World:
    """A member of a group on a client that is connected to nobody."""

    def __init__(self) -> None:
        self.instance = ClientInstance(namesrv="127.0.0.1:1", instance_name="me")
        self.owner = Owner()
        self.member = Member(
            self.instance,
            "g",
            self.owner,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            allocate=averagely,
            start=StartPolicy(StartFrom.FIRST, None, 0),
        )
        self.submitted: list[MessageExt] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def own(self, offset: int = 0, limits: CacheLimits = CacheLimits()) -> OwnedQueue:  # noqa: B008  (immutable)
        self.member.offsets.update(QUEUE, offset, only_forwards=False)
        return OwnedQueue(
            PullRequest(
                self.member,
                QUEUE,
                SUBSCRIPTION,
                PullSettings(32, 1.0, 0, commits_on_pull=True),
                offset,
            ),
            limits,
            lambda _owned, messages: self.submitted.extend(messages),
            self.gate,
        )

    @property
    def committed(self) -> int | None:
        return self.member.offsets.get(QUEUE)


def play(scene: Callable[[World], None]) -> None:
    async def main() -> None:
        scene(World())

    asyncio.run(main())


def pulled(*offsets: int, following: int) -> Pulled:
    return Pulled(PullStatus.FOUND, [stored(offset) for offset in offsets], following, 0, 100, 0)


def test_the_offset_never_passes_a_message_that_is_held() -> None:
    def scene(world: World) -> None:
        owned = world.own(5)
        owned.put(pulled(5, 6, following=7))
        first, second = world.submitted
        owned.put(
            pulled(following=50)
        )  # nothing for us up to there, but 5 and 6 are not consumed yet
        assert world.committed == 5
        owned.finish(owned.process_queue, [second])
        assert world.committed == 5
        owned.finish(owned.process_queue, [first])
        assert world.committed == 7
        owned.put(pulled(following=50))
        assert world.committed == 50

    play(scene)


def test_what_a_handler_finishes_after_the_queue_is_lost_counts_no_more() -> None:
    def scene(world: World) -> None:
        owned = world.own(5)
        owned.put(pulled(5, 6, following=7))
        process_queue = owned.process_queue
        owned.drop()
        owned.finish(process_queue, world.submitted)
        assert world.committed == 5

    play(scene)


def test_an_offset_that_was_reset_is_not_undone_by_a_handler_that_still_runs() -> None:
    def scene(world: World) -> None:
        owned = world.own(5)
        owned.put(pulled(5, 6, following=7))
        before = owned.process_queue
        owned.restart(2)
        owned.finish(before, world.submitted)
        assert world.committed == 2

    play(scene)


def test_an_offset_goes_backwards_only_on_purpose() -> None:
    def scene(world: World) -> None:
        offsets = world.member.offsets
        for offset, only_forwards, expected in (
            (9, True, 9),
            (4, True, 9),
            (4, False, 4),
            (5, True, 5),
        ):
            offsets.update(QUEUE, offset, only_forwards=only_forwards)
            assert offsets.get(QUEUE) == expected

    play(scene)


def test_pulling_waits_while_too_much_is_held() -> None:
    async def main() -> None:
        world = World()
        owned = world.own(limits=CacheLimits(messages=2))
        owned.put(pulled(0, 1, 2, following=3))
        waiting = asyncio.create_task(owned.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        owned.finish(owned.process_queue, world.submitted[:1])
        async with asyncio.timeout(10):
            await waiting

    asyncio.run(main())


def test_pulling_waits_while_the_consumer_is_suspended() -> None:
    async def main() -> None:
        world = World()
        world.gate.clear()
        waiting = asyncio.create_task(world.own().room())
        await asyncio.sleep(0)
        assert not waiting.done()
        world.gate.set()
        async with asyncio.timeout(10):
            await waiting

    asyncio.run(main())


def test_a_member_that_its_broker_has_lost_sight_of_keeps_its_queues() -> None:
    async def main() -> None:
        world = World()
        member = world.member
        member.subscribe(SUBSCRIPTION)
        data = TopicRouteData(
            queue_datas=[
                QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
            ],
            broker_datas=[
                BrokerData(cluster="C", broker_name="broker-a", broker_addrs={0: "127.0.0.1:1"})
            ],
        )
        world.instance.routes._routes["T"] = topic_route("T", data)
        member.owned.add(QUEUE)
        member.offsets.update(QUEUE, 5)
        member.ids = ("somebody else",)
        assert not await member._divide("T")
        assert (member.owned, world.owner.given_up) == ({QUEUE}, [])
        member.ids = (world.instance.client_id,)
        assert await member._divide("T")
        assert world.owner.given_up == []
        member.ids = (
            "0",
            world.instance.client_id,
        )  # one queue, and the other one's id is the smaller
        assert await member._divide("T")
        assert (member.owned, world.owner.given_up, world.committed) == (set(), [QUEUE], None)

    asyncio.run(main())


async def is_held_back(owned: OwnedQueue) -> bool:
    waiting = asyncio.create_task(owned.room())
    await asyncio.sleep(0)
    held = not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return held


@pytest.mark.parametrize(
    ("limits", "held"),
    [
        (CacheLimits(), False),
        (CacheLimits(messages=3), False),  # a limit may be reached, not passed
        (CacheLimits(messages=2), True),
        (CacheLimits(size_bytes=3 * 4), False),
        (CacheLimits(size_bytes=3 * 4 - 1), True),
        (CacheLimits(span=98), False),
        (CacheLimits(span=97), True),
        (CacheLimits(total_messages=6).share(2), False),
        (CacheLimits(total_messages=6).share(3), True),
        (CacheLimits(total_size_bytes=36).share(3), False),
        (CacheLimits(total_size_bytes=36).share(4), True),
    ],
)
def test_what_holds_pulling_back(limits: CacheLimits, held: bool) -> None:
    """Three messages of four bytes at 0, 1 and 98."""

    async def main() -> None:
        world = World()
        owned = world.own(limits=limits)
        owned.put(pulled(0, 1, 98, following=99))
        assert await is_held_back(owned) is held
        owned.finish(owned.process_queue, world.submitted)
        assert not await is_held_back(owned)

    asyncio.run(main())


def test_every_queue_has_at_least_a_share_of_one() -> None:
    assert CacheLimits(total_messages=3, total_size_bytes=10).share(100)[:2] == (1, 1)
    assert CacheLimits(messages=7).share(100).messages == 7


@pytest.mark.parametrize(
    "bad", [CacheLimits(messages=0), CacheLimits(span=-1), CacheLimits(total_messages=0)]
)
def test_limits_have_to_be_positive(bad: CacheLimits) -> None:
    with pytest.raises(ConfigError, match="cache"):
        checked_limits(bad)


@pytest.mark.parametrize(("suspend", "longest"), [(1.0, 120.0), (600.0, 630.0)])
def test_a_pull_that_does_not_come_back_is_noticed(suspend: float, longest: float) -> None:
    """Waiting for room is no stall, however long it takes."""

    async def main() -> None:
        broker = ScriptedBroker()
        instance = broker.instance()
        (queue,) = broker.know_topic(instance, "T", 1)
        member = member_of(instance, NotingOwner(), "T")
        gate = asyncio.Event()
        settings = PullSettings(32, suspend, 0, commits_on_pull=True)
        owned = OwnedQueue(
            PullRequest(member, queue, SUBSCRIPTION, settings, 0),
            CacheLimits(),
            lambda _owned, _messages: None,
            gate,
        )
        hanging = asyncio.Event()
        remoting: Any = instance.remoting
        remoting._connect = lambda *_: hanging.wait()
        tasks = TaskSet("test")
        owned.start(tasks)
        await asyncio.sleep(0)
        broker.clock.advance(1000)
        assert not owned.pulling.stalled()
        gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not owned.pulling.stalled()
        broker.clock.put_forward(3600)
        assert not owned.pulling.stalled(), "the clock on the wall says nothing"
        broker.clock.put_forward(-7200)
        broker.clock.advance(longest)
        assert not owned.pulling.stalled()
        broker.clock.advance(1)
        assert owned.pulling.stalled()
        await tasks.close()
        await instance.remoting.close()

    asyncio.run(main())
