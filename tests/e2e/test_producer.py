"""Producers against real daemons."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

import aiorocketmq.sync
from aiorocketmq import (
    ClientInstance,
    ClientStateError,
    Message,
    MessageError,
    MessageQueue,
    NoRouteError,
    Producer,
    PullConsumer,
    PushConsumer,
    RocketMQError,
    SendFailed,
    SendStatus,
    SendTimedOut,
)
from aiorocketmq.client.producer.queue_choice import choose_by_key
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag

from .cluster import (
    HOST,
    SUSPEND,
    Cluster,
    asynchronous,
    create_topic,
    total_of,
)


@asynchronous
async def test_what_is_sent_is_received(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv) as producer:
        sent = await producer.send(
            Message(topic, b"hello", tags="a", keys=["k1", "k2"], flag=9, properties={"own": "v"})
        )
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        (message,) = await total_of(consumer, 1)
    assert sent.status is SendStatus.SEND_OK
    assert (message.body, message.tags, message.keys, message.flag) == (
        b"hello",
        "a",
        ("k1", "k2"),
        9,
    )
    assert message.user_properties["own"] == "v"
    assert (message.msg_id, message.offset_msg_id) == (sent.msg_id, sent.offset_msg_id)
    assert (message.queue, message.queue_offset) == (sent.queue, sent.queue_offset)
    assert message.born_host.startswith(HOST)


@asynchronous
async def test_many_sends_in_flight(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv) as producer:
        tasks = [producer.send_soon(Message(topic, b"%d" % number)) for number in range(200)]
        results = await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % number)) for number in range(200, 400))
        )
    results += [task.result() for task in tasks]  # stop waited for them
    assert len({(result.queue, result.queue_offset) for result in results}) == 400
    assert len({result.msg_id for result in results}) == 400
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        messages = await total_of(consumer, 400)
    assert {message.body for message in messages} == {b"%d" % number for number in range(400)}


@asynchronous
async def test_stop_waits_for_sends_that_have_not_begun(
    shared: Cluster, topic: str, group: str
) -> None:
    async with Producer(group, namesrv=shared.namesrv) as producer:
        await producer.send(Message(topic, b"first"))
        tasks = [producer.send_soon(Message(topic, b"%d" % number)) for number in range(10)]
    assert len({(task.result().queue, task.result().queue_offset) for task in tasks}) == 10


@asynchronous
async def test_queues_take_turns(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 4)
    async with Producer(group, namesrv=shared.namesrv) as producer:
        used = [(await producer.send(Message(topic, b"x"))).queue.queue_id for _ in range(8)]
    assert Counter(used) == {0: 2, 1: 2, 2: 2, 3: 2}


@asynchronous
async def test_a_batch_is_one_frame_in_one_queue(shared: Cluster, topic: str, group: str) -> None:
    bodies = [b"message %d" % number for number in range(20)]
    async with Producer(group, namesrv=shared.namesrv) as producer:
        result = await producer.send(
            [Message(topic, body, tags="t", keys=[f"k{n}"]) for n, body in enumerate(bodies)]
        )
    ids = result.msg_id.split(",")
    assert len(ids) == len(result.offset_msg_id.split(",")) == 20
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        messages = await total_of(consumer, 20)
    assert [message.body for message in messages] == bodies
    assert [message.msg_id for message in messages] == ids
    assert [message.queue_offset for message in messages] == list(range(20))
    assert {message.queue for message in messages} == {result.queue}


@asynchronous
async def test_oneway(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv) as producer:
        for number in range(10):
            await producer.send_oneway(Message(topic, b"%d" % number))
        async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
            messages = await total_of(consumer, 10)
    assert {message.body for message in messages} == {b"%d" % number for number in range(10)}


@pytest.mark.parametrize("size", [4095, 4096, 100_000])
@asynchronous
async def test_long_bodies_are_compressed(
    shared: Cluster, topic: str, group: str, size: int
) -> None:
    body = b"0123456789" * (size // 10) + b"x" * (size % 10)
    async with Producer(group, namesrv=shared.namesrv) as producer:
        await producer.send(Message(topic, body))
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        (message,) = await total_of(consumer, 1)
    assert message.body == body
    compressed = bool(message.sys_flag & MessageSysFlag.COMPRESSED)
    assert compressed is (size >= 4096)
    assert (len(message.stored_body) < size) is compressed


@asynchronous
async def test_a_message_goes_where_it_is_told_to(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 5)
    async with Producer(group, namesrv=shared.namesrv) as producer:
        queues = await producer.queues(topic)
        assert [queue.queue_id for queue in queues] == [0, 1, 2, 3, 4]
        assert (await producer.send(Message(topic, b"x"), queue=queues[3])).queue == queues[3]
        assert (
            await producer.send(Message(topic, b"x"), selector=lambda qs, _: qs[1])
        ).queue == queues[1]
        for key in ("order-1", "order-2", 42, -7):
            assert (
                await producer.send(Message(topic, b"x"), sharding_key=key)
            ).queue == choose_by_key(queues, key)
        with pytest.raises(MessageError, match="the queue's is"):
            await producer.send(Message("other", b"x"), queue=queues[0])


@asynchronous
async def test_a_topic_that_nobody_has_made(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv, template_topic="NoSuchTemplate") as producer:
        with pytest.raises(
            NoRouteError, match=f"{topic} cannot be sent to: .* has it, or would make it; create it"
        ):
            await producer.send(Message(topic, b"x"))


@asynchronous
async def test_states(shared: Cluster, topic: str, group: str) -> None:
    producer = Producer(group, namesrv=shared.namesrv)
    with pytest.raises(ClientStateError, match="not running"):
        await producer.send(Message(topic, b"x"))
    async with producer:
        with pytest.raises(ClientStateError):
            await producer.start()
    with pytest.raises(ClientStateError, match="is stopped: make a new one"):
        await producer.send(Message(topic, b"x"))
    with pytest.raises(ClientStateError, match="cannot be started again"):
        await producer.start()


@asynchronous
async def test_one_instance_serves_several_clients(shared: Cluster, topic: str, group: str) -> None:
    async with ClientInstance(namesrv=shared.namesrv) as instance:
        async with (
            Producer(group, instance=instance) as producer,
            PullConsumer(group, topic, instance=instance, suspend=SUSPEND) as consumer,
        ):
            await producer.send(Message(topic, b"x"))
            await total_of(consumer, 1)
            with pytest.raises(ClientStateError, match="already"):
                await Producer(group, instance=instance).start()
        assert instance.running


@asynchronous
async def test_no_name_server(topic: str, group: str) -> None:
    async with Producer(group, namesrv=f"{HOST}:1") as producer:
        with pytest.raises(aiorocketmq.ConnectError, match="no name server answers"):
            await producer.send(Message(topic, b"x"))


@asynchronous
async def test_a_consumer_without_a_name_server_does_not_start(topic: str, group: str) -> None:
    consumer = PushConsumer(group, namesrv=f"{HOST}:1")
    consumer.on_message(lambda _: None)
    with pytest.raises(ClientStateError, match="subscribes nothing"):
        await consumer.start()
    consumer.subscribe(topic)
    with pytest.raises(aiorocketmq.ConnectError, match="no name server answers"):
        await consumer.start()
    with pytest.raises(aiorocketmq.ConnectError, match="no name server answers"):
        await PullConsumer(group, topic, namesrv=f"{HOST}:1").start()


@asynchronous
async def test_another_name_server_is_asked(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=[f"{HOST}:1", f"{HOST}:2", shared.namesrv]) as producer:
        producer.instance.name_servers.addresses.sort(
            key=lambda address: len(address)
        )  # the live one is the last
        assert producer.instance.name_servers.addresses[-1] == shared.namesrv
        assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK
        assert producer.instance.name_servers.current == shared.namesrv


def test_another_broker_takes_over(cluster: Cluster, topic: str, group: str) -> None:
    cluster.start_broker("broker-a")
    cluster.start_broker("broker-b")

    @asynchronous
    async def scenario() -> None:
        await create_topic(cluster.namesrv, topic, 2)
        async with Producer(group, namesrv=cluster.namesrv, retries=1) as producer:
            before = {
                (await producer.send(Message(topic, b"x"))).queue.broker_name for _ in range(4)
            }
            assert before == {"broker-a", "broker-b"}
            await asyncio.to_thread(cluster.kill_broker, "broker-a")
            results = [await producer.send(Message(topic, b"x")) for _ in range(8)]
            assert {result.queue.broker_name for result in results} == {"broker-b"}
            with pytest.raises(SendFailed) as failure:  # a queue of its own has nowhere else to go
                await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 0))
            assert [attempt.broker_name for attempt in failure.value.attempts] == ["broker-a"]

    scenario()


SOON_S = 1.5
"""A broker that is back so soon costs no send: each has 3 s in all."""


def test_a_broker_that_is_restarted_costs_no_send(cluster: Cluster, topic: str, group: str) -> None:
    cluster.start_broker()

    def restart() -> float:
        began = time.monotonic()
        cluster.stop_broker("broker-a")
        cluster.start_broker()
        return time.monotonic() - began

    async def send_on(
        send: Callable[[], Awaitable[object]], over: asyncio.Event
    ) -> list[Exception]:
        failures: list[Exception] = []
        while not over.is_set():
            try:
                await send()
            except RocketMQError as error:
                failures.append(error)
        return failures

    @asynchronous
    async def scenario() -> None:
        await create_topic(cluster.namesrv, topic, 2)
        blocking = aiorocketmq.sync.Producer(f"{group}-blocking", namesrv=cluster.namesrv)
        async with Producer(group, namesrv=cluster.namesrv) as producer:
            await asyncio.to_thread(blocking.start)
            message = Message(topic, b"x")
            await producer.send(message)
            await asyncio.to_thread(blocking.send, message)
            while True:
                over = asyncio.Event()
                ways: list[Callable[[], Awaitable[object]]] = [
                    lambda: producer.send(message),
                    lambda: producer.send_soon(message),
                    lambda: asyncio.to_thread(blocking.send, message),
                ]
                sending = [
                    asyncio.create_task(send_on(way, over)) for way in ways for _ in range(5)
                ]
                took_s = await asyncio.to_thread(restart)
                over.set()
                failures = await asyncio.gather(*sending)
                if (
                    took_s < SOON_S
                ):  # else the machine is busy with something else, and it is tried again
                    break
            await asyncio.to_thread(blocking.stop)
        assert failures == [[]] * len(failures)

    scenario()


@asynchronous
async def test_the_time_for_a_send_is_a_total(topic: str, group: str) -> None:
    """A name server and a broker that take connections and never answer."""

    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, HOST, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with Producer(group, namesrv=f"{HOST}:{port}", request_timeout=0.1) as producer:
            with pytest.raises(TimeoutError):
                await producer.send(Message(topic, b"x"), timeout=0.1)
            # The route is known and the broker is silent: one attempt uses up the time.
            instance = producer.instance
            instance.routes._store(route_to(topic, f"{HOST}:{port}"))
            with pytest.raises(SendTimedOut) as failure:
                await producer.send(Message(topic, b"x"), timeout=0.1)
            assert len(failure.value.attempts) == 1


def route_to(topic: str, address: str) -> aiorocketmq.client.cluster.route_cache.TopicRoute:
    from aiorocketmq.client.cluster.route_cache import topic_route
    from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData

    queues = [QueueData(broker_name="silent", read_queue_nums=1, write_queue_nums=1, perm=6)]
    brokers = [BrokerData(cluster="C", broker_name="silent", broker_addrs={0: address})]
    return topic_route(topic, TopicRouteData(queue_datas=queues, broker_datas=brokers))
