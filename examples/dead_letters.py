"""What becomes of messages that no handler takes: ``python examples/dead_letters.py``.

An order without an address is tried twice, and is a dead letter then: a message in the topic
``%DLQ%<group>``. A clerk reads it there, puts the address in, and sends the order again.
"""

import asyncio
import logging

from aiorocketmq import (
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    RetryLater,
    StartFrom,
    run,
)
from aiorocketmq.local_cluster import LocalCluster

AT_ONCE = {"messageDelayLevel": "0s"}  # retries, which are 10 s, 30 s ... apart


async def main() -> None:
    async with LocalCluster(properties=AT_ONCE) as cluster:
        namesrv = cluster.namesrv_address
        shipped = asyncio.Event()
        shipping = PushConsumer(
            "shipping", namesrv=namesrv, start_from=StartFrom.FIRST, max_reconsume_times=1
        )
        shipping.subscribe("Order")

        @shipping.on_message
        async def ship(order: MessageExt) -> None:
            print(f"try {order.reconsume_times + 1}: {order.body.decode()}")
            if b" to " not in order.body:
                raise RetryLater  # any other exception: the same, and an error in the log
            shipped.set()

        clerk = PullConsumer(
            "clerk", "%DLQ%shipping", namesrv=namesrv, start_from=StartFrom.FIRST, suspend=0.5
        )
        async with Producer("shop", namesrv=namesrv) as shop, shipping, clerk:
            await shop.send(Message("Order", b"a book", keys=["4711"]))
            async for letter in clerk:
                topic = letter.properties["RETRY_TOPIC"]
                print(f"dead letter of {topic}: {letter.body.decode()}")
                await shop.send(Message(topic, letter.body + b" to Ann", keys=letter.keys))
                break
            await shipped.wait()


if __name__ == "__main__":
    logging.getLogger("aiorocketmq").setLevel(
        logging.ERROR
    )  # a dead letter is a warning of the broker, and shown above
    run(main())
