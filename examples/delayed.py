"""A message that comes later: ``python examples/delayed.py``."""

import time

from aiorocketmq import Message, Producer, PullConsumer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with (
        LocalCluster() as cluster,
        Producer("reminders", namesrv=cluster.namesrv_address) as producer,
        PullConsumer(
            "people", "Reminder", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        ) as consumer,
    ):
        sent = time.monotonic()
        await producer.send(
            Message("Reminder", b"later", delay_level=1)
        )  # 1 s; level 3 is 10 s, level 5 a minute
        await producer.send(Message("Reminder", b"now"))
        async for message in consumer:
            seconds = time.monotonic() - sent
            print(
                f"{message.body.decode()}: after {'less' if seconds < 0.9 else 'more'} than 0.9 s"
            )
            if message.body == b"later":
                break


if __name__ == "__main__":
    run(main())
