"""Pull consumers against real daemons."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest

import aiorocketmq.sync
from aiorocketmq import (
    Admin,
    ClientStateError,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
)

from .cluster import (
    BEFORE_THE_NEXT_REBALANCE_S,
    SUSPEND,
    Cluster,
    asynchronous,
    create_topic,
    total_of,
    until,
)


@asynchronous
async def test_order_is_kept_in_every_queue(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 4)
    async with Producer(group, namesrv=shared.namesrv) as producer:
        for number in range(100):
            await producer.send(Message(topic, b"%d" % number), sharding_key=number % 7)
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        seen: dict[int, list[int]] = defaultdict(list)
        for message in await total_of(consumer, 100):
            seen[message.queue_id].append(int(message.body))
    assert len(seen) > 1
    assert all(numbers == sorted(numbers) for numbers in seen.values())


@asynchronous
async def test_tags_are_filtered(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv) as producer:
        for tag in ("a", "b", "c", None) * 5:
            await producer.send(Message(topic, b"x", tags=tag))
        await producer.send(Message(topic, b"last", tags="a"))
    consumer = PullConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND)
    consumer.subscribe(topic, "a || c")
    async with consumer:
        messages = await total_of(consumer, 11)
        assert Counter(message.tags for message in messages) == {"a": 6, "c": 5}
        assert await consumer.poll(timeout=0) == []


@asynchronous
async def test_a_message_counts_when_the_next_one_is_asked_for(
    shared: Cluster, topic: str, group: str
) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    await create_topic(shared.namesrv, topic, 1)
    async with Producer("p", namesrv=shared.namesrv) as producer:
        for number in range(5):
            await producer.send(Message(topic, b"%d" % number))

    async def fail_at_the_third() -> None:
        async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
            async for message in consumer:
                if message.body == b"2":
                    raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        await fail_at_the_third()
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        assert await consumer.committed(queue) == 2
        async for message in consumer:  # it comes again
            assert message.body == b"2"
            break
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        assert await consumer.committed(queue) == 3  # left without an error: that one was consumed


@asynchronous
async def test_commit_reaches_the_broker_before_it_returns(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    queue = MessageQueue(topic, "broker-a", 0)
    async with (
        Producer("p", namesrv=shared.namesrv) as producer,
        PullConsumer(
            group, topic, namesrv=shared.namesrv, auto_commit=False, suspend=SUSPEND
        ) as consumer,
        Admin(namesrv=shared.namesrv) as admin,
    ):
        for number in range(3):
            await producer.send(Message(topic, b"%d" % number))
        await total_of(consumer, 3)
        assert consumer.position(queue) == 3
        await consumer.commit()
        assert await admin.consumer_offset(group, queue) == 3
        await consumer.commit({queue: 1})
        assert await admin.consumer_offset(group, queue) == 1
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        assert [message.body for message in await total_of(consumer, 2)] == [b"1", b"2"]


@asynchronous
async def test_seek_pause_and_time(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    queue = MessageQueue(topic, "broker-a", 0)
    async with (
        Producer("p", namesrv=shared.namesrv) as producer,
        PullConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND) as consumer,
    ):
        for number in range(5):
            await producer.send(Message(topic, b"%d" % number))
        await consumer.assign(await consumer.queues(topic))
        assert consumer.assignment() == {queue}
        messages = await total_of(consumer, 5)
        await consumer.seek(queue, 3)
        assert [message.queue_offset for message in await total_of(consumer, 2)] == [3, 4]
        await consumer.seek_to_begin()
        assert [message.queue_offset for message in await total_of(consumer, 5)] == [0, 1, 2, 3, 4]
        with pytest.raises(aiorocketmq.ConfigError, match="0 to 5"):
            await consumer.seek(queue, 6)
        await consumer.seek_to_begin(queue)
        consumer.pause(queue)
        assert await consumer.poll(timeout=0) == []
        consumer.resume(queue)
        assert (await total_of(consumer, 1))[0].queue_offset == 0
        await consumer.seek_to_end()
        await producer.send(Message(topic, b"new"))
        assert [message.body for message in await total_of(consumer, 1)] == [b"new"]
        with pytest.raises(ClientStateError, match="exclude"):
            consumer.subscribe(topic)
        first = datetime.fromtimestamp(messages[0].store_timestamp / 1000, UTC)
        assert await consumer.offset_for_time(queue, first) == 0
        assert (
            await consumer.offset_for_time(queue, first + timedelta(hours=1)) == 5
        )  # the last one when all are older


@asynchronous
async def test_two_consumers_share_the_queues(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 8)
    async with (
        Producer("p", namesrv=shared.namesrv) as producer,
        PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as first,
    ):
        await until(lambda: len(first.assignment()) == 8, "the first consumer has every queue")
        async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as second:
            await until(
                lambda: len(first.assignment()) == len(second.assignment()) == 4,
                "they have half each",
                BEFORE_THE_NEXT_REBALANCE_S,
            )
            assert not first.assignment() & second.assignment()
            sent = {
                (await producer.send(Message(topic, b"%d" % number))).msg_id for number in range(80)
            }
            received = [
                message.msg_id for message in await total_of(first, 40) + await total_of(second, 40)
            ]
            assert sorted(received) == sorted(sent)
        await until(
            lambda: len(first.assignment()) == 8,
            "the first consumer has every queue again",
            BEFORE_THE_NEXT_REBALANCE_S,
        )
