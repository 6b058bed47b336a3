"""Producers and consumers against real daemons."""

from __future__ import annotations

import asyncio
import multiprocessing
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiorocketmq.sync
from aiorocketmq import (
    Admin,
    CacheLimits,
    ClientInstance,
    ClientStateError,
    Message,
    MessageError,
    MessageExt,
    MessageQueue,
    NoRouteError,
    Producer,
    PullConsumer,
    PushConsumer,
    SendFailed,
    SendStatus,
    SendTimedOut,
    StartFrom,
)
from aiorocketmq.client.queue_choice import choose_by_key
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.message import MessageSysFlag

from .cluster import HOST, Cluster, asynchronous, until

SUSPEND = 1.0
"""Long polls end soon, so that nothing waits for them."""
BEFORE_THE_NEXT_REBALANCE_S = 10.0
"""The regular one comes every 20 s: what happens before it happens because somebody was told."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests that leave it as it is; each takes topics and groups of its own."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_broker()
        yield cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster to break."""
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def topic() -> str:
    return f"T-{uuid.uuid4().hex}"


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex}"


async def create_topic(namesrv: str, topic: str, queues: int) -> None:
    async with Admin(namesrv=namesrv) as admin:
        for address in await admin.masters_of("DefaultCluster"):
            await admin.create_topic(address, TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues))
        await until(lambda: admin.topic_route(topic), f"the name server knows {topic}")


async def total_of(consumer: PullConsumer, count: int) -> list[MessageExt]:
    """The next ``count`` messages."""
    messages: list[MessageExt] = []
    async with asyncio.timeout(30):
        while len(messages) < count:
            messages += await consumer.poll()
    return messages


# --- sending ------------------------------------------------------------------------------------------------------------


@asynchronous
async def test_what_is_sent_is_received(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv) as producer:
        sent = await producer.send(Message(topic, b"hello", tags="a", keys=["k1", "k2"], flag=9, properties={"own": "v"}))
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        (message,) = await total_of(consumer, 1)
    assert sent.status is SendStatus.SEND_OK
    assert (message.body, message.tags, message.keys, message.flag) == (b"hello", "a", ("k1", "k2"), 9)
    assert message.user_properties["own"] == "v"
    assert (message.msg_id, message.offset_msg_id) == (sent.msg_id, sent.offset_msg_id)
    assert (message.queue, message.queue_offset) == (sent.queue, sent.queue_offset)
    assert message.born_host.startswith(HOST)


@asynchronous
async def test_many_sends_in_flight(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv) as producer:
        tasks = [producer.send_soon(Message(topic, b"%d" % number)) for number in range(200)]
        results = await asyncio.gather(*(producer.send(Message(topic, b"%d" % number)) for number in range(200, 400)))
    results += [task.result() for task in tasks]  # stop waited for them
    assert len({(result.queue, result.queue_offset) for result in results}) == 400
    assert len({result.msg_id for result in results}) == 400
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        messages = await total_of(consumer, 400)
    assert {message.body for message in messages} == {b"%d" % number for number in range(400)}


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
        result = await producer.send([Message(topic, body, tags="t", keys=[f"k{n}"]) for n, body in enumerate(bodies)])
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
async def test_long_bodies_are_compressed(shared: Cluster, topic: str, group: str, size: int) -> None:
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
        assert (await producer.send(Message(topic, b"x"), selector=lambda qs, _: qs[1])).queue == queues[1]
        for key in ("order-1", "order-2", 42, -7):
            assert (await producer.send(Message(topic, b"x"), sharding_key=key)).queue == choose_by_key(queues, key)
        with pytest.raises(MessageError, match="the queue's is"):
            await producer.send(Message("other", b"x"), queue=queues[0])


@asynchronous
async def test_a_topic_that_nobody_has_made(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv, template_topic="NoSuchTemplate") as producer:
        with pytest.raises(NoRouteError, match=topic):
            await producer.send(Message(topic, b"x"))


@asynchronous
async def test_states(shared: Cluster, topic: str, group: str) -> None:
    producer = Producer(group, namesrv=shared.namesrv)
    with pytest.raises(ClientStateError, match="not running"):
        await producer.send(Message(topic, b"x"))
    async with producer:
        with pytest.raises(ClientStateError):
            await producer.start()
    with pytest.raises(ClientStateError, match="not running"):
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


# --- failures -----------------------------------------------------------------------------------------------------------


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
        producer.instance.name_servers.addresses.sort(key=lambda address: len(address))  # the live one is the last
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
            await until(lambda: both_known(producer), "both brokers have the topic")
            before = {(await producer.send(Message(topic, b"x"))).queue.broker_name for _ in range(4)}
            assert before == {"broker-a", "broker-b"}
            await asyncio.to_thread(cluster.kill_broker, "broker-a")
            results = [await producer.send(Message(topic, b"x")) for _ in range(8)]
            assert {result.queue.broker_name for result in results} == {"broker-b"}
            with pytest.raises(SendFailed) as failure:  # a queue of its own has nowhere else to go
                await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 0))
            assert [attempt.broker_name for attempt in failure.value.attempts] == ["broker-a"]

    async def both_known(producer: Producer) -> bool:
        await producer.instance.routes.refresh(topic)
        return len({queue.broker_name for queue in await producer.queues(topic)}) == 2

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


