"""What administrators ask of consumers that run, and what consumers notice of their cluster;
against real daemons."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from aiorocketmq import (
    Admin,
    Message,
    MessageExt,
    MessageModel,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    StartFrom,
    SuspendQueue,
)
from aiorocketmq.remoting.protocol.bodies.running_info import CMResult
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig

from .cluster import SUSPEND, Cluster, asynchronous, create_topic, total_of, until


@pytest.mark.parametrize("ordered", [False, True], ids=["side by side", "ordered"])
@asynchronous
async def test_a_group_that_runs_is_reset(
    shared: Cluster, topic: str, group: str, ordered: bool
) -> None:
    """While a handler still runs: what it makes of its message counts no more."""
    await create_topic(shared.namesrv, topic, 1)
    queue = MessageQueue(topic, "broker-a", 0)
    handled: list[int] = []
    gate, waits = asyncio.Event(), asyncio.Event()
    consumer = PushConsumer(
        group,
        namesrv=shared.namesrv,
        suspend=SUSPEND,
        ordered=ordered,
        start_from=StartFrom.FIRST,
        concurrency=1,
        commit_interval=0.1,
        stop_timeout=1.0,
    )
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        if message.queue_offset == 4 and not gate.is_set():
            waits.set()
            await gate.wait()
        handled.append(message.queue_offset)

    async with (
        Producer("p", namesrv=shared.namesrv) as producer,
        Admin(namesrv=shared.namesrv) as admin,
    ):
        await producer.send(Message(topic, b"0"))
        await asyncio.sleep(0.2)  # brokers take the nearest message
        then = (
            int(time.time() * 1000) - 20
        )  # not behind what comes now, however a millisecond is rounded
        await producer.send([Message(topic, b"%d" % number) for number in range(1, 5)])
        async with consumer:
            await waits.wait()
            await until(
                lambda: _is(admin.consumer_offset(group, queue), 4), "the broker knows the group"
            )
            assert await admin.reset_offsets(group, topic, then) == {queue: 1}
            await until(
                lambda: consumer.running_info().mq_table[queue].commit_offset == 1,
                "the consumer was told",
            )
            gate.set()
            await until(
                lambda: handled.count(4) == 2 or handled[5:] == [1, 2, 3, 4], "all of them again"
            )
        assert handled == [0, 1, 2, 3, 4, 1, 2, 3, 4]
        assert await admin.consumer_offset(group, queue) == 5


@pytest.mark.parametrize("ordered", [False, True], ids=["side by side", "ordered"])
@asynchronous
async def test_a_consumer_shows_what_it_does(
    shared: Cluster, topic: str, group: str, ordered: bool
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    consumer = PushConsumer(
        group, namesrv=shared.namesrv, suspend=SUSPEND, ordered=ordered, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)
    handled: list[bytes] = []

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        handled.append(message.body)
        if message.body == b"later":
            raise SuspendQueue
        if message.body == b"bad":
            raise ValueError("no")

    address = shared.brokers["broker-a"].address
    async with (
        Producer("p", namesrv=shared.namesrv) as producer,
        Admin(namesrv=shared.namesrv) as admin,
        consumer,
    ):
        sent = await producer.send(Message(topic, b"good"))
        await until(lambda: handled == [b"good"], "the message")
        client_id = consumer.instance.client_id
        await until(
            lambda: admin.consumer_running_info(group, client_id),
            "the name server knows the group's topic",
        )
        info = await admin.consumer_running_info(group, client_id)
        assert info.properties["PROP_CONSUMEORDERLY"] == str(ordered).lower()
        assert info.properties["consumeThreadMax"] == "20"
        of_queue = info.mq_table[sent.queue]
        assert (of_queue.commit_offset, of_queue.locked, of_queue.last_lock_timestamp > 0) == (
            1,
            True,
            ordered,
        )
        assert of_queue.last_consume_timestamp > 0
        outcomes = {
            b"good": CMResult.CR_SUCCESS,
            b"later": CMResult.CR_LATER,
            b"bad": CMResult.CR_THROW_EXCEPTION,
        }
        async with Producer(f"{group}-q", namesrv=shared.namesrv) as other:
            for body, expected in outcomes.items():
                aside = await other.send(Message(f"{topic}-aside", body))
                result = await admin.consume_directly(
                    group, client_id, aside.offset_msg_id, address
                )
                assert (result.consume_result, result.order) == (expected, ordered)


@asynchronous
async def test_a_pull_consumer_broadcasts_and_remembers(
    shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    await create_topic(shared.namesrv, topic, 2)

    def member(name: str) -> PullConsumer:
        return PullConsumer(
            group,
            topic,
            namesrv=shared.namesrv,
            suspend=SUSPEND,
            model=MessageModel.BROADCASTING,
            instance_name=name,
            offset_folder=tmp_path,
            start_from=StartFrom.FIRST,
        )

    async with Producer("p", namesrv=shared.namesrv) as producer:
        for number in range(10):
            await producer.send(Message(topic, b"%d" % number))
        async with member("a") as first, member("b") as second:
            for consumer in (first, second):
                assert {message.body for message in await total_of(consumer, 10)} == {
                    b"%d" % n for n in range(10)
                }
            await first.commit()
            assert sum([await first.committed(queue) or 0 for queue in first.assignment()]) == 10
        await producer.send(Message(topic, b"later"))
        async with member("a") as first:
            assert [message.body for message in await total_of(first, 1)] == [b"later"]
    async with PullConsumer(group, topic, namesrv=shared.namesrv) as reader:
        await until(lambda: len(reader.assignment()) == 2, "both queues")
        assert [await reader.committed(queue) for queue in reader.assignment()] in (
            [None, None],
            [0, 0],
        )  # not the broker's


@asynchronous
async def test_new_queues_are_noticed(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    told: list[int] = []
    consumer = PullConsumer(
        group,
        topic,
        namesrv=shared.namesrv,
        suspend=SUSPEND,
        start_from=StartFrom.FIRST,
        route_interval=0.1,
    )
    async with consumer, Admin(namesrv=shared.namesrv) as admin:
        await consumer.on_queues_changed(topic, lambda queues: told.append(len(queues)))
        await until(lambda: len(consumer.assignment()) == 1, "the queue")
        config = TopicConfig(topic_name=topic, read_queue_nums=3, write_queue_nums=3)
        await admin.create_topic_on(shared.brokers["broker-a"].address, config)
        await until(lambda: len(consumer.assignment()) == 3, "three queues")
        await until(lambda: told == [3], "the callback")


@asynchronous
async def test_a_second_consumer_of_a_group_on_one_client_harms_nobody(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    received: list[bytes] = []
    first = PushConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST)
    first.subscribe(topic)
    first.on_message(lambda message: received.append(message.body))
    async with Producer("p", namesrv=shared.namesrv) as producer, first:
        second = PullConsumer(group, topic, instance=first.instance)
        with pytest.raises(Exception, match="already"):
            await second.start()
        await first.instance.heartbeat()
        async with Admin(namesrv=shared.namesrv) as admin:
            await until(
                lambda: admin.consumer_connection(group), "the name server knows the group's topic"
            )
            assert [
                c.client_id for c in (await admin.consumer_connection(group)).connection_set
            ] == [first.instance.client_id]
        await producer.send(Message(topic, b"x"))
        await until(lambda: received == [b"x"], "the first goes on")


async def _is(value: Awaitable[object], expected: object) -> bool:
    return await value == expected
