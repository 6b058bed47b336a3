"""Push consumers against real daemons."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq import (
    Admin,
    CacheLimits,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
)
from aiorocketmq.client.consumer.consumption import ConcurrentConsumption

from .cluster import (
    BEFORE_THE_NEXT_REBALANCE_S,
    SUSPEND,
    Cluster,
    asynchronous,
    create_topic,
    until,
)


@pytest.mark.parametrize("kind", ["coroutine", "function"])
@asynchronous
async def test_a_handler_is_called(shared: Cluster, topic: str, group: str, kind: str) -> None:
    received: list[bytes] = []
    consumer = PushConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND)
    consumer.subscribe(topic, "a")

    async def coroutine(message: MessageExt) -> None:
        received.append(message.body)

    def function(message: MessageExt) -> None:
        received.append(message.body)

    consumer.on_message(coroutine if kind == "coroutine" else function)
    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        for number in range(50):
            await producer.send(Message(topic, b"%d" % number, tags="ab"[number % 2]))
        await until(lambda: len(received) == 25, "all messages with tag a")
    assert sorted(map(int, received)) == list(range(0, 50, 2))


@asynchronous
async def test_subscriptions_change_while_running(shared: Cluster, topic: str, group: str) -> None:
    received: list[str | None] = []
    consumer = PushConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND)
    consumer.subscribe(topic, "a")
    consumer.on_message(lambda message: received.append(message.tags))
    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        await producer.send([Message(topic, b"x", tags=tag) for tag in ("a", "b", "a")])
        await until(lambda: received == ["a", "a"], "messages of the first tag")
        consumer.subscribe(topic, "b")
        consumer.subscribe(f"{topic}-2")
        await producer.send(Message(f"{topic}-2", b"x", tags="c"))
        await until(lambda: received[2:] == ["c"], "messages of the new topic")
        await producer.send([Message(topic, b"x", tags=tag) for tag in ("a", "b")])
        await until(lambda: received[3:] == ["b"], "messages of the second tag")
        consumer.unsubscribe(topic)
        await until(
            lambda: all(queue.topic != topic for queue in consumer.assignment()),
            "its queues are given up",
        )


@asynchronous
async def test_producers_introduce_themselves(shared: Cluster, topic: str, group: str) -> None:
    async with (
        Producer(group, namesrv=shared.namesrv) as producer,
        Admin(namesrv=shared.namesrv) as admin,
    ):
        await producer.send(Message(topic, b"x"))

        async def connected() -> bool:
            found = (await admin.producer_connection(group, topic)).connection_set
            return [client.client_id for client in found] == [producer.instance.client_id]

        await until(connected, "the broker knows the producer")


@asynchronous
async def test_batches_and_flow_control(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    sizes: list[int] = []
    gate = asyncio.Event()
    consumer = PushConsumer(
        group,
        namesrv=shared.namesrv,
        suspend=SUSPEND,
        batch_size=10,
        concurrency=1,
        cache=CacheLimits(messages=40),
    )
    consumer.subscribe(topic)

    @consumer.on_batch
    async def handle(messages: list[MessageExt]) -> None:
        await gate.wait()
        sizes.append(len(messages))

    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        await producer.send([Message(topic, b"%d" % number) for number in range(200)])
        (queue,) = [queue for queue in await assigned(consumer, 1) if queue.topic == topic]
        info = consumer.running_info
        await until(
            lambda: info().mq_table[queue].cached_msg_count > 40, "pulling stops above the limit"
        )
        assert info().mq_table[queue].cached_msg_count <= 40 + 32
        gate.set()
        await until(lambda: sum(sizes) == 200, "every message is handled")
    assert max(sizes) == 10


async def assigned(consumer: PushConsumer, count: int) -> frozenset[MessageQueue]:
    """The queues, once there are so many beside the retry topic's."""

    def own() -> int:
        return sum(not queue.topic.startswith("%RETRY%") for queue in consumer.assignment())

    await until(lambda: own() == count, f"{count} queues are assigned")
    return consumer.assignment()


@asynchronous
async def test_offsets_survive_the_consumer(shared: Cluster, topic: str, group: str) -> None:
    received: list[bytes] = []

    def consumer() -> PushConsumer:
        made = PushConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND)
        made.subscribe(topic)
        made.on_message(lambda message: received.append(message.body))
        return made

    async with Producer("p", namesrv=shared.namesrv) as producer:
        for number in range(20):
            await producer.send(Message(topic, b"%d" % number))
        async with consumer():
            await until(lambda: len(received) == 20, "the first messages")
        for number in range(20, 30):
            await producer.send(Message(topic, b"%d" % number))
        async with consumer():
            await until(lambda: len(received) >= 30, "the messages sent meanwhile")
    assert sorted(map(int, received)) == list(
        range(30)
    )  # none twice: the offsets were committed at the end


