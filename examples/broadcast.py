"""Every member of the group gets every message: ``python examples/broadcast.py``."""

import asyncio
import tempfile
from pathlib import Path

from aiorocketmq import Message, MessageExt, MessageModel, Producer, PushConsumer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster

NEWS = (b"first", b"second")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            LocalCluster() as cluster,
            Producer("editors", namesrv=cluster.namesrv_address) as producer,
        ):
            for text in NEWS:
                await producer.send(Message("News", text), sharding_key="news")

            for reader in ("ann", "bob"):
                read = [
                    message.body
                    for message in await all_news(cluster.namesrv_address, reader, Path(folder))
                ]
                print(f"{reader} read {b', '.join(read).decode()}")


async def all_news(namesrv: str, reader: str, folder: Path) -> list[MessageExt]:
    received: list[MessageExt] = []
    complete = asyncio.Event()
    consumer = PushConsumer(
        "readers",
        namesrv=namesrv,
        instance_name=reader,
        model=MessageModel.BROADCASTING,
        offset_folder=folder,  # how far each of them got: a file, not the broker
        start_from=StartFrom.FIRST,
        concurrency=1,
    )
    consumer.subscribe("News")

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        received.append(message)
        if len(received) == len(NEWS):
            complete.set()

    async with consumer:
        await complete.wait()
    return received


if __name__ == "__main__":
    run(main())
