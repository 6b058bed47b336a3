"""How pulled messages get to the handler, side by side (client.md §4.7, §4.8); the whole is in
tests/e2e."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.client.consumer.consume_hooks import ConsumeHooks
from aiorocketmq.client.consumer.consumption import ConcurrentConsumption
from aiorocketmq.client.consumer.owned_queue import CacheLimits, OwnedQueue
from aiorocketmq.client.consumer.pulling import PullRequest, PullSettings
from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.client.errors import RetryLater
from aiorocketmq.client.handlers import MessageHandler
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.bodies.heartbeat import MessageModel
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.services import TaskSet

from ...sim import ManualClock, turns
from ..scripted_broker import ScriptedBroker
from .test_ordered_consumption import cancels_itself, raises_what_is_no_exception
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


@pytest.mark.parametrize("ends", [cancels_itself, raises_what_is_no_exception])
@pytest.mark.parametrize("looked_at", [False, True])
def test_a_worker_outlives_whatever_its_handler_does(
    ends: Callable[[], Awaitable[None]], looked_at: bool
) -> None:
    async def main() -> None:
        scene = Scene()

        async def call(messages: list[MessageExt]) -> None:
            if messages[0].queue_offset == 5:
                await ends()

        hooks = ConsumeHooks("g", [], None, scene.clock, 60.0)
        closed = scene.consumption.closed
        scene.consumption._call = hooks.around(call, closed) if looked_at else call
        scene.owned.put(pulled(5, 6, following=7))
        worker = asyncio.create_task(scene.consumption.work())
        async with asyncio.timeout(10):
            while scene.world.committed != 7:
                await asyncio.sleep(0)
        assert scene.given_back == [(5, 0)]
        scene.consumption.close()
        await worker

    asyncio.run(main())


def test_what_is_being_given_back_when_its_worker_is_cancelled_is_tried_again_here() -> None:
    async def main() -> None:
        scene = Scene()
        scene.failing = lambda _offset: ValueError("no") if len(scene.handled) == 1 else None
        asked = asyncio.Event()

        async def never(_message: MessageExt, _level: int) -> None:
            asked.set()
            await asyncio.get_running_loop().create_future()

        scene.consumption._send_back = never  # type: ignore[assignment]
        scene.owned.put(pulled(5, following=6))
        worker = asyncio.create_task(scene.consumption.work())
        async with asyncio.timeout(10):
            await asked.wait()
            worker.cancel()
            while len(scene.tasks) == 0:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            scene.clock.advance(5.0)
            while scene.world.committed != 6:
                await asyncio.sleep(0)
        scene.consumption.close()
        await worker

    asyncio.run(main())


def consumer_of_two(handler: MessageHandler, **options: Any) -> PushConsumer:
    """One worker (usually), to which two messages come as soon as it runs; its instance is up."""
    broker = ScriptedBroker()
    broker.have_nothing(0)
    instance = broker.instance()
    instance._state = "running"
    broker.know_topic(instance, "T", 1)
    broker.know_topic(instance, "%RETRY%g", 1)
    broker.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: Reply()
    consumer = PushConsumer("g", instance=instance, **{"concurrency": 1, **options})
    consumer.subscribe("T")
    consumer.on_message(handler)
    consumer.suspend()
    return consumer


async def bring_two(consumer: PushConsumer) -> None:
    async with asyncio.timeout(10):
        while not (owned := [q for queue, q in consumer._queues.items() if queue.topic == "T"]):
            await asyncio.sleep(0)
    owned[0].put(pulled(0, 1, following=2))


def test_a_timer_of_a_handler_that_has_ended_takes_no_worker() -> None:
    async def main() -> None:
        handled: list[int] = []

        async def handle(message: MessageExt) -> None:
            handled.append(message.queue_offset)
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)

        consumer = consumer_of_two(handle)
        async with consumer:
            await bring_two(consumer)
            async with asyncio.timeout(10):
                while len(handled) < 2:
                    await asyncio.sleep(0)
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(consumer._workers) == 1
        await consumer.instance.stop()

    asyncio.run(main())


@pytest.mark.parametrize("heeds", [True, False])
def test_a_program_that_ends_without_stopping_ends_in_the_midst_of_a_handler(heeds: bool) -> None:
    """It cancels all tasks: no handler has done that, whatever it makes of it."""
    handled: list[int] = []

    async def main() -> PushConsumer:
        begun = asyncio.Event()

        async def handle(message: MessageExt) -> None:
            handled.append(message.queue_offset)
            begun.set()
            with nullcontext() if heeds else suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

        consumer = consumer_of_two(handle)
        await consumer.start()
        await bring_two(consumer)
        await begun.wait()
        return consumer

    consumer = asyncio.run(main())
    assert handled == [0]
    assert (len(consumer._workers), len(consumer._tasks)) == (0, 0)
    consumer._state = consumer.instance._state = "stopped"


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
        scene.consumption.close()
        for task in (*workers, watch):
            task.cancel()
        await asyncio.gather(*workers, watch, return_exceptions=True)
        assert scene.world.committed == (7 if brokers_answer else 5)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "offset"),
    [
        ({}, 2),
        ({"model": MessageModel.BROADCASTING}, 2),
        ({"ordered": True}, 0),
        ({"model": MessageModel.BROADCASTING, "ordered": True}, 0),
    ],
)
def test_a_handler_that_never_returns_is_told_of(
    options: dict[str, Any], offset: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And holds its queue only where that is to stay in order."""

    async def main() -> None:
        hangs = asyncio.Event()
        begun: list[int] = []

        async def handle(message: MessageExt) -> None:
            begun.append(message.queue_offset)
            if message.queue_offset == 0:
                await hangs.wait()

        consumer = consumer_of_two(
            handle, concurrency=2, consume_timeout=60.0, offset_folder=tmp_path, **options
        )
        clock = consumer.instance.clock
        assert isinstance(clock, ManualClock)
        async with consumer:
            await bring_two(consumer)
            while 0 not in begun:
                await asyncio.sleep(0)
            for seconds in (60.0, 1.0, 58.0):
                clock.advance(seconds)
                await turns()
                assert lines() == []
            clock.advance(1.0)
            await turns()
            assert lines() == ["handler takes over 60 s group=g message="]
            queue = next(queue for queue in consumer._queues if queue.topic == "T")
            assert consumer._member.offsets.get(queue) == offset
            hangs.set()
        await consumer.instance.stop()

    def lines() -> list[str]:
        told = [record.getMessage() for record in caplog.records]
        return [line.partition("Message")[0] for line in told if line.startswith("handler takes")]

    asyncio.run(main())
