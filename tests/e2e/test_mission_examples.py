"""What people do with RocketMQ first, each as they would do it. Transactions:
``test_transactions``; a list of 20 MiB in batch frames: ``test_client_options``."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiorocketmq import Message, MessageExt, Producer, PullConsumer, PushConsumer, Sql, StartFrom
from aiorocketmq.remoting.protocol.message.topic_names import dlq_topic

from .cluster import SUSPEND, Cluster, asynchronous, create_topic, total_of, until


@asynchronous
async def test_tag_a_or_b(shared: Cluster, topic: str, group: str) -> None:
    received: list[str | None] = []
    consumer = PushConsumer(
        group, namesrv=shared.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic, "A || B")
    consumer.on_message(lambda message: received.append(message.tags))
    # "Aa" and "BB" have one hash code in Java: the broker cannot tell them apart, the client can.
    clash = PushConsumer(
        f"{group}-2", namesrv=shared.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    )
    clash.subscribe(topic, "Aa")
    clashing: list[str | None] = []
    clash.on_message(lambda message: clashing.append(message.tags))
    async with Producer("p", namesrv=shared.namesrv) as producer, consumer, clash:
        for tag in ("A", "B", "C", None, "Aa", "BB", "A"):
            await producer.send(Message(topic, b"x", tags=tag))
        await until(lambda: len(received) == 3 and clashing == ["Aa"], "what was subscribed")
    assert sorted(map(str, received)) == ["A", "A", "B"]


def test_a_between_0_and_3(cluster: Cluster, topic: str, group: str) -> None:
    cluster.start_broker(enablePropertyFilter="true")

    @asynchronous
    async def scenario() -> None:
        await create_topic(cluster.namesrv, topic, 2)
        received: list[int] = []
        consumer = PushConsumer(
            group, namesrv=cluster.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
        )
        consumer.subscribe(topic, Sql("a between 0 and 3"))
        consumer.on_message(lambda message: received.append(int(message.body)))
        async with Producer("p", namesrv=cluster.namesrv) as producer, consumer:
            for number in range(-2, 7):
                await producer.send(Message(topic, b"%d" % number, properties={"a": str(number)}))
            await producer.send(Message(topic, b"100"))
            await until(lambda: len(received) == 4, "what matches")
        assert sorted(received) == [0, 1, 2, 3]

    scenario()


def test_level_3_comes_after_10_s_and_the_16th_retry_is_the_last(
    cluster: Cluster, topic: str, group: str
) -> None:
    """The table is the usual one up to level 3, which is also the first retry's; the other fifteen
    come at once."""
    cluster.start_broker(messageDelayLevel="1s 5s 10s" + 15 * " 0s")

    @asynchronous
    async def scenario() -> None:
        tries: list[int] = []
        consumer = PushConsumer(
            group, namesrv=cluster.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
        )
        consumer.subscribe(topic)

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            if message.tags != "bad":
                arrived.set_result(time.monotonic())
                return
            tries.append(message.reconsume_times)
            raise ValueError("never")

        arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        async with Producer("p", namesrv=cluster.namesrv) as producer, consumer:
            bad = await producer.send(Message(topic, b"x", tags="bad"))
            sent_at = time.monotonic()
            await producer.send(Message(topic, b"later", delay_level=3))
            assert 9.9 <= await arrived - sent_at < 20
            async with PullConsumer(
                f"{group}-u",
                dlq_topic(group),
                namesrv=cluster.namesrv,
                suspend=SUSPEND,
                start_from=StartFrom.FIRST,
            ) as undertaker:
                (dead,) = await total_of(undertaker, 1)
        assert tries == list(range(17))  # the first time and sixteen retries
        assert (dead.msg_id, dead.properties["RETRY_TOPIC"]) == (bad.msg_id, topic)

    scenario()


@asynchronous
async def test_a_namespace_is_nowhere_in_the_program(
    shared: Cluster, topic: str, group: str
) -> None:
    """A consumer of a namespace: topic, retries, assignment, offsets."""
    await create_topic(shared.namesrv, f"shop%{topic}", 2)
    handled: list[tuple[str, int]] = []
    options: dict[str, Any] = {"namesrv": shared.namesrv, "namespace": "shop"}
    consumer = PushConsumer(
        group, suspend=SUSPEND, start_from=StartFrom.FIRST, trace=f"{topic}-trace", **options
    )
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        handled.append((message.topic, message.reconsume_times))

    async with Producer("p", **options) as producer, consumer:
        await producer.send(Message(topic, b"one"))
        await until(lambda: handled == [(topic, 0)], "the message")
        await until(lambda: len(consumer.assignment()) == 3, "the retry topic too")
        assert {queue.topic for queue in consumer.assignment()} == {
            topic,
            f"%RETRY%shop%{group}".replace("shop%", ""),
        }
        info = consumer.running_info()
        assert {queue.topic for queue in info.mq_table} == {f"shop%{topic}", f"%RETRY%shop%{group}"}
        status = info.status_table
        assert set(status) <= {topic, f"%RETRY%{group}"}
    async with PullConsumer(group, topic, suspend=SUSPEND, **options) as reader:
        await until(lambda: len(reader.assignment()) == 2, "both queues")
        queues = sorted(reader.assignment())
        assert [queue.topic for queue in queues] == [topic, topic]
        assert sorted([await reader.committed(queue) or 0 for queue in queues]) == [0, 1]
        await reader.seek_to_begin()
        (message,) = await total_of(reader, 1)
        assert message.topic == topic
        await reader.commit()
    async with PullConsumer(
        f"{group}-t", f"{topic}-trace", namesrv=shared.namesrv, start_from=StartFrom.FIRST
    ) as traces:
        text = b"".join(message.body for message in await total_of(traces, 1)).decode()
    assert text.startswith("SubBefore\x01")
    assert group in text
    assert "shop%" not in text
