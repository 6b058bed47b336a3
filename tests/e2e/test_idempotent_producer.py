"""A producer that is idempotent, in front of real brokers: answers are lost, requests come late,
brokers are killed, masters change. What is acknowledged is in the topic once, and nothing twice."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import pytest

import aiorocketmq.sync
from aiorocketmq import (
    Accumulate,
    Admin,
    Message,
    Producer,
    PullConsumer,
    SendFailed,
    SendResult,
    SendStatus,
    StartFrom,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig

from .cluster import HOST, Cluster, asynchronous, create_topic, until
from .losing_relay import RELAY, LosingRelay, Loss

TOPIC = "Orders"
PAIR: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 20, "haSendHeartbeatInterval": 500}
SEED = 4711
LOST = [Loss.REQUEST, Loss.ANSWER, Loss.LATE]
LOSSES = [Loss.NOTHING] * 17 + LOST


class Sent(NamedTuple):
    """What senders know."""

    acknowledged: list[bytes]
    in_doubt: list[bytes]
    """Or not as safe as they wanted."""


Send = Callable[[list[Message]], Awaitable[SendResult]]


async def send_all(ways: list[Send], count: int, sent: Sent, workers: int = 16) -> None:
    """Messages with numbers as their bodies, by each of the ways in turn, some as lists."""
    numbers = itertools.count()

    async def work(rng: random.Random) -> None:
        while (number := next(numbers)) < count:
            parts = 3 if rng.random() < 0.1 else 1
            bodies = [b"%d.%d" % (number, part) for part in range(parts)]
            messages = [Message(TOPIC, body) for body in bodies]
            try:
                result = await ways[number % len(ways)](messages)
                is_safe = result.status is SendStatus.SEND_OK
            except SendFailed as error:
                if not error.in_doubt:
                    continue
                is_safe = False
            (sent.acknowledged if is_safe else sent.in_doubt).extend(bodies)

    await asyncio.gather(*(work(random.Random(SEED + number)) for number in range(workers)))


def ways_of(producer: Producer, **options: Any) -> list[Send]:
    def given(messages: list[Message]) -> Any:
        return messages if len(messages) > 1 else messages[0]

    return [
        lambda messages: producer.send(given(messages), **options),
        lambda messages: producer.send(given(messages), sharding_key=len(messages), **options),
    ]


async def read_all(namesrv: str) -> Counter[bytes]:
    """How often each body is in the topic."""
    async with Admin(namesrv=namesrv) as admin:
        stats = await admin.topic_stats(TOPIC)
        total = sum(each.max_offset for each in stats.offset_table.values())
    bodies: Counter[bytes] = Counter()
    async with PullConsumer(
        "readers", TOPIC, namesrv=namesrv, start_from=StartFrom.FIRST
    ) as consumer:
        while bodies.total() < total:
            bodies.update(message.body for message in await consumer.poll())
    return bodies


def has_sent(sent: Sent, count: int) -> bool:
    return len(sent.acknowledged) > count


def once_each(sent: Sent, stored: Counter[bytes]) -> None:
    assert [body for body, times in stored.items() if times > 1] == []
    assert set(sent.acknowledged) <= stored.keys()
    assert stored.keys() <= {*sent.acknowledged, *sent.in_doubt}


async def relayed(cluster: Cluster, work: Callable[[LosingRelay], Awaitable[None]]) -> None:
    broker = await asyncio.to_thread(partial(cluster.start_broker, brokerIP1=RELAY))
    await create_topic_directly(cluster, broker.address)
    async with LosingRelay(HOST, broker.port, LOSSES, random.Random(SEED)) as relay:
        await work(relay)
        assert min(relay.counts[loss] for loss in LOST) > 2


async def create_topic_directly(cluster: Cluster, address: str) -> None:
    async with Admin(namesrv=cluster.namesrv) as admin:
        config = TopicConfig(topic_name=TOPIC, read_queue_nums=8, write_queue_nums=8)
        await admin.create_topic_on(address, config)

        async def known() -> bool:
            route = await admin.topic_route(TOPIC)
            return route is not None and bool(route.queue_datas)

        await until(known, "the topic is known")


@pytest.mark.parametrize("idempotent", [True, False])
@asynchronous
async def test_what_is_lost_on_the_way_comes_once(cluster: Cluster, *, idempotent: bool) -> None:
    """And that it would not, without."""

    async def work(relay: LosingRelay) -> None:
        sent = Sent([], [])
        relay.losses = [*LOSSES * 4, Loss.SILENT_ANSWER]
        async with Producer("p", namesrv=cluster.namesrv, idempotent=idempotent) as producer:
            await send_all(ways_of(producer, timeout=3), 400, sent)
        relay.losses = [Loss.NOTHING]
        stored = await read_all(cluster.namesrv)
        if idempotent:
            assert len(sent.acknowledged) > 300
            assert relay.counts[Loss.SILENT_ANSWER]
            once_each(sent, stored)
        else:
            assert max(stored.values()) > 1

    await relayed(cluster, work)


@asynchronous
async def test_brokers_that_are_killed_store_nothing_twice(cluster: Cluster) -> None:
    async def work(relay: LosingRelay) -> None:
        sent = Sent([], [])
        async with Producer("p", namesrv=cluster.namesrv, idempotent=True) as producer:
            sending = asyncio.ensure_future(send_all(ways_of(producer, timeout=30), 600, sent))
            for goal in (200, 400):
                await until(partial(has_sent, sent, goal), "some are sent")
                await asyncio.to_thread(cluster.kill_broker, "broker-a")
                await asyncio.to_thread(partial(cluster.start_broker, brokerIP1=RELAY))
            await sending
        relay.losses = [Loss.NOTHING]
        once_each(sent, await read_all(cluster.namesrv))
        assert not sent.in_doubt

    await relayed(cluster, work)


def test_a_pair_whose_master_is_killed_stores_nothing_twice(cluster: Cluster) -> None:
    cluster.start_broker(brokerRole="SYNC_MASTER", **PAIR)
    asynchronous(lambda: create_topic(cluster.namesrv, TOPIC, 4))()
    cluster.start_slave(**PAIR)
    topics = cluster.store_of("broker-a-1") / "config" / "topics.json"
    sent = Sent([], [])

    async def scenario() -> None:
        await until(lambda: topics.exists() and TOPIC in topics.read_text(), "the topic there")
        async with Producer("p", namesrv=cluster.namesrv, idempotent=True) as producer:
            sending = asyncio.ensure_future(send_all(ways_of(producer, timeout=60), 2000, sent))
            await until(partial(has_sent, sent, 500), "some are sent")
            await asyncio.to_thread(cluster.kill_broker, "broker-a")
            await asyncio.to_thread(cluster.stop_broker, "broker-a-1")
            start = partial(cluster.start_broker, "broker-a-1", brokerName="broker-a", **PAIR)
            await asyncio.to_thread(partial(start, brokerId=0))
            await sending
        once_each(sent, await read_all(cluster.namesrv))
        assert len(sent.acknowledged) > 1500

    asynchronous(scenario)()


@asynchronous
async def test_gathered_messages_and_blocking_producers(cluster: Cluster) -> None:
    async def work(relay: LosingRelay) -> None:
        sent = Sent([], [])
        async with Producer(
            "p", namesrv=cluster.namesrv, idempotent=True, accumulate=Accumulate(linger=0.001),
            send_timeout=10,
        ) as producer:  # fmt: skip
            await send_all(ways_of(producer)[:1], 200, sent)

        def blocking() -> None:
            with (
                aiorocketmq.sync.Producer(
                    "b", namesrv=cluster.namesrv, idempotent=True, send_timeout=10
                ) as producer,
                ThreadPoolExecutor(8) as pool,
            ):
                bodies = [b"b%d" % number for number in range(200)]
                list(pool.map(lambda body: producer.send(Message(TOPIC, body)), bodies))
                sent.acknowledged.extend(bodies)

        await asyncio.to_thread(blocking)
        relay.losses = [Loss.NOTHING]
        once_each(sent, await read_all(cluster.namesrv))
        assert not sent.in_doubt

    await relayed(cluster, work)