def route_to(topic: str, address: str) -> aiorocketmq.client.route_cache.TopicRoute:
    from aiorocketmq.client.route_cache import topic_route
    from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData

    queues = [QueueData(broker_name="silent", read_queue_nums=1, write_queue_nums=1, perm=6)]
    brokers = [BrokerData(cluster="C", broker_name="silent", broker_addrs={0: address})]
    return topic_route(topic, TopicRouteData(queue_datas=queues, broker_datas=brokers))


# --- pull consumer ------------------------------------------------------------------------------------------------------


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
async def test_a_message_counts_when_the_next_one_is_asked_for(shared: Cluster, topic: str, group: str) -> None:
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
async def test_commit_reaches_the_broker_before_it_returns(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    queue = MessageQueue(topic, "broker-a", 0)
    async with (
        Producer("p", namesrv=shared.namesrv) as producer,
        PullConsumer(group, topic, namesrv=shared.namesrv, auto_commit=False, suspend=SUSPEND) as consumer,
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
        stored_at = aiorocketmq.client.start_offset.offset_at
        assert await stored_at(consumer.instance, queue, messages[0].store_timestamp) == 0
        assert await stored_at(consumer.instance, queue, messages[-1].store_timestamp + 3_600_000) == 5


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
            sent = {(await producer.send(Message(topic, b"%d" % number))).msg_id for number in range(80)}
            received = [message.msg_id for message in await total_of(first, 40) + await total_of(second, 40)]
            assert sorted(received) == sorted(sent)
        await until(
            lambda: len(first.assignment()) == 8,
            "the first consumer has every queue again",
            BEFORE_THE_NEXT_REBALANCE_S,
        )


# --- push consumer ------------------------------------------------------------------------------------------------------


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
        await until(lambda: all(queue.topic != topic for queue in consumer.assignment()), "its queues are given up")


@asynchronous
async def test_producers_introduce_themselves(shared: Cluster, topic: str, group: str) -> None:
    async with Producer(group, namesrv=shared.namesrv) as producer, Admin(namesrv=shared.namesrv) as admin:
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
        group, namesrv=shared.namesrv, suspend=SUSPEND, batch_size=10, concurrency=1, cache=CacheLimits(messages=40)
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
        await until(lambda: info().mq_table[queue].cached_msg_count > 40, "pulling stops above the limit")
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
    assert sorted(map(int, received)) == list(range(30))  # none twice: the offsets were committed at the end


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
        await until(lambda: consumer._backlog.closed, "nothing new is begun")
        assert not stopping.done()
        finish.set()
        await stopping
        assert finished.is_set()
        async with Admin(namesrv=shared.namesrv) as admin:
            assert await admin.consumer_offset(group, sent.queue) == 1


def test_a_failed_message_comes_again(cluster: Cluster, topic: str, group: str) -> None:
    """The broker's delay table is shortened: the first retry comes after a second instead of ten."""
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
    monkeypatch.setattr("aiorocketmq.client.push_consumer._LOCAL_RETRY_DELAY", 0.05)
    monkeypatch.setattr("aiorocketmq.client.send_back._TIMEOUT", 0.2)
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
                lambda: sent.queue in info().mq_table and info().mq_table[sent.queue].cached_msg_count, "it was pulled"
            )
            await asyncio.to_thread(cluster.kill_broker, "broker-a")
            gate.set()
            await until(lambda: calls == 2, "the second try")
            assert info().mq_table[sent.queue].commit_offset == 0
            await until(lambda: not info().mq_table[sent.queue].cached_msg_count, "the third try succeeds")
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
    """Consumers go on by themselves when their broker comes back, and nothing that was acknowledged is lost."""
    cluster.start_broker()

    @asynchronous
    async def scenario() -> None:
        received: list[int] = []
        consumer = PushConsumer(group, namesrv=cluster.namesrv, suspend=SUSPEND, commit_interval=0.1)
        consumer.subscribe(topic)
        consumer.on_message(lambda message: received.append(int(message.body)))
        async with Producer("p", namesrv=cluster.namesrv) as producer, consumer:
            for number in range(10):
                await producer.send(Message(topic, b"%d" % number))
            await until(lambda: len(received) == 10, "the messages before")
            await until(lambda: len(consumer.assignment()) == 5, "the retry topic is divided too")
            await asyncio.to_thread(cluster.kill_broker, "broker-a")
            await asyncio.to_thread(cluster.start_broker, "broker-a")
            await until(lambda: producer.send(Message(topic, b"10")), "the broker takes messages again")
            await until(lambda: 10 in received, "the message after", BEFORE_THE_NEXT_REBALANCE_S)
            assert set(received) == set(range(11))

    scenario()


# --- admin --------------------------------------------------------------------------------------------------------------


@asynchronous
async def test_looking_after_a_cluster(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 2)
    consumer = PushConsumer(group, namesrv=shared.namesrv, suspend=SUSPEND, commit_interval=0.1)
    consumer.subscribe(topic, "a")
    consumer.on_message(lambda _: None)
    async with (
        Admin(namesrv=shared.namesrv) as admin,
        Producer("p", namesrv=shared.namesrv) as producer,
        consumer,
    ):
        sent = await producer.send(Message(topic, b"x", tags="a"))
        (address,) = await admin.masters_of("DefaultCluster")
        assert topic in await admin.topic_list()
        stats = await admin.topic_stats(topic)
        assert stats.offset_table[sent.queue].max_offset == 1
        assert (await admin.view_message(sent.offset_msg_id)).body == b"x"
        assert (await admin.max_offset(sent.queue), await admin.min_offset(sent.queue)) == (1, 0)
        assert "brokerVersion" in await admin.broker_runtime_info(address)

        async def caught_up() -> bool:
            table = (await admin.consume_stats(group)).offset_table
            return sent.queue in table and table[sent.queue].consumer_offset == 1

        await until(caught_up, "the group has consumed the message")
        assert group in await admin.query_topic_consume_by_who(topic)
        connection = await admin.consumer_connection(group)
        assert [client.client_id for client in connection.connection_set] == [consumer.instance.client_id]
        assert connection.subscription_table[topic].sub_string == "a"
        info = await admin.consumer_running_info(group, consumer.instance.client_id)
        assert info.mq_table[sent.queue].commit_offset == 1
        pulled = await admin.pull(sent.queue, 0)
        assert [message.body for message in pulled.messages] == [b"x"]
        await admin.put_kv_config("ns", "key", "value")
        assert await admin.get_kv_config("ns", "key") == "value"
        assert await admin.get_kv_config("ns", "other") is None
        await admin.update_broker_config(address, {"flushConsumerOffsetInterval": "4000"})
        assert (await admin.broker_config(address))["flushConsumerOffsetInterval"] == "4000"
        await admin.delete_topic(topic, "DefaultCluster")
        with pytest.raises(NoRouteError, match=topic):
            await admin.topic_route(topic)


@asynchronous
async def test_where_a_new_group_begins(shared: Cluster, topic: str, group: str) -> None:
    """A young queue is read from its start whatever was asked for: that is what brokers do."""
    await create_topic(shared.namesrv, topic, 1)
    async with Producer("p", namesrv=shared.namesrv) as producer:
        for number in range(3):
            await producer.send(Message(topic, b"%d" % number))
    for start_from in StartFrom:
        consumer = PullConsumer(
            f"{group}-{start_from.name}", topic, namesrv=shared.namesrv, start_from=start_from, suspend=SUSPEND
        )
        async with consumer:
            assert len(await total_of(consumer, 3)) == 3


# --- the blocking facade ------------------------------------------------------------------------------------------------


def test_without_asyncio(shared: Cluster, topic: str, group: str) -> None:
    received: list[bytes] = []
    with aiorocketmq.sync.Producer("p", namesrv=shared.namesrv) as producer:
        assert producer.send(Message(topic, b"0")).status is SendStatus.SEND_OK
        soon = [producer.send_soon(Message(topic, b"%d" % number)) for number in range(1, 5)]
        assert len({future.result().msg_id for future in soon}) == 4
        with aiorocketmq.sync.PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as pull:
            for message in pull:
                received.append(message.body)
                if len(received) == 5:
                    break
            pull.commit()
            assert sum(pull.committed(queue) or 0 for queue in pull.assignment()) == 5
        push = aiorocketmq.sync.PushConsumer(f"{group}-push", namesrv=shared.namesrv, suspend=SUSPEND)
        push.subscribe(topic)

        @push.on_message
        def handle(message: MessageExt) -> None:
            received.append(message.body)

        with push:
            asyncio.run(until(lambda: len(received) == 10, "the handler was called"))
        with aiorocketmq.sync.Admin(namesrv=shared.namesrv) as admin:
            assert topic in admin.topic_list()
    assert sorted(received) == sorted([b"0", b"1", b"2", b"3", b"4"] * 2)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_forked_child_is_told(shared: Cluster, topic: str) -> None:
    with aiorocketmq.sync.Producer("p", namesrv=shared.namesrv) as producer:
        producer.send(Message(topic, b"x"))
        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()
        child = context.Process(target=_use_after_fork, args=(producer, shared.namesrv, topic, answers))
        child.start()
        child.join(30)
        assert child.exitcode == 0
        assert answers.get() == ["made before the process forked", "SEND_OK"]


def _use_after_fork(producer: aiorocketmq.sync.Producer, namesrv: str, topic: str, answers: object) -> None:
    told: list[str] = []
    try:
        producer.send(Message(topic, b"y"))
    except ClientStateError as error:
        told += [text for text in ("made before the process forked",) if text in str(error)]
    with aiorocketmq.sync.Producer("p", namesrv=namesrv) as own:
        told.append(own.send(Message(topic, b"z")).status.name)
    answers.put(told)  # type: ignore[attr-defined]