@asynchronous
async def test_stop_waits_for_running_handlers(shared: Cluster, topic: str, group: str) -> None:
    started, finish, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()
    consumer = PushConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND)
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(_: MessageExt) -> None:
        started.set()
        await finish.wait()
        finished.set()

    async with Producer("p", namesrv=shared.namesrv) as producer:
        sent = await producer.send(Message(topic, b"x"))
        await consumer.start()
        await started.wait()
        stopping = asyncio.create_task(consumer.stop())
        consumption = consumer._consumption
        assert isinstance(consumption, ConcurrentConsumption)
        await until(lambda: consumption._backlog.closed, "nothing new is begun")
        assert not stopping.done()
        finish.set()
        await stopping
        assert finished.is_set()
        async with Admin(namesrv=shared.namesrv) as admin:
            assert await admin.consumer_offset(group, sent.queue) == 1


def test_a_failed_message_comes_again(cluster: Cluster, topic: str, group: str) -> None:
    """The broker's delay table is shortened: the first retry comes after a second instead of
    ten."""
    cluster.start_broker(messageDelayLevel="1s 1s 1s 1s")

    @asynchronous
    async def scenario() -> None:
        times: list[tuple[int, str, str]] = []
        consumer = PushConsumer(group, namesrv=cluster.namesrv, suspend=SUSPEND)
        consumer.subscribe(topic)

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            times.append((message.reconsume_times, message.topic, message.msg_id))
            if message.reconsume_times == 0:
                raise ValueError("not now")

        async with Producer("p", namesrv=cluster.namesrv) as producer, consumer:
            sent = await producer.send(Message(topic, b"x"))
            await until(lambda: len(times) == 2, "the message comes again")
        assert times == [(0, topic, sent.msg_id), (1, topic, sent.msg_id)]

    scenario()


def test_a_failed_message_that_no_broker_takes_back(
    cluster: Cluster, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again here, and the offset waits for it."""
    monkeypatch.setattr("aiorocketmq.client.consumer.consumption.LOCAL_RETRY_DELAY", 0.05)
    monkeypatch.setattr("aiorocketmq.client.consumer.send_back._TIMEOUT", 0.2)
    cluster.start_broker()

    @asynchronous
    async def scenario() -> None:
        gate, calls = asyncio.Event(), 0
        consumer = PushConsumer(group, namesrv=cluster.namesrv, suspend=SUSPEND)
        consumer.subscribe(topic)

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            nonlocal calls
            await gate.wait()
            calls += 1
            if calls < 3:
                raise ValueError("not now")

        async with Producer("p", namesrv=cluster.namesrv) as producer, consumer:
            sent = await producer.send(Message(topic, b"x"))
            info = consumer.running_info
            await until(
                lambda: (
                    sent.queue in info().mq_table and info().mq_table[sent.queue].cached_msg_count
                ),
                "it was pulled",
            )
            await asyncio.to_thread(cluster.kill_broker, "broker-a")
            gate.set()
            await until(lambda: calls == 2, "the second try")
            assert info().mq_table[sent.queue].commit_offset == 0
            await until(
                lambda: not info().mq_table[sent.queue].cached_msg_count, "the third try succeeds"
            )
            assert (calls, info().mq_table[sent.queue].commit_offset) == (3, 1)
            await asyncio.to_thread(cluster.start_broker, "broker-a")

    scenario()


@asynchronous
async def test_offsets_can_be_reset(shared: Cluster, topic: str, group: str) -> None:
    """What a consumer does when a broker tells it so."""
    await create_topic(shared.namesrv, topic, 1)
    queue = MessageQueue(topic, "broker-a", 0)
    received: list[bytes] = []
    consumer = PushConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND)
    consumer.subscribe(topic)
    consumer.on_message(lambda message: received.append(message.body))
    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        for number in range(5):
            await producer.send(Message(topic, b"%d" % number))
        await until(lambda: len(received) == 5, "all messages")
        consumer.reset_offsets({queue: 3, MessageQueue(topic, "broker-z", 0): 1})
        await until(lambda: len(received) == 7, "the last two once more")
    assert sorted(received[5:]) == [b"3", b"4"]


def test_offsets_survive_a_killed_broker(cluster: Cluster, topic: str, group: str) -> None:
    """Consumers go on by themselves when their broker comes back, and nothing that was acknowledged
    is lost."""
    cluster.start_broker()

    @asynchronous
    async def scenario() -> None:
        received: list[int] = []
        consumer = PushConsumer(
            group, namesrv=cluster.namesrv, suspend=SUSPEND, commit_interval=0.1
        )
        consumer.subscribe(topic)
        consumer.on_message(lambda message: received.append(int(message.body)))
        async with Producer("p", namesrv=cluster.namesrv) as producer, consumer:
            for number in range(10):
                await producer.send(Message(topic, b"%d" % number))
            await until(lambda: len(received) == 10, "the messages before")
            await until(lambda: len(consumer.assignment()) == 5, "the retry topic is divided too")
            await asyncio.to_thread(cluster.kill_broker, "broker-a")
            await asyncio.to_thread(cluster.start_broker, "broker-a")
            await until(
                lambda: producer.send(Message(topic, b"10")), "the broker takes messages again"
            )
            await until(lambda: 10 in received, "the message after", BEFORE_THE_NEXT_REBALANCE_S)
            assert set(received) == set(range(11))

    scenario()
