"""The administration client and the blocking facade against real daemons."""

from __future__ import annotations

import asyncio
import multiprocessing

import pytest

import aiorocketmq.sync
from aiorocketmq import (
    Admin,
    ClientStateError,
    ConfigError,
    Message,
    MessageExt,
    NoRouteError,
    Producer,
    PullConsumer,
    PushConsumer,
    SendStatus,
    StartFrom,
)

from .cluster import (
    SUSPEND,
    Cluster,
    asynchronous,
    create_topic,
    total_of,
    until,
)


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
        sent = await producer.send(Message(topic, b"x", tags="a", keys="key"))
        (address,) = await admin.create_topic(topic, queues=3, cluster="DefaultCluster")
        assert len((await admin.topic_route(topic)).queue_datas) == 1
        assert (await admin.topic_config_on(topic))[address].write_queue_nums == 3
        with pytest.raises(ConfigError, match=r"there is no cluster Other; .*: DefaultCluster"):
            await admin.create_topic(topic, cluster="Other")
        assert topic in await admin.topic_list()
        stats = await admin.topic_stats(topic)
        assert stats.offset_table[sent.queue].max_offset == 1
        assert (await admin.view_message(sent.offset_msg_id)).body == b"x"

        async def indexed() -> bool:
            return [message.body for message in await admin.query_messages(topic, "key")] == [b"x"]

        await until(indexed, "the message is found by its key")
        assert [
            message.body for message in await admin.query_by_unique_key(topic, sent.msg_id)
        ] == [b"x"]
        assert (
            await admin.query_messages(topic, "other")
            == await admin.query_by_unique_key(topic, "key")
            == []
        )
        assert (await admin.max_offset(sent.queue), await admin.min_offset(sent.queue)) == (1, 0)
        assert "brokerVersion" in await admin.broker_runtime_info(address)

        async def caught_up() -> bool:
            table = (await admin.consume_stats(group)).offset_table
            return sent.queue in table and table[sent.queue].consumer_offset == 1

        await until(caught_up, "the group has consumed the message")
        assert group in await admin.query_topic_consume_by_who(topic)
        connection = await admin.consumer_connection(group)
        assert [client.client_id for client in connection.connection_set] == [
            consumer.instance.client_id
        ]
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
            f"{group}-{start_from.name}",
            topic,
            namesrv=shared.namesrv,
            start_from=start_from,
            suspend=SUSPEND,
        )
        async with consumer:
            assert len(await total_of(consumer, 3)) == 3


def test_without_asyncio(shared: Cluster, topic: str, group: str) -> None:
    received: list[bytes] = []
    with aiorocketmq.sync.Producer("p", namesrv=shared.namesrv) as producer:
        assert producer.send(Message(topic, b"0")).status is SendStatus.SEND_OK
        soon = [producer.send_soon(Message(topic, b"%d" % number)) for number in range(1, 5)]
        assert len({future.result().msg_id for future in soon}) == 4
        with aiorocketmq.sync.PullConsumer(
            group, topic, namesrv=shared.namesrv, suspend=SUSPEND
        ) as pull:
            for message in pull:
                received.append(message.body)
                if len(received) == 5:
                    break
            pull.commit()
            assert sum(pull.committed(queue) or 0 for queue in pull.assignment()) == 5
        push = aiorocketmq.sync.PushConsumer(
            f"{group}-push", namesrv=shared.namesrv, suspend=SUSPEND
        )
        push.subscribe(topic)

        @push.on_message
        def handle(message: MessageExt) -> None:
            received.append(message.body)

        with push:
            asyncio.run(until(lambda: len(received) == 10, "the handler was called"))
        with aiorocketmq.sync.Admin(namesrv=shared.namesrv) as admin:
            assert topic in admin.topic_list()
    assert sorted(received) == sorted([b"0", b"1", b"2", b"3", b"4"] * 2)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
def test_a_forked_child_is_told(shared: Cluster, topic: str) -> None:
    with aiorocketmq.sync.Producer("p", namesrv=shared.namesrv) as producer:
        for _ in range(2):  # the second one leaves a connection that the child must not use
            producer.send(Message(topic, b"x"))
        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()
        child = context.Process(
            target=_use_after_fork, args=(producer, shared.namesrv, topic, answers)
        )
        child.start()
        child.join(30)
        assert child.exitcode == 0
        assert answers.get() == ["made before the process forked", "SEND_OK"]


def _use_after_fork(
    producer: aiorocketmq.sync.Producer, namesrv: str, topic: str, answers: object
) -> None:
    told: list[str] = []
    try:
        producer.send(Message(topic, b"y"))
    except ClientStateError as error:
        told += [text for text in ("made before the process forked",) if text in str(error)]
    with aiorocketmq.sync.Producer("p", namesrv=namesrv) as own:
        told.append(own.send(Message(topic, b"z")).status.name)
    answers.put(told)  # type: ignore[attr-defined]
