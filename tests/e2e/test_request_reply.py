"""Requests and replies between real clients over a real broker, and what administrators ask
consumers through it."""

from __future__ import annotations

import asyncio
import zlib

import pytest

from aiorocketmq import (
    Admin,
    Message,
    MessageError,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    ReplyTimeout,
    SendFailed,
    StartFrom,
)
from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.reset import GetConsumerStatusBody, ResetOffsetBody
from aiorocketmq.remoting.protocol.bodies.running_info import CMResult, ConsumeMessageDirectlyResult
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.client import ConsumeMessageDirectlyRequest
from aiorocketmq.remoting.protocol.commands.offset import (
    GetConsumerStatusRequest,
    ResetOffsetRequest,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.client import RemotingClient

from .cluster import Cluster, asynchronous, create_topic, until

LONG = b"x" * 10_000


@asynchronous
async def test_replies_find_their_requests(shared: Cluster, topic: str, group: str) -> None:
    """Also many at a time, compressed ones, and while the topic does not exist yet."""
    consumer = PushConsumer(group, namesrv=shared.namesrv, start_from=StartFrom.FIRST, suspend=1)
    consumer.subscribe(topic)
    async with Producer(f"{group}-replies", namesrv=shared.namesrv) as replier:

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            if message.tags == "by-producer":
                await replier.reply(message, message.body, properties={"colour": "red"})
            elif message.tags != "silent":
                await consumer.reply(message, b"re: " + message.body)

        async with Producer(group, namesrv=shared.namesrv) as producer, consumer:
            first = await producer.request(Message(topic, b"first"), timeout=30)
            assert first.body == b"re: first"
            replies = await asyncio.gather(
                *(
                    producer.request(Message(topic, b"%d" % number), timeout=30)
                    for number in range(50)
                )
            )
            assert [reply.body for reply in replies] == [b"re: %d" % number for number in range(50)]
            reply = await producer.request(Message(topic, LONG, tags="by-producer"), timeout=30)
            assert reply.body == LONG
            assert zlib.decompress(reply.stored_body) == LONG
            assert reply.properties["colour"] == "red"
            assert (
                int(reply.properties["ARRIVE_TIME"])
                >= int(reply.properties["PUSH_REPLY_TIME"]) - 1000
            )
            assert reply.topic == "DefaultCluster_REPLY_TOPIC"
            with pytest.raises(ReplyTimeout, match="nobody replied"):
                await producer.request(Message(topic, b"?", tags="silent"), timeout=1)
            assert len(producer.instance.requests) == 0


@asynchronous
async def test_who_cannot_be_replied_to(shared: Cluster, topic: str, group: str) -> None:
    async with (
        Producer(group, namesrv=shared.namesrv) as producer,
        PullConsumer(
            group, topic, namesrv=shared.namesrv, start_from=StartFrom.FIRST, suspend=1
        ) as consumer,
        Producer(f"{group}-replies", namesrv=shared.namesrv) as replier,
    ):
        asking = asyncio.create_task(producer.request(Message(topic, b"?"), timeout=30))
        (request,) = await _polled(consumer)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await producer.stop()
        with pytest.raises(SendFailed, match="not found"):
            await replier.reply(request, b"too late")
        await replier.send(Message(topic, b"no request"))
        (message,) = await _polled(consumer)
        with pytest.raises(MessageError, match="CORRELATION_ID"):
            await replier.reply(message, b"?")


def test_a_reply_may_reach_any_broker_of_the_cluster(
    cluster: Cluster, topic: str, group: str
) -> None:
    """The topic lies on one of two brokers; the replier takes turns between both, and both know the
    requester."""
    for name in ("broker-a", "broker-b"):
        cluster.start_broker(name)
    alone = cluster.brokers["broker-a"].address

    @asynchronous
    async def main() -> None:
        async with Admin(namesrv=cluster.namesrv) as admin:
            await admin.create_topic_on(
                alone, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1)
            )
            await until(lambda: admin.topic_route(topic), "the topic is known")
        consumer = PushConsumer(
            group, namesrv=cluster.namesrv, start_from=StartFrom.FIRST, suspend=1
        )
        consumer.subscribe(topic)
        brokers: list[str] = []

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            brokers.append((await consumer.reply(message, message.body)).queue.broker_name)

        async with Producer(group, namesrv=cluster.namesrv) as producer, consumer:
            for number in range(4):
                assert (
                    await producer.request(Message(topic, b"%d" % number), timeout=30)
                ).body == b"%d" % number
        assert set(brokers) == {"broker-a", "broker-b"}

    main()


async def _polled(consumer: PullConsumer) -> list[MessageExt]:
    messages: list[MessageExt] = []
    while not messages:
        messages = await consumer.poll()
    return messages


@asynchronous
async def test_what_administrators_ask_consumers(shared: Cluster, topic: str, group: str) -> None:
    """Offsets as they know them (223), a message out of its turn (309), going back (222)."""
    await create_topic(shared.namesrv, topic, 1)
    seen: list[bytes] = []
    consumer = PushConsumer(
        group, namesrv=shared.namesrv, start_from=StartFrom.FIRST, suspend=1, commit_interval=0.05
    )
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        seen.append(message.body)
        if message.body == b"bad" and len(seen) > 3:
            raise ValueError("no good")

    address = shared.brokers["broker-a"].address
    clock = SystemClock()
    async with (
        Producer(group, namesrv=shared.namesrv) as producer,
        consumer,
        RemotingClient(clock=clock, dispatcher=Dispatcher({})) as admin,
    ):
        ids = {
            body: (await producer.send(Message(topic, body))).offset_msg_id
            for body in (b"a", b"bad", b"c")
        }
        await until(lambda: len(seen) == 3, "all are consumed")
        client_id = consumer.instance.client_id

        async def status() -> dict[MessageQueue, int]:
            header = GetConsumerStatusRequest(topic=topic, group=group)
            code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
            answer = (await admin.invoke(address, code, header, timeout=10)).check()
            return dict(decode_body(GetConsumerStatusBody, answer.body).consumer_table[client_id])

        (queue,) = consumer.assignment() - {q for q in consumer.assignment() if q.topic != topic}
        assert await status() == {queue: 3}

        async def consume(body: bytes) -> ConsumeMessageDirectlyResult:
            header = ConsumeMessageDirectlyRequest(
                consumer_group=group, client_id=client_id, msg_id=ids[body]
            )
            answer = await admin.invoke(
                address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout=10
            )
            return decode_body(ConsumeMessageDirectlyResult, answer.check().body)

        assert (await consume(b"a")).consume_result is CMResult.CR_SUCCESS
        result = await consume(b"bad")
        assert (result.consume_result, result.remark) == (
            CMResult.CR_THROW_EXCEPTION,
            "ValueError: no good",
        )
        assert seen == [b"a", b"bad", b"c", b"a", b"bad"]

        async def committed() -> bool:
            header = ResetOffsetRequest(topic=topic, group=group, timestamp=0, is_force=True)
            answer = await admin.invoke(
                address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout=10
            )
            return answer.code == 0 and set(
                decode_body(ResetOffsetBody, answer.body).offset_table.values()
            ) == {0}

        seen.clear()
        await until(committed, "the group has an offset and is reset")
        await until(lambda: b"c" in seen, "the messages come again")
        assert seen[0] == b"a"
