"""OpenMessaging 0.1.0-alpha: URLs, messages there and back (client.md §8.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from aiorocketmq.client.errors import SendFailed
from aiorocketmq.client.openmessaging import (
    BytesMessage,
    Headers,
    KeyValue,
    MessageFormatError,
    MessagingAccessPoint,
    NotSupportedError,
    OMSError,
    PropertyKeys,
    SequenceProducer,
    from_rocketmq,
    to_rocketmq,
)
from aiorocketmq.client.openmessaging.consumers import PullConsumer
from aiorocketmq.client.producer.batches import DEFAULT_MAX_BYTES
from aiorocketmq.client.producer.producer import Producer
from aiorocketmq.client.producer.sending import SendResult, SendStatus
from aiorocketmq.remoting.protocol.message.message import Message
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from ...sim import ManualClock
from ..messages import stored

URL = "openmessaging:rocketmq://h1:9876,h2:9877/ns"


def test_an_access_point_tells_where_and_what() -> None:
    point = MessagingAccessPoint(URL, {"own": "1"})
    assert point.properties == {
        "own": "1", "oms.namespace": "ns", "oms.access.points": "h1:9876,h2:9877",
        "oms.driver.impl": "rocketmq",
    }  # fmt: skip
    assert MessagingAccessPoint("openmessaging:rocketmq://h:1/").properties["oms.namespace"] == ""


@pytest.mark.parametrize(
    "url", ["", "rocketmq://h:1/ns", "openmessaging:rocketmq://h:1", "openmessaging:rocketmq:///ns"]
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(OMSError, match="access point"):
        MessagingAccessPoint(url)


def test_what_this_driver_cannot_do() -> None:
    point = MessagingAccessPoint(URL)
    with pytest.raises(NotSupportedError, match="kafka"):
        MessagingAccessPoint("openmessaging:kafka://h:1/ns")
    for refused in (
        point.create_iterable_consumer,
        point.resource_manager,
        point.create_service_end_point,
    ):
        with pytest.raises(NotSupportedError):
            refused()


def test_clients_have_ids_of_their_own_and_consumers_need_a_group() -> None:
    async def scenario() -> None:
        point = MessagingAccessPoint(URL)
        ids = {point.create_producer().properties[PropertyKeys.PRODUCER_ID] for _ in range(10)}
        assert len(ids) == 10
        assert all("%OpenMessaging%" in each for each in ids)
        producer = point.create_producer({"rmq.producer.group": "p"})._producer
        assert producer.group == "p"
        assert set(producer.instance.name_servers.addresses) == {"h1:9876", "h2:9877"}
        for create in (lambda: point.create_pull_consumer("Q"), point.create_push_consumer):
            with pytest.raises(OMSError, match=r"rmq\.consumer\.group"):
                create()

    asyncio.run(scenario())


class Inner:
    """What the consumer that asks is made around: hands out messages, notes what is committed."""

    def __init__(self, *messages: MessageExt) -> None:
        self.instance = self
        self.clock = ManualClock()
        self.messages = list(messages)
        self.committed: list[int] = []

    async def poll(self, _timeout: float, count: int) -> list[MessageExt]:
        polled, self.messages = self.messages[:count], self.messages[count:]
        return polled

    async def commit(self, offsets: dict[MessageQueue, int]) -> None:
        self.committed += offsets.values()


async def handed_out(*messages: MessageExt) -> tuple[PullConsumer, Inner]:
    consumer = MessagingAccessPoint(URL).create_pull_consumer("T", {"rmq.consumer.group": "g"})
    inner = Inner(*messages)
    consumer._consumer = inner  # type: ignore[assignment]
    for _ in messages:
        await consumer.poll()
    return consumer, inner


def sent(offset: int, msg_id: str) -> MessageExt:
    return stored(offset, properties={"UNIQ_KEY": msg_id})


def test_the_offset_stays_in_front_of_what_is_not_acknowledged() -> None:
    async def scenario() -> None:
        consumer, inner = await handed_out(sent(4, "a"), sent(5, "b"), sent(6, "c"))
        for msg_id in ("b", "a", "unknown", "c"):
            await consumer.ack(msg_id)
        assert inner.committed == [4, 6, 7]

    asyncio.run(scenario())


def test_a_message_that_was_sent_twice_does_not_hold_the_offset_for_ever() -> None:
    async def scenario() -> None:
        consumer, inner = await handed_out(sent(4, "a"), sent(5, "a"), sent(6, "c"))
        await consumer.ack("a")
        await consumer.ack("c")
        assert inner.committed[-1] == 7

    asyncio.run(scenario())


def test_what_is_read_again_after_a_reset_is_not_passed_over() -> None:
    async def scenario() -> None:
        consumer, inner = await handed_out(sent(7, "h"), sent(2, "c"))
        await consumer.ack("c")
        assert inner.committed == [3]

    asyncio.run(scenario())


def test_a_queue_that_has_gone_is_not_moved_any_more() -> None:
    async def scenario() -> None:
        consumer, inner = await handed_out(sent(4, "a"), sent(5, "b"))
        await consumer._revoked((sent(4, "a").queue,))
        await consumer.ack("a")
        inner.messages = [sent(9, "z")]  # it is back
        await consumer.poll()
        await consumer.ack("z")
        assert inner.committed == [10]

    asyncio.run(scenario())


def test_headers_and_properties_become_properties() -> None:
    sent = (
        BytesMessage(b"body")
        .put_header(Headers.TOPIC, "T")
        .put_header(Headers.SEARCH_KEY, "k")
        .put_property("price", 2.5)
    )
    sent.put_property("TAGS", "red").put_property("DELAY", 3).put_property("UNIQ_KEY", "not yours")
    result = to_rocketmq(sent)
    assert (result.topic, result.body, result.tags, result.keys, result.delay_level) == (
        "T",
        b"body",
        "red",
        ["k"],
        3,
    )
    assert result.properties == {
        "price": "2.5",
        "Topic": "T",
        "SearchKey": "k",
        "rmq.message.destination": "TOPIC",
    }
    assert (
        to_rocketmq(BytesMessage(b"x").put_header(Headers.QUEUE, "Q")).properties[
            "rmq.message.destination"
        ]
        == "QUEUE"
    )
    with pytest.raises(MessageFormatError, match="Topic"):
        to_rocketmq(BytesMessage(b"x"))


def test_a_key_value_knows_numbers() -> None:
    values = KeyValue().put("int", 7).put("float", 2.5)
    assert (
        values["int"],
        values.get_int("int"),
        values.get_float("float"),
        values.get_int("absent"),
    ) == ("7", 7, 2.5, 0)


def test_what_is_received_has_its_headers_apart() -> None:
    properties = {
        "Topic": "T",
        "price": "2.5",
        "rmq.message.destination": "QUEUE",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "ID",
    }
    received = from_rocketmq(stored(3, b"body", topic="Q", properties=properties))
    assert (received.body, received.properties["price"]) == (b"body", "2.5")
    assert received.headers["Queue"] == "Q"
    assert (received.headers["MessageId"], received.headers["SearchKey"]) == ("ID", "k1 k2")
    assert (received.headers["BornTimestamp"], received.headers["StoreHost"]) == (
        "1",
        "127.0.0.1:10911",
    )
    again = from_rocketmq(
        stored(3, topic="%RETRY%g", properties={"RETRY_TOPIC": "T", "UNIQ_KEY": "ID"})
    )
    assert again.headers["Topic"] == "T"


class Held:
    """A producer whose sends wait for ``go``; ``refused``: which bodies no broker takes."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.refused = b""
        self.sent: list[list[bytes]] = []

    async def send(self, part: Sequence[Message]) -> SendResult:
        await self.go.wait()
        if self.refused in [message.body[:1] for message in part]:
            raise SendFailed("T", ())
        self.sent.append([message.body[:1] for message in part])
        ids = ",".join(f"id of {message.body[:1].decode()}" for message in part)
        return SendResult(SendStatus.SEND_OK, ids, "", MessageQueue("T", "b", 0), 0, None)


