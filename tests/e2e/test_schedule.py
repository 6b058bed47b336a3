"""Delayed messages and retries against real daemons; the delay table is shortened."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from aiorocketmq import Message, MessageExt, Producer, PullConsumer, PushConsumer, StartFrom
from aiorocketmq.remoting.protocol.message.topic_names import dlq_topic

from .cluster import PATIENCE_S, SUSPEND, Cluster, asynchronous, create_topic, total_of, until

DELAYS = {1: 1.0, 2: 2.0, 3: 3.0}
TABLE = "1s 2s 3s"


def test_delayed_messages_come_at_their_time_whatever_happens_to_the_broker(
    cluster: Cluster, topic: str, group: str
) -> None:
    """Across a clean restart none is lost and none comes twice; across a SIGKILL none is lost."""
    cluster.start_broker(messageDelayLevel=TABLE)

    @asynchronous
    async def scenario() -> None:
        await create_topic(cluster.namesrv, topic, 1)
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            first = await send(producer, 0)
            await asyncio.to_thread(cluster.stop_broker, "broker-a")
            await asyncio.to_thread(cluster.start_broker, messageDelayLevel=TABLE)
            async with PullConsumer(
                group, topic, namesrv=cluster.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
            ) as consumer:
                messages = await total_of(consumer, len(first))
                check(messages, first)
                await asyncio.to_thread(cluster.stop_broker, "broker-a")
                await asyncio.to_thread(cluster.start_broker, messageDelayLevel=TABLE)
                second = await send(producer, 1000)
                await asyncio.to_thread(cluster.kill_broker, "broker-a")
                await asyncio.to_thread(cluster.start_broker, messageDelayLevel=TABLE)
                messages = []
                async with asyncio.timeout(PATIENCE_S):
                    while {int(message.body) for message in messages} != second.keys():
                        messages += await consumer.poll()
                check(list({message.body: message for message in messages}.values()), second)

    async def send(producer: Producer, start: int) -> dict[int, float]:
        """When each was sent."""
        sent = {}
        for number in range(start, start + 30):
            sent[number] = time.time()
            await producer.send(
                Message(topic, b"%d" % number, delay_level=number % 3 + 1, tags="a")
            )
        return sent

    def check(messages: list[MessageExt], sent: dict[int, float]) -> None:
        assert Counter(int(message.body) for message in messages) == Counter(list(sent))
        for message in messages:
            level = int(message.body) % 3 + 1
            assert message.store_timestamp / 1000 >= sent[int(message.body)] - 0.001 + DELAYS[level]
            assert (message.topic, message.tags, message.delay_level) == (topic, "a", level)
        for level in DELAYS:
            numbers = [int(message.body) for message in messages if message.delay_level == level]
            assert numbers == sorted(numbers)

    scenario()


def test_a_message_that_always_fails_waits_longer_each_time_and_ends_in_the_dead_letter_queue(
    cluster: Cluster, topic: str, group: str
) -> None:
    """The first retry has level 3, the second level 4."""
    cluster.start_broker(messageDelayLevel="1s 1s 1s 2s")

    @asynchronous
    async def scenario() -> None:
        tries: list[tuple[float, int]] = []
        consumer = PushConsumer(
            group, namesrv=cluster.namesrv, suspend=SUSPEND, max_reconsume_times=2
        )
        consumer.subscribe(topic)

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            tries.append((time.monotonic(), message.reconsume_times))
            raise ValueError("never")

        async with Producer("p", namesrv=cluster.namesrv) as producer, consumer:
            sent = await producer.send(Message(topic, b"x", tags="a"))
            await until(lambda: len(tries) == 3, "three tries")
            async with PullConsumer(
                "reader",
                dlq_topic(group),
                namesrv=cluster.namesrv,
                suspend=SUSPEND,
                start_from=StartFrom.FIRST,
            ) as reader:
                [dead] = await total_of(reader, 1)
        assert [times for _, times in tries] == [0, 1, 2]
        assert tries[1][0] - tries[0][0] >= 0.99
        assert tries[2][0] - tries[1][0] >= 1.99
        assert (dead.body, dead.tags, dead.reconsume_times, dead.msg_id) == (
            b"x",
            "a",
            3,
            sent.msg_id,
        )
        assert dead.properties["RETRY_TOPIC"] == topic

    scenario()
