"""How pulled messages get to the handler, side by side (client.md §4.7, §4.8); the whole is in
tests/e2e."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiorocketmq.client.consumer.consumption import ConcurrentConsumption
from aiorocketmq.client.consumer.owned_queue import CacheLimits, OwnedQueue
from aiorocketmq.client.consumer.pulling import PullRequest, PullSettings
from aiorocketmq.client.errors import RetryLater
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.services import TaskSet

from ...sim import ManualClock
from .test_owned_queue import QUEUE, SUBSCRIPTION, World, pulled


class Scene:
    """A consumption with one queue, a handler that fails on demand, and brokers that take messages
    back or not."""

    def __init__(self, *, broadcasting: bool = False, batch_size: int = 1) -> None:
        self.world = World()
        self.clock = ManualClock()
        self.tasks = TaskSet("test")
        self.handled: list[list[int]] = []
        self.failing: Callable[[int], BaseException | None] = lambda _offset: None
        self.given_back: list[tuple[int, int]] = []
        self.brokers_answer = True
        send_back: Any = None if broadcasting else self.send_back
        self.consumption = ConcurrentConsumption(
            "g",
            self.call,
            send_back,
            self.clock,
            self.tasks,
            batch_size=batch_size,
        )
        settings = PullSettings(32, 1.0, 0, commits_on_pull=True)
        self.owned = OwnedQueue(
            PullRequest(self.world.member, QUEUE, SUBSCRIPTION, settings, 5),
            CacheLimits(),
            self.consumption.submit,
            self.world.gate,
        )

    async def call(self, messages: list[MessageExt]) -> None:
        offsets = [message.queue_offset for message in messages]
        self.handled.append(offsets)
        if (error := self.failing(offsets[0])) is not None:
            raise error

    async def send_back(self, message: MessageExt, delay_level: int) -> None:
        if not self.brokers_answer:
            raise ConnectError("nobody there")
        self.given_back.append((message.queue_offset, delay_level))

    async def work_until(self, condition: Callable[[], bool]) -> None:
        worker = asyncio.create_task(self.consumption.work())
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


def test_what_failed_is_given_back_and_no_longer_holds_the_offset() -> None:
    async def main() -> None:
        scene = Scene(batch_size=2)
        scene.failing = lambda offset: RetryLater(7) if offset == 5 else None
        scene.owned.put(pulled(5, 6, 7, following=8))
        await scene.work_until(lambda: scene.world.committed == 8)
        assert (scene.handled, scene.given_back) == ([[5, 6], [7]], [(5, 7), (6, 7)])

    asyncio.run(main())


@pytest.mark.parametrize("running", [True, False])
def test_what_nobody_takes_back_is_tried_again_here_while_the_consumer_runs(running: bool) -> None:
    """At its end nobody is left to do it, and the offset stays before the message: it comes again
    elsewhere."""

    async def main() -> None:
        scene = Scene()
        scene.brokers_answer = False
        scene.failing = lambda _offset: ValueError("no")
        scene.owned.put(pulled(5, following=6))
        if not running:
            scene.consumption.close()
        await scene.consumption._give_back(
            scene.owned,
            scene.owned.process_queue,
            list(pulled(5, following=6).messages),
            ValueError("no"),
        )
        assert len(scene.tasks) == (1 if running else 0)
        assert scene.owned.process_queue.commit_offset == 5
        await scene.tasks.close()

    asyncio.run(main())


def test_what_is_tried_again_here_counts_in_the_end() -> None:
    async def main() -> None:
        scene = Scene()
        scene.brokers_answer = False
        scene.failing = lambda _offset: ValueError("no") if len(scene.handled) == 1 else None
        scene.owned.put(pulled(5, following=6))
        await scene.work_until(lambda: len(scene.tasks) == 1)
        assert (scene.handled, scene.world.committed) == ([[5]], 5)
        await asyncio.sleep(0)
        scene.clock.advance(5.0)
        await scene.work_until(lambda: scene.world.committed == 6)
        assert scene.handled == [[5], [5]]

    asyncio.run(main())


def test_broadcasting_repeats_nothing() -> None:
    async def main() -> None:
        scene = Scene(broadcasting=True)
        scene.failing = lambda _offset: ValueError("no")
        scene.owned.put(pulled(5, following=6))
        await scene.work_until(lambda: scene.world.committed == 6)
        assert (scene.handled, scene.given_back) == ([[5]], [])

    asyncio.run(main())


@pytest.mark.parametrize("brokers_answer", [True, False])
def test_a_handler_that_takes_too_long_does_not_hold_the_offset(brokers_answer: bool) -> None:
    async def main() -> None:
        scene = Scene()
        scene.brokers_answer = brokers_answer
        hangs = asyncio.Event()

        async def call(messages: list[MessageExt]) -> None:
            if messages[0].queue_offset == 5:
                await hangs.wait()

        scene.consumption._call = call
        scene.owned.put(pulled(5, 6, following=7))
        workers = [asyncio.create_task(scene.consumption.work()) for _ in range(2)]
        watch = asyncio.create_task(scene.consumption.watch_timeouts(lambda: [scene.owned], 900.0))
        async with asyncio.timeout(10):
            while 6 in scene.owned.process_queue:
                await asyncio.sleep(0)
        assert scene.world.committed == 5
        scene.clock.advance(900.0)  # nothing is older than that yet
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert scene.given_back == []
        scene.clock.advance(901.0)
        async with asyncio.timeout(10):
            while brokers_answer and scene.world.committed == 5:
                await asyncio.sleep(0)
        assert scene.given_back == ([(5, 3)] if brokers_answer else [])
        hangs.set()  # too late: whatever it says counts no more
        for task in (*workers, watch):
            task.cancel()
        await asyncio.gather(*workers, watch, return_exceptions=True)
        assert scene.world.committed == (7 if brokers_answer else 5)

    asyncio.run(main())
