"""An ordered consumer whose lock was somebody else's for a while (client.md §4.9), on a scripted
broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from .consumer.test_owned_queue import pulled
from .scripted_broker import ScriptedBroker


@pytest.mark.parametrize("meanwhile", ["lost", "kept"])
def test_no_offset_is_told_of_a_queue_that_another_had_meanwhile(meanwhile: str) -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        broker.have_nothing(7)
        instance = broker.instance()
        instance._state = "running"
        (queue,) = broker.know_topic(instance, "T", 1)
        broker.know_topic(instance, "%RETRY%g", 1)
        consumer = PushConsumer("g", instance=instance, ordered=True)
        consumer.subscribe("T")

        @consumer.on_message
        async def handle(_: MessageExt) -> None: ...

        consumer.suspend()
        async with consumer:
            async with asyncio.timeout(10):
                while queue not in consumer.assignment():
                    await asyncio.sleep(0)
            consumer._member.offsets.update(queue, 9)
            assert consumer._locks is not None
            if meanwhile == "lost":
                broker.locked_by_others = {queue}
                await consumer._locks.acquire([queue])
                broker.locked_by_others = set()  # and free again before we give it up
            broker.asked.clear()
        told = [
            request.commit_offset
            for request in broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
            if request.topic == "T"
        ]
        assert told == ([9] if meanwhile == "kept" else [])
        await instance.stop()

    asyncio.run(main())


class Scene:
    """A consumer that has pulled five messages, and whose handler has the first of them in hand."""

    def __init__(self) -> None:
        self.broker = ScriptedBroker()
        self.broker.have_nothing(0)
        self.instance = self.broker.instance()
        self.instance._state = "running"
        (self.queue,) = self.broker.know_topic(self.instance, "T", 1)
        self.broker.know_topic(self.instance, "%RETRY%g", 1)
        self.consumer = PushConsumer("g", instance=self.instance, ordered=True)
        self.consumer.subscribe("T")
        self.consumer.on_message(self.handle)
        self.go_on = asyncio.Event()
        self.handled: list[int] = []

    async def handle(self, message: MessageExt) -> None:
        self.handled.append(message.queue_offset)
        await self.go_on.wait()

    async def begin(self) -> None:
        await until(lambda: self.queue in self.consumer.assignment())
        self.consumer._queues[self.queue].put(pulled(0, 1, 2, 3, 4, following=5))
        await until(lambda: self.handled == [0])

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.broker.clock.advance(0.1)
            for _ in range(10):
                await asyncio.sleep(0)

    @property
    def told(self) -> list[int]:
        """Offsets of the topic, by requests of their own and with pulls."""
        return [
            request.commit_offset
            for code in (RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.PULL_MESSAGE)
            for request in self.broker.requests(code)
            if request.topic == "T"
            and (
                code is not RequestCode.PULL_MESSAGE or request.sys_flag & PullSysFlag.COMMIT_OFFSET
            )
        ]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def play(scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        world = Scene()
        world.consumer.suspend()
        async with world.consumer:
            await world.begin()
            await scene(world)
            world.go_on.set()
        await world.instance.stop()

    asyncio.run(main())


def test_what_is_held_of_a_queue_that_another_had_meanwhile_is_history() -> None:
    """Nothing is told of it, and nothing of it is handled, also once it is free again; it begins
    anew where the other one left it."""

    async def scene(world: Scene) -> None:
        broker, member = world.broker, world.consumer._member
        broker.locked_by_others = {world.queue}
        assert world.consumer._locks is not None
        await world.consumer._locks.acquire([world.queue])
        broker.asked.clear()
        await world.pass_time(7)
        assert (world.queue in member.lost, world.told) == (True, [])
        broker.have_nothing(101)
        broker.locked_by_others = set()
        world.go_on.set()
        await world.pass_time(40)
        assert world.handled == [0]
        assert world.queue not in member.lost
        assert set(world.told) == {101}

    play(scene)


@pytest.mark.parametrize("seconds", [30, 100])
def test_who_was_cut_off_for_longer_than_a_lock_lives_may_have_lost_it(seconds: int) -> None:
    async def scene(world: Scene) -> None:
        broker = world.broker
        broker.down = True
        broker.restart()
        await world.pass_time(seconds)
        broker.down = False
        broker.have_nothing(101)
        broker.asked.clear()
        await world.pass_time(10)
        world.go_on.set()
        await world.pass_time(40)
        if seconds > 60:
            assert (world.handled, set(world.told)) == ([0], {101})
        else:
            assert (world.handled, world.told[-1]) == ([0, 1, 2, 3, 4], 5)

    play(scene)


@pytest.mark.parametrize("meanwhile", ["lost", "kept"])
def test_pulls_and_regular_commits_tell_of_queues_that_are_ours(meanwhile: str) -> None:
    async def scene(world: Scene) -> None:
        world.consumer._member.offsets.update(world.queue, 9)
        if meanwhile == "lost":
            world.consumer._member.lost.add(world.queue)
        world.broker.asked.clear()
        world.consumer.resume()
        await until(lambda: len(pulls_of(world)) > 2)
        await world.pass_time(6)
        by_itself = [
            request.commit_offset
            for request in world.broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
            if request.topic == "T"
        ]
        with_pulls = {request.commit_offset for request in pulls_of(world)}
        assert (by_itself, with_pulls) == (([9], {9}) if meanwhile == "kept" else ([], {0}))

    play(scene)


def pulls_of(world: Scene) -> list[PullMessageRequest]:
    return [
        request
        for request in world.broker.requests(RequestCode.PULL_MESSAGE)
        if request.topic == "T"
    ]
