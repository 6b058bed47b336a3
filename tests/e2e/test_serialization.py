"""Values there and back over a real broker, and bodies that are none."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass

import pytest

from aiorocketmq import (
    JsonSerializer,
    Message,
    MessageExt,
    MsgpackSerializer,
    Producer,
    PushConsumer,
    Serializer,
    StartFrom,
    sync,
)

from .cluster import SUSPEND, Cluster, asynchronous, create_topic, until


@dataclass
class Order:
    number: int
    price: float


@pytest.mark.parametrize("kind", [JsonSerializer, MsgpackSerializer])
@asynchronous
async def test_there_and_back(
    shared: Cluster, topic: str, group: str, kind: type[Serializer[Order]]
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    orders: Serializer[Order] = kind(Order)  # type: ignore[call-arg]
    received: list[tuple[Order, str | None]] = []
    consumer = PushConsumer(
        group, namesrv=shared.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)

    @consumer.on_value(orders)
    async def handle(order: Order, message: MessageExt) -> None:
        received.append((order, message.tags))

    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        await producer.send(orders.message(topic, Order(1, 9.5), tags="new"))
        await producer.send([orders.message(topic, Order(n, 0.5)) for n in (2, 3)])
        await until(lambda: len(received) == 3, "the orders")
    assert received == [(Order(1, 9.5), "new"), (Order(2, 0.5), None), (Order(3, 0.5), None)]


def test_there_and_back_without_asyncio(shared: Cluster, topic: str, group: str) -> None:
    """The message of somebody who says nothing of its body is read as well."""
    orders = JsonSerializer(Order)
    received: list[int] = []
    both = threading.Event()
    asyncio.run(create_topic(shared.namesrv, topic, 1))
    consumer = sync.PushConsumer(
        group, namesrv=shared.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)

    @consumer.on_value(orders)
    def handle(order: Order, _message: MessageExt) -> None:
        received.append(order.number)
        if len(received) == 2:
            both.set()

    with sync.Producer("p", namesrv=shared.namesrv) as producer, consumer:
        producer.send(orders.message(topic, Order(1, 9.5)))
        producer.send(Message(topic, json.dumps({"number": 2, "price": 1}).encode()))
        assert both.wait(20)
    assert received == [1, 2]


@pytest.mark.parametrize("ordered", [False, True])
@asynchronous
async def test_a_body_that_cannot_be_read_is_a_dead_letter_at_once(
    shared: Cluster, topic: str, group: str, ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    orders = JsonSerializer(Order)
    received: list[int] = []
    consumer = PushConsumer(
        group,
        namesrv=shared.namesrv,
        suspend=SUSPEND,
        start_from=StartFrom.FIRST,
        ordered=ordered,
    )
    consumer.subscribe(topic)

    @consumer.on_value(orders)
    async def handle(order: Order, _message: MessageExt) -> None:
        received.append(order.number)

    dead: list[MessageExt] = []
    undertaker = PushConsumer(
        f"{group}-u", namesrv=shared.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    )
    undertaker.subscribe(f"%DLQ%{group}")
    undertaker.on_message(dead.append)
    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        sent = await producer.send(Message(topic, b"poison"))
        await producer.send(orders.message(topic, Order(2, 0.5)))
        await until(lambda: received == [2], "the order behind it")
        async with undertaker:
            await until(lambda: dead, "the dead letter")
    (message,) = dead
    assert message.body == b"poison"
    assert message.msg_id == sent.msg_id
    lines = [each.getMessage() for each in caplog.records if "cannot be read" in each.getMessage()]
    assert len(lines) == 1
    assert f"topic {topic}, message {sent.msg_id}, 6 bytes: no application/json: " in lines[0]
