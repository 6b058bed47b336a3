"""Typed values instead of bytes: ``python examples/values.py``."""

import asyncio
from dataclasses import dataclass

from aiorocketmq import (
    DeserializationError,
    JsonSerializer,
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    StartFrom,
    run,
)
from aiorocketmq.local_cluster import LocalCluster


@dataclass
class Order:
    number: int
    price: float


orders = JsonSerializer(Order)  # or MsgpackSerializer, or a class of your own: protobuf_values.py


async def main() -> None:
    async with (
        LocalCluster() as cluster,
        Producer("shop", namesrv=cluster.namesrv_address) as producer,
    ):
        await producer.send(orders.message("Order", Order(4711, 12.5), tags="new", keys=["4711"]))

        received = asyncio.Event()
        consumer = PushConsumer(
            "billing", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        )
        consumer.subscribe("Order")

        @consumer.on_value(orders)
        async def bill(order: Order, message: MessageExt) -> None:
            print(f"order {order.number}: {order.price}, {message.properties['contentType']}")
            received.set()

        async with consumer:
            await received.wait()

        await producer.send(Message("Note", b'{"number": "many"}'))
        async with PullConsumer(
            "audit", "Note", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        ) as notes:
            async for message in notes:
                try:
                    print(orders.value(message))
                except DeserializationError as error:
                    print("not an order:", error)
                break


if __name__ == "__main__":
    run(main())
