"""One message of a queue after the other (client.md §4.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.consumer.ordered_consumption import OrderedConsumption, OrderedRetries
from aiorocketmq.client.consumer.owned_queue import CacheLimits, OwnedQueue
from aiorocketmq.client.consumer.pulling import PullRequest, PullSettings
from aiorocketmq.client.errors import DeserializationError, RetryLater, SuspendQueue
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.services import TaskSet

from ...sim import ManualClock
from .test_owned_queue import SUBSCRIPTION, World, pulled


class Scene:
    """Ordered consumption of some queues by some workers."""

    def __init__(
        self, *, queues: int = 1, max_reconsume_times: int = 2**31 - 1, batch_size: int = 1
    ) -> None:
        self.world = World()
        self.clock = ManualClock()
        self.tasks = TaskSet("test")
        self.handled: list[tuple[int, int]] = []
        self.running: set[int] = set()
        self.failing: Callable[[MessageExt], BaseException | None] = lambda _message: None
        self.locked = True
        self.dead: list[int] = []
        self.retry_topic_answers = True
        self.consumption = OrderedConsumption(
            "g",
            self.call,
            self.holds_lock,
            OrderedRetries(1.0, max_reconsume_times, self.to_dead_letters),
            self.clock,
            self.tasks,
            batch_size=batch_size,
        )
        settings = PullSettings(32, 1.0, 0, commits_on_pull=True)
        self.queues = [MessageQueue("T", "broker-a", number) for number in range(queues)]
        self.owned = [
            OwnedQueue(
                PullRequest(self.world.member, queue, SUBSCRIPTION, settings, 0),
                CacheLimits(),
                self.consumption.submit,
                self.world.gate,
            )
            for queue in self.queues
        ]

    def offset(self, queue: int = 0) -> int | None:
        return self.world.member.offsets.get(self.queues[queue])

    async def holds_lock(self, _queue: MessageQueue) -> bool:
        return self.locked

    async def to_dead_letters(self, message: MessageExt) -> None:
        if not self.retry_topic_answers:
            raise ConnectError("nobody there")
        self.dead.append(message.queue_offset)

    async def call(self, messages: list[MessageExt]) -> None:
        queue = messages[0].queue_id
        assert queue not in self.running, "two handlers of one queue at a time"
        self.running.add(queue)
        await asyncio.sleep(0)
        self.running.discard(queue)
        self.handled += [(queue, message.queue_offset) for message in messages]
        if (error := self.failing(messages[0])) is not None:
            raise error

    async def work_until(self, condition: Callable[[], bool], *, workers: int = 3) -> None:
        tasks = [asyncio.create_task(self.consumption.work()) for _ in range(workers)]
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Gone(BaseException):
    """As what ``pytest.fail`` raises."""


async def raises_what_is_no_exception() -> None:
    raise Gone


async def cancels_itself() -> None:
    """As a limit of time that is made at home."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def messages_of(queue: int, *offsets: int) -> list[MessageExt]:
    messages = pulled(*offsets, following=offsets[-1] + 1).messages
    for message in messages:
        message._head = (*message._head[:3], queue, *message._head[4:])
    return messages


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=30),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_each_queue_keeps_its_order_however_many_work(
    portions: list[tuple[int, int]], workers: int, batch_size: int
) -> None:
    async def main() -> None:
        scene = Scene(queues=3, batch_size=batch_size)
        ends = [0, 0, 0]
        for queue, count in portions:
            offsets = range(ends[queue], ends[queue] + count)
            ends[queue] += count
            answer = pulled(*offsets, following=ends[queue])
            scene.owned[queue].put(answer._replace(messages=messages_of(queue, *offsets)))
        await scene.work_until(lambda: len(scene.handled) == sum(ends), workers=workers)
        for queue in range(3):
            assert [offset for handled, offset in scene.handled if handled == queue] == list(
                range(ends[queue])
            )

    asyncio.run(main())


