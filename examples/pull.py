"""Asking for messages and committing by hand: ``python examples/pull.py``."""

import asyncio

from aiorocketmq import Message, Producer, PullConsumer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with LocalCluster() as cluster:
        namesrv = cluster.namesrv_address
        async with Producer("meters", namesrv=namesrv) as producer:
            readings = [
                Message("Reading", f"{celsius} degrees".encode()) for celsius in range(18, 24)
            ]
            await producer.send(readings)  # one frame, one queue
            await asyncio.gather(
                *(producer.send(reading) for reading in readings)
            )  # one frame each, in turns

        async with PullConsumer(
            "store", "Reading", namesrv=namesrv, start_from=StartFrom.FIRST, auto_commit=False
        ) as consumer:
            stored = 0
            while stored < 2 * len(readings):
                messages = await consumer.poll(timeout=5.0, max_messages=8)
                for message in messages:
                    print(
                        f"queue {message.queue_id} offset {message.queue_offset}: "
                        f"{message.body.decode()}"
                    )
                stored += len(messages)
                await consumer.commit()  # the brokers know: these do not come again
            for queue in sorted(consumer.assignment()):
                print(f"queue {queue.queue_id}: committed {await consumer.committed(queue)}")


if __name__ == "__main__":
    run(main())
