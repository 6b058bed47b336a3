"""What belongs together stays in order: ``python examples/ordered.py``.

Messages with the same ``sharding_key`` go to the same queue, and a queue keeps its order.
"""

from collections import defaultdict

from aiorocketmq import Message, Producer, PullConsumer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster

STEPS = ("created", "paid", "packed", "sent")
ORDERS = (1001, 1002, 1003)


async def main() -> None:
    async with LocalCluster() as cluster:
        async with Producer("shop", namesrv=cluster.namesrv_address) as producer:
            for step in STEPS:
                for order in ORDERS:
                    await producer.send(
                        Message("Order", step.encode(), keys=[str(order)]), sharding_key=order
                    )

        history: dict[str, list[str]] = defaultdict(list)
        async with PullConsumer(
            "audit", "Order", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        ) as consumer:
            async for message in consumer:
                history[message.keys[0]].append(message.body.decode())
                if sum(map(len, history.values())) == len(STEPS) * len(ORDERS):
                    break
        for number, steps in sorted(history.items()):
            print(f"order {number}: {', '.join(steps)}")


if __name__ == "__main__":
    run(main())
