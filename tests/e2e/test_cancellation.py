"""Cancelled at any point, a client leaves nothing behind: no task, no connection, no half of a
frame."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq import (
    ClientInstance,
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    ReplyTimeout,
    SendTimedOut,
    StartFrom,
)

from .cluster import BEFORE_THE_NEXT_REBALANCE_S, Cluster, asynchronous, create_topic, until

FILES = Path("/proc/self/fd")
Work = Callable[[str, str], Coroutine[Any, Any, None]]


async def send(namesrv: str, topic: str) -> None:
    async with Producer("p", namesrv=namesrv) as producer:
        await producer.send(Message(topic, b"x" * 100_000))
        await asyncio.gather(*(producer.send(Message(topic, b"x")) for _ in range(5)))
        producer.send_soon(Message(topic, b"x"))


async def request(namesrv: str, topic: str) -> None:
    async with Producer("p", namesrv=namesrv) as producer:
        with contextlib.suppress(ReplyTimeout, SendTimedOut):  # sending it is part of the time
            await producer.request(Message(topic, b"x"), timeout=0.1)


async def push(namesrv: str, topic: str) -> None:
    handled = asyncio.Event()
    consumer = PushConsumer(
        f"g-{uuid.uuid4().hex}", namesrv=namesrv, suspend=1.0, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(_: MessageExt) -> None:
        await asyncio.sleep(0.001)
        handled.set()

    async with consumer:
        await handled.wait()


async def ordered(namesrv: str, topic: str) -> None:
    """Two members on one client, so that leaving is not the end of everything."""
    handled = asyncio.Event()
    async with ClientInstance(namesrv=namesrv) as instance:
        consumer = PushConsumer(
            f"g-{uuid.uuid4().hex}", instance=instance, ordered=True, start_from=StartFrom.FIRST
        )
        consumer.subscribe(topic)

        @consumer.on_message
        async def handle(_: MessageExt) -> None:
            await asyncio.sleep(0.001)
            handled.set()

        async with consumer:
            await handled.wait()
        assert instance.running


async def pull(namesrv: str, topic: str) -> None:
    group = f"g-{uuid.uuid4().hex}"
    async with PullConsumer(
        group, topic, namesrv=namesrv, suspend=1.0, start_from=StartFrom.FIRST
    ) as consumer:
        assert await consumer.poll()
        await consumer.commit()
        queue = next(iter(consumer.assignment()))
        await consumer.seek_to_begin(queue)
        async for _ in consumer:
            break


def open_files() -> int:
    return len(os.listdir(FILES))


@pytest.mark.parametrize(
    "work", [send, request, push, ordered, pull], ids=lambda work: work.__name__
)
@asynchronous
async def test_nothing_is_left_behind(shared: Cluster, topic: str, work: Work) -> None:
    """Cancelled after ever more turns of the loop, often a second time while it cleans up, until it
    ends by itself."""
    rng = random.Random(work.__name__)
    await create_topic(shared.namesrv, topic, 2)
    async with Producer("p", namesrv=shared.namesrv) as producer:
        await producer.send([Message(topic, b"x")] * 50)
    await work(shared.namesrv, topic)  # whatever is opened once is open
    files = open_files() if FILES.exists() else 0
    log_size = shared.brokers["broker-a"].log_path.stat().st_size
    turns = 0
    for _ in range(60):
        task = asyncio.create_task(work(shared.namesrv, topic))
        for _ in range(turns):
            await asyncio.sleep(0)
        if rng.random() < 0.3:
            await asyncio.sleep(rng.random() * 0.05)
        task.cancel()
        if rng.random() < 0.5:
            for _ in range(rng.randrange(20)):
                await asyncio.sleep(0)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"after {turns} turns: {left}"
        turns += rng.randrange(1, 8)
    if FILES.exists():
        await until(lambda: open_files() <= files, "every connection is closed")
    new = shared.brokers["broker-a"].log_path.read_bytes()[log_size:]
    assert b"bad frame" not in new and b"Traceback" not in new  # noqa: PT018


@asynchronous
async def test_a_cancelled_request_harms_nobody_on_the_same_connection(
    shared: Cluster, topic: str, group: str
) -> None:
    rng = random.Random(1)
    await create_topic(shared.namesrv, topic, 1)
    async with Producer("p", namesrv=shared.namesrv) as producer:
        done = 0
        for _ in range(100):
            tasks = [
                asyncio.create_task(producer.send(Message(topic, b"x" * rng.randrange(1, 50_000))))
                for _ in range(10)
            ]
            for _ in range(rng.randrange(10)):
                await asyncio.sleep(0)
            for task in rng.sample(tasks, 5):
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(not isinstance(result, Exception) for result in results)
            done += sum(not isinstance(result, BaseException) for result in results)
        assert done >= 500
        (address,) = [a for a in producer.instance.remoting.addresses() if a != shared.namesrv]
        connection = producer.instance.remoting.connected_to(address)
        assert connection is not None


@asynchronous
async def test_a_stop_that_is_cancelled_leaves_the_group_all_the_same(
    shared: Cluster, topic: str, group: str
) -> None:
    """Handlers are not waited for any more, but the brokers are told how far we got, and that we
    go."""
    await create_topic(shared.namesrv, topic, 1)
    begun = asyncio.Event()
    consumer = PushConsumer(
        group, namesrv=shared.namesrv, suspend=1.0, start_from=StartFrom.FIRST, concurrency=1
    )
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        if message.queue_offset == 3:
            begun.set()
            await asyncio.Event().wait()

    async with Producer("p", namesrv=shared.namesrv) as producer:
        await producer.send([Message(topic, b"x")] * 5)
    await consumer.start()
    await begun.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await consumer.stop()
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=1.0) as successor:
        await until(
            lambda: len(successor.assignment()) == 1,
            "the queue is free",
            BEFORE_THE_NEXT_REBALANCE_S,
        )
        (queue,) = successor.assignment()
        assert await successor.committed(queue) == 3


@asynchronous
async def test_a_stop_that_is_cancelled_at_once_waits_for_no_handler(
    shared: Cluster, topic: str, group: str
) -> None:
    begun = asyncio.Event()
    consumer = PushConsumer(group, namesrv=shared.namesrv, suspend=1.0, start_from=StartFrom.FIRST)
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(_: MessageExt) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Producer("p", namesrv=shared.namesrv) as producer:
        await producer.send(Message(topic, b"x"))
    await consumer.start()
    await begun.wait()
    stopping = asyncio.create_task(consumer.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    async with asyncio.timeout(10):  # and not the 30 s that handlers have
        with pytest.raises(asyncio.CancelledError):
            await stopping