def test_a_failed_message_stops_its_queue_and_comes_again() -> None:
    async def main() -> None:
        scene = Scene(queues=2)
        scene.failing = lambda message: (
            ValueError("no")
            if (message.queue_id, message.queue_offset) == (0, 0) and message.reconsume_times < 2
            else None
        )
        for queue in (0, 1):
            scene.owned[queue].put(
                pulled(0, 1, following=2)._replace(messages=messages_of(queue, 0, 1))
            )
        await scene.work_until(lambda: scene.offset(1) == 2 and len(scene.tasks) == 1)
        assert [offset for queue, offset in scene.handled if queue == 0] == [0]
        await asyncio.sleep(0)
        scene.clock.advance(1.0)
        await scene.work_until(lambda: len(scene.handled) == 4)
        await asyncio.sleep(0)
        scene.clock.advance(1.0)
        await scene.work_until(lambda: scene.offset(0) == 2)
        assert [offset for queue, offset in scene.handled if queue == 0] == [0, 0, 0, 1]

    asyncio.run(main())


@pytest.mark.parametrize("ends", [cancels_itself, raises_what_is_no_exception])
def test_a_worker_outlives_whatever_its_handler_does(ends: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        scene = Scene()

        async def call(messages: list[MessageExt]) -> None:
            scene.handled += [(0, message.queue_offset) for message in messages]
            if messages[0].reconsume_times == 0:
                await ends()

        scene.consumption._call = call
        scene.owned[0].put(pulled(0, 1, following=2))
        worker = asyncio.create_task(scene.consumption.work())
        for number in (0, 1):
            async with asyncio.timeout(10):
                while len(scene.tasks) == 0:
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
                scene.clock.advance(1.0)
                while scene.offset() != number + 1:
                    await asyncio.sleep(0)
        assert scene.handled == [(0, 0), (0, 0), (0, 1), (0, 1)]
        scene.consumption.close()
        await worker

    asyncio.run(main())


def test_a_queue_outlives_a_worker_that_ends_before_its_handler_is_called() -> None:
    """And begins with the same message."""

    async def main() -> None:
        scene = Scene()
        asks = asyncio.Event()

        async def never(_queue: MessageQueue) -> bool:
            asks.set()
            await asyncio.get_running_loop().create_future()
            return True

        scene.consumption._holds_lock = never
        scene.owned[0].put(pulled(0, 1, following=2))
        worker = asyncio.create_task(scene.consumption.work())
        await asks.wait()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        scene.consumption._holds_lock = scene.holds_lock
        await scene.work_until(lambda: scene.offset() == 2)
        assert scene.handled == [(0, 0), (0, 1)]

    asyncio.run(main())


def test_a_worker_that_ends_while_it_passes_a_message_on_leaves_it_to_the_next() -> None:
    async def main() -> None:
        scene = Scene(max_reconsume_times=0)
        scene.failing = lambda message: ValueError("no") if message.queue_offset == 0 else None
        asked = asyncio.Event()

        async def never(_message: MessageExt) -> None:
            asked.set()
            await asyncio.get_running_loop().create_future()

        scene.consumption._to_retry_topic = never
        scene.owned[0].put(pulled(0, 1, following=2))
        worker = asyncio.create_task(scene.consumption.work())
        await asked.wait()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        scene.consumption._to_retry_topic = scene.to_dead_letters
        await scene.work_until(lambda: scene.offset() == 2)
        assert (scene.dead, scene.handled) == ([0], [(0, 0), (0, 0), (0, 1)])

    asyncio.run(main())


def test_a_handler_says_how_long_its_queue_waits() -> None:
    async def main() -> None:
        scene = Scene()
        scene.failing = lambda message: SuspendQueue(20.0) if message.reconsume_times == 0 else None
        scene.owned[0].put(pulled(0, following=1))
        await scene.work_until(lambda: len(scene.tasks) == 1)
        await asyncio.sleep(0)
        scene.clock.advance(19.0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(scene.tasks) == 1
        scene.clock.advance(1.0)
        await scene.work_until(lambda: scene.offset() == 1)

    asyncio.run(main())


def test_what_was_tried_often_enough_becomes_a_dead_letter() -> None:
    async def main() -> None:
        scene = Scene(max_reconsume_times=1)
        scene.retry_topic_answers = False
        scene.failing = lambda message: ValueError("no") if message.queue_offset == 0 else None
        scene.owned[0].put(pulled(0, 1, following=2))
        for attempts in (1, 2):  # the second time nobody takes it
            await scene.work_until(lambda: len(scene.handled) == attempts and len(scene.tasks) == 1)  # noqa: B023
            assert scene.dead == []
            scene.retry_topic_answers = attempts == 2
            await asyncio.sleep(0)
            scene.clock.advance(1.0)
        await scene.work_until(lambda: scene.offset() == 2)
        assert (scene.dead, scene.handled) == ([0], [(0, 0), (0, 0), (0, 0), (0, 1)])

    asyncio.run(main())


def test_what_cannot_be_read_does_not_stop_its_queue() -> None:
    """Tried once, however often others are tried."""

    async def main() -> None:
        scene = Scene()
        scene.failing = lambda message: (
            DeserializationError("no JSON", message) if message.queue_offset == 0 else None
        )
        scene.owned[0].put(pulled(0, 1, following=2))
        await scene.work_until(lambda: scene.offset() == 2)
        assert (scene.dead, scene.handled) == ([0], [(0, 0), (0, 1)])

    asyncio.run(main())


def test_what_its_handler_gives_up_does_not_stop_its_queue() -> None:
    """Otherwise than with another level, which means again in an ordered queue."""

    async def main() -> None:
        scene = Scene()
        levels = {0: RetryLater(-1), 1: RetryLater(5)}
        scene.failing = lambda message: (
            levels.get(message.queue_offset) if message.reconsume_times == 0 else None
        )
        scene.owned[0].put(pulled(0, 1, following=2))
        await scene.work_until(lambda: len(scene.tasks) == 1)
        assert (scene.dead, scene.offset()) == ([0], 1)
        await asyncio.sleep(0)
        scene.clock.advance(1.0)
        await scene.work_until(lambda: scene.offset() == 2)
        assert (scene.dead, scene.handled) == ([0], [(0, 0), (0, 1), (0, 1)])

    asyncio.run(main())


def test_without_the_lock_nothing_is_handed_out() -> None:
    async def main() -> None:
        scene = Scene()
        scene.locked = False
        scene.owned[0].put(pulled(0, following=1))
        await scene.work_until(lambda: len(scene.tasks) == 1)
        assert scene.handled == []
        scene.locked = True
        await asyncio.sleep(0)
        scene.clock.advance(3.0)
        await scene.work_until(lambda: scene.offset() == 1)

    asyncio.run(main())


def test_a_queue_is_given_up_only_when_its_handler_has_ended() -> None:
    async def main() -> None:
        scene = Scene()
        ends = asyncio.Event()

        async def call(_messages: list[MessageExt]) -> None:
            await ends.wait()

        scene.consumption._call = call
        scene.owned[0].put(pulled(0, 1, following=2))
        worker = asyncio.create_task(scene.consumption.work())
        for _ in range(5):
            await asyncio.sleep(0)
        leaving = asyncio.create_task(scene.consumption.leave(scene.owned[0]))
        for _ in range(5):
            await asyncio.sleep(0)
        scene.clock.advance(1.0)
        assert not await leaving
        leaving = asyncio.create_task(scene.consumption.leave(scene.owned[0]))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not leaving.done()
        ends.set()
        assert await leaving
        assert scene.offset() == 1  # what it had counts, the next one is left to the next owner
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)

    asyncio.run(main())


def test_after_a_reset_the_handler_of_before_is_waited_for() -> None:
    async def main() -> None:
        scene = Scene()
        ends = asyncio.Event()
        began: list[int] = []

        async def call(messages: list[MessageExt]) -> None:
            began.append(messages[0].queue_offset)
            await ends.wait()

        scene.consumption._call = call
        scene.owned[0].put(pulled(7, following=8))
        workers = [asyncio.create_task(scene.consumption.work()) for _ in range(2)]
        for _ in range(5):
            await asyncio.sleep(0)
        scene.owned[0].restart(3)
        scene.owned[0].put(pulled(3, following=4))
        for _ in range(5):
            await asyncio.sleep(0)
        assert began == [7]
        ends.set()
        async with asyncio.timeout(10):
            while scene.offset() != 4:
                await asyncio.sleep(0)
        assert began == [7, 3]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    asyncio.run(main())


def test_what_became_a_dead_letter_does_not_come_again_with_the_rest_of_its_batch() -> None:
    """Or it would be stored there at each attempt of the others, and those that come with what
    cannot be read would never be consumed."""

    async def main() -> None:
        scene = Scene(batch_size=3)

        async def call(messages: list[MessageExt]) -> None:
            scene.handled += [(0, message.queue_offset) for message in messages]
            for message in messages:
                if message.queue_offset == 1:
                    raise DeserializationError("no JSON", message)

        scene.consumption._call = call
        scene.owned[0].put(pulled(0, 1, 2, following=3))
        await scene.work_until(lambda: len(scene.tasks) == 1)
        assert (scene.dead, scene.offset()) == ([1], 0)
        await asyncio.sleep(0)
        scene.clock.advance(1.0)
        await scene.work_until(lambda: len(scene.handled) > 3)
        assert (scene.dead, scene.handled[3:]) == ([1], [(0, 0), (0, 2)])
        await scene.work_until(lambda: scene.offset() == 3)

    asyncio.run(main())


class Slow:
    """A handler that takes its time: what has begun, and what to end it with."""

    def __init__(self, scene: Scene, workers: int) -> None:
        self.ends = asyncio.Event()
        self.began: list[int] = []
        scene.consumption._call = self.call
        self.workers = [asyncio.create_task(scene.consumption.work()) for _ in range(workers)]

    async def call(self, messages: list[MessageExt]) -> None:
        self.began.append(messages[0].queue_offset)
        await self.ends.wait()

    async def rest(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for worker in self.workers:
            worker.cancel()
        await asyncio.gather(*self.workers, return_exceptions=True)


def test_however_often_a_queue_is_reset_its_handler_is_waited_for() -> None:
    async def main() -> None:
        scene = Scene()
        slow = Slow(scene, workers=3)
        scene.owned[0].put(pulled(7, following=8))
        for offset in (3, 4, 5):
            await slow.rest()
            scene.owned[0].restart(offset)
            scene.owned[0].put(pulled(offset, following=offset + 1))
        await slow.rest()
        assert slow.began == [7]
        slow.ends.set()
        await slow.rest()
        assert (slow.began, scene.offset()) == ([7, 5], 6)
        await slow.close()

    asyncio.run(main())


def test_a_queue_that_was_reset_is_not_given_up_before_its_handler_has_ended() -> None:
    async def main() -> None:
        scene = Scene()
        slow = Slow(scene, workers=2)
        scene.owned[0].put(pulled(7, following=8))
        await slow.rest()
        scene.owned[0].restart(3)
        scene.owned[0].put(pulled(3, following=4))
        leaving = asyncio.create_task(scene.consumption.leave(scene.owned[0]))
        await slow.rest()
        assert not leaving.done()
        slow.ends.set()
        assert await leaving
        await slow.rest()
        assert slow.began == [7]
        await slow.close()

    asyncio.run(main())


def test_what_waited_when_its_queue_was_reset_keeps_no_worker_busy() -> None:
    async def main() -> None:
        scene = Scene()
        scene.owned[0].put(pulled(0, 1, 2, following=3))
        scene.owned[0].restart(3)
        worker = asyncio.create_task(scene.consumption.work())
        for _ in range(10):
            await asyncio.sleep(0)
        assert scene.consumption._backlog._idle, "the worker waits for work"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        scene.owned[0].put(pulled(3, following=4))
        await scene.work_until(lambda: scene.offset() == 4)
        assert scene.handled == [(0, 3)]

    asyncio.run(main())
