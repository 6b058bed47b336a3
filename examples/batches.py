"""Many messages at once: ``python examples/batches.py``.

A list is one frame and one append; a list that is too long for a frame is split. Single sends can
be gathered into batches.
"""

import asyncio

from aiorocketmq import Accumulate, Admin, Message, MessageError, Producer, run, split
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with LocalCluster() as cluster:
        async with Producer("importers", namesrv=cluster.namesrv_address) as producer:
            result = await producer.send(
                [Message("Row", f"row {number}".encode()) for number in range(3)]
            )
            print(f"3 rows in one frame: {len(result.msg_id.split(','))} ids")

            rows = [Message("Row", b"x" * 1000) for _ in range(10_000)]
            try:
                await producer.send(rows)
            except MessageError as error:
                print("too long:", str(error).partition(":")[0])
            frames = [await producer.send(part) for part in split(rows)]
            print(f"10000 rows in {len(frames)} frames")

        gather = Accumulate(
            max_bytes=32 << 10, linger=0.005
        )  # a batch leaves when it is full, or after 5 ms
        async with Producer(
            "sensors", namesrv=cluster.namesrv_address, accumulate=gather
        ) as producer:
            results = await asyncio.gather(
                *(producer.send(Message("Row", b"sensor")) for _ in range(1000))
            )
            print(
                "1000 sends, each with its own result: "
                f"{len({result.msg_id for result in results})} ids"
            )

        async with Admin(namesrv=cluster.namesrv_address) as admin:
            total = sum([await admin.max_offset(queue) for queue in await admin.read_queues("Row")])
            print(f"stored: {total}")


if __name__ == "__main__":
    run(main())
