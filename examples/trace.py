"""Who sent a message, when, and where it lies: ``python examples/trace.py``."""

from aiorocketmq import Message, Producer, PullConsumer, StartFrom, run
from aiorocketmq.client.producer.trace_records import Published, decode_trace
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with LocalCluster() as cluster:
        # trace=True: in RMQ_SYS_TRACE_TOPIC, where mqadmin and the dashboard look; a name: in a
        # topic of its own
        async with Producer("shop", namesrv=cluster.namesrv_address, trace="ShopTrace") as producer:
            await producer.send(Message("Order", b"a book", tags="new", keys=["4711"]))
            await producer.send(
                [
                    Message("Order", b"a pen", keys=["4712"]),
                    Message("Order", b"a lamp", keys=["4713"]),
                ]
            )

        found: list[Published] = []
        async with PullConsumer(
            "auditors", "ShopTrace", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        ) as consumer:
            while len(found) < 3:
                for message in await consumer.poll():
                    records = decode_trace(message.body.decode())
                    found += [record for record in records if isinstance(record, Published)]
        for record in found:
            print(
                f"order {record.keys}: {record.group} sent {record.body_length} bytes, stored: "
                f"{record.success}"
            )


if __name__ == "__main__":
    run(main())
