"""OpenMessaging against real daemons."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.client.openmessaging import (
    BytesMessage,
    MessageContext,
    MessageFormatError,
    MessagingAccessPoint,
    OMSError,
    PropertyKeys,
    SequenceProducer,
)

from .cluster import Cluster, asynchronous, create_topic


@asynchronous
async def test_what_producers_send_a_pull_consumer_hands_out_until_it_is_acknowledged(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    async with MessagingAccessPoint(f"openmessaging:rocketmq://{shared.namesrv}/ns") as point:
        producer = await point.started(point.create_producer())
        message = producer.create_bytes_message_to_topic(topic, b"0").put_property("price", 2.5)
        sent = await producer.send(message, {PropertyKeys.OPERATION_TIMEOUT: "4000"})
        assert message.headers["MessageId"] == sent.message_id
        promised = await producer.send_async(producer.create_bytes_message_to_queue(topic, b"1"))
        await producer.send_oneway(producer.create_bytes_message_to_topic(topic, b"2"))
        with pytest.raises(MessageFormatError, match="Topic"):
            await producer.send(BytesMessage(b"nowhere"))
        sequence = await point.started(point.create_sequence_producer())
        await gather_three(sequence, topic)

        options = {PropertyKeys.CONSUMER_GROUP: group}
        consumer = await point.started(point.create_pull_consumer(topic, options))
        received = [each for _ in range(6) if (each := await consumer.poll()) is not None]
        assert [message.body for message in received] == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert [m.headers["MessageId"] for m in received[:2]] == [
            sent.message_id,
            promised.message_id,
        ]
        assert received[0].properties["price"] == "2.5"
        assert (received[1].headers["Queue"], received[2].headers["Topic"]) == (topic, topic)
        assert await consumer.poll({PropertyKeys.OPERATION_TIMEOUT: "10"}) is None
        for index in (0, 1, 3):  # 2 holds the position
            await consumer.ack(received[index].headers["MessageId"])
        await consumer.ack("unknown")

        await consumer.stop()
        again = await point.started(point.create_pull_consumer(topic, options))
        rest = [each for _ in range(4) if (each := await again.poll()) is not None]
        assert [message.body for message in rest] == [b"2", b"3", b"4", b"5"]


async def gather_three(sequence: SequenceProducer, topic: str) -> None:
    sequence.gather(sequence.create_bytes_message_to_topic(topic, b"never"))
    sequence.rollback()
    messages = [sequence.create_bytes_message_to_topic(topic, body) for body in (b"3", b"4", b"5")]
    for message in messages:
        sequence.gather(message)
    with pytest.raises(MessageFormatError, match="empty"):
        sequence.gather(sequence.create_bytes_message_to_topic(topic, b""))
    await sequence.commit()
    await sequence.commit()
    assert len({message.headers["MessageId"] for message in messages}) == 3


@asynchronous
async def test_a_push_consumer_is_done_with_a_message_when_it_is_acknowledged(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    received: dict[bytes, int] = {}
    done = asyncio.Event()

    async def listener(message: BytesMessage, context: MessageContext) -> None:
        received[message.body] = received.get(message.body, 0) + 1
        assert context.properties["MessageId"] == message.headers["MessageId"]
        context.ack()
        if len(received) == 3:
            done.set()

    async with MessagingAccessPoint(f"openmessaging:rocketmq://{shared.namesrv}/ns") as point:
        producer = await point.started(point.create_producer())
        consumer = point.create_push_consumer({PropertyKeys.CONSUMER_GROUP: group}).attach_queue(
            topic, listener
        )
        await point.started(consumer)
        for number in range(3):
            await producer.send(producer.create_bytes_message_to_topic(topic, b"%d" % number))
        async with asyncio.timeout(30):
            await done.wait()
        consumer.suspend()
        assert consumer.is_suspended
        consumer.resume()
        assert not consumer.is_suspended
    assert received == {b"0": 1, b"1": 1, b"2": 1}


@asynchronous
async def test_errors_are_those_of_openmessaging(topic: str) -> None:
    async with MessagingAccessPoint("openmessaging:rocketmq://127.0.0.1:1/ns") as point:
        producer = await point.started(point.create_producer())
        with pytest.raises(OMSError, match="no name server answers") as failure:
            await producer.send(producer.create_bytes_message_to_topic(topic, b"x"))
        assert failure.value.code == "-1"