def gathered(size: int = 1) -> tuple[SequenceProducer, Held, Callable[[bytes], BytesMessage]]:
    producer = MessagingAccessPoint(URL).create_sequence_producer()
    held = Held()
    producer._producer = cast(Producer, held)

    def gather(letter: bytes) -> BytesMessage:
        message = producer.create_bytes_message_to_topic("T", letter * size)
        producer.gather(message)
        return message

    return producer, held, gather


def test_what_is_gathered_during_a_commit_waits_for_the_next_one() -> None:
    async def main() -> None:
        producer, held, gather = gathered()
        gather(b"1")
        commits = [asyncio.create_task(producer.commit())]
        await asyncio.sleep(0)
        second = gather(b"2")
        held.go.set()
        await commits[0]
        assert (held.sent, Headers.MESSAGE_ID in second.headers) == ([[b"1"]], False)
        await asyncio.gather(producer.commit(), producer.commit())
        assert held.sent == [[b"1"], [b"2"]]
        assert second.headers[Headers.MESSAGE_ID] == "id of 2"

    asyncio.run(main())


def test_a_commit_that_failed_sends_again_only_what_no_broker_has_taken() -> None:
    async def main() -> None:
        producer, held, gather = gathered(size=DEFAULT_MAX_BYTES // 2)  # one a frame
        held.go.set()
        held.refused = b"2"
        for letter in (b"1", b"2", b"3"):
            gather(letter)
        commit = asyncio.create_task(producer.commit())
        with pytest.raises(OMSError):
            await commit
        gather(b"4")
        held.refused = b""
        await producer.commit()
        assert held.sent == [[b"1"], [b"2"], [b"3"], [b"4"]]

    asyncio.run(main())
