"""OpenMessaging 0.1.0-alpha, for programs that are written for it: ``python
examples/open_messaging.py``."""

import asyncio

from aiorocketmq import run
from aiorocketmq.client.openmessaging import (
    BytesMessage,
    MessageContext,
    MessagingAccessPoint,
    PropertyKeys,
)
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with (
        LocalCluster() as cluster,
        MessagingAccessPoint(f"openmessaging:rocketmq://{cluster.namesrv_address}/space") as point,
    ):
        producer = await point.started(point.create_producer())
        message = producer.create_bytes_message_to_topic("Order", b"a book").put_property(
            "price", 12.5
        )
        await producer.send(message)

        consumer = await point.started(
            point.create_pull_consumer("Order", {PropertyKeys.CONSUMER_GROUP: "billing"})
        )
        polled = await consumer.poll()
        if polled is not None:
            print(f"polled {polled.body.decode()} for {polled.properties['price']}")
            await consumer.ack(polled.headers["MessageId"])

        received = asyncio.Event()

        async def listener(message: BytesMessage, context: MessageContext) -> None:
            print(f"listener got {message.body.decode()}")
            context.ack()  # without it the message comes again
            received.set()

        pushed = point.create_push_consumer({PropertyKeys.CONSUMER_GROUP: "shipping"}).attach_queue(
            "Order", listener
        )
        await point.started(pushed)
        await received.wait()


if __name__ == "__main__":
    run(main())
