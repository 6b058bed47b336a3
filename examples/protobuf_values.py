"""A format of your own, here Protocol Buffers (``pip install protobuf``): ``python
examples/protobuf_values.py``."""

import asyncio
from typing import TypeVar

from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.struct_pb2 import Struct  # in your program: the classes that protoc made

from aiorocketmq import MessageExt, Producer, PushConsumer, Serializer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster

P = TypeVar("P", bound=ProtobufMessage)


class ProtobufSerializer(Serializer[P]):
    """Messages of one class. (One whose fields all have their defaults is no bytes at all, and
    cannot be sent.)"""

    content_type = "application/x-protobuf"

    def __init__(self, kind: type[P]) -> None:
        self.kind = kind

    def dumps(self, value: P) -> bytes:
        return bytes(value.SerializeToString())

    def loads(self, body: bytes) -> P:
        value: P = self.kind.FromString(body)  # what it raises is told with topic and message
        return value


orders = ProtobufSerializer(Struct)


async def main() -> None:
    async with (
        LocalCluster() as cluster,
        Producer("shop", namesrv=cluster.namesrv_address) as producer,
    ):
        order = Struct()
        order.update({"number": 4711, "item": "a book"})
        await producer.send(orders.message("Order", order))

        received = asyncio.Event()
        consumer = PushConsumer(
            "billing", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        )
        consumer.subscribe("Order")

        @consumer.on_value(orders)
        async def bill(order: Struct, _message: MessageExt) -> None:
            print(f"order {order['number']:.0f}: {order['item']}")
            received.set()

        async with consumer:
            await received.wait()


if __name__ == "__main__":
    run(main())
