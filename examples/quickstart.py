"""A message there and back, on a cluster inside this process: ``python examples/quickstart.py``."""

import asyncio

from aiorocketmq import Message, MessageExt, Producer, PushConsumer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with (
        LocalCluster() as cluster,
        Producer("greeters", namesrv=cluster.namesrv_address) as producer,
    ):
        result = await producer.send(
            Message("Greeting", b"Hello, world", tags="english", keys=["1"])
        )
        print(f"sent {result.msg_id} to queue {result.queue.queue_id}")

        received = asyncio.Event()
        consumer = PushConsumer(
            "listeners", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        )
        consumer.subscribe("Greeting", "english || french")

        @consumer.on_message
        async def handle(
            message: MessageExt,
        ) -> None:  # returning: consumed; raising: once more, later
            print(f"received {message.msg_id}: {message.body.decode()}")
            received.set()

        async with consumer:
            await received.wait()


if __name__ == "__main__":
    run(main())
