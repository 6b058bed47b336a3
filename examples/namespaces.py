"""Two tenants that use the same names: ``python examples/namespaces.py``."""

from aiorocketmq import Admin, Message, Producer, PullConsumer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with LocalCluster() as cluster:
        for tenant in ("north", "south"):
            async with Producer(
                "shop", namesrv=cluster.namesrv_address, namespace=tenant
            ) as producer:
                result = await producer.send(Message("Order", f"an order in the {tenant}".encode()))
                print(f"{tenant} sent to {result.queue.topic}")

        for tenant in ("north", "south"):
            async with PullConsumer(
                "billing",
                "Order",
                namesrv=cluster.namesrv_address,
                namespace=tenant,
                start_from=StartFrom.FIRST,
            ) as consumer:
                async for message in consumer:
                    print(f"{tenant} received from {message.topic}: {message.body.decode()}")
                    break

        async with Admin(namesrv=cluster.namesrv_address) as admin:
            print(
                "in the cluster:",
                *sorted(name for name in await admin.topic_list() if name.endswith("%Order")),
            )


if __name__ == "__main__":
    run(main())
