"""Tests of a program that uses RocketMQ: the fixtures come with the package, a cluster is there in
a fraction of a second.

python -m pytest examples/pytest_fixture.py     or, as here:     python examples/pytest_fixture.py
(pip install pytest)
"""

import asyncio
import subprocess
import sys

from aiorocketmq import Message, Producer, PullConsumer, StartFrom, sync
from aiorocketmq.local_cluster import LocalCluster


def place_order(namesrv: str, topic: str, what: str) -> None:
    """What is to be tested."""
    with sync.Producer("shop", namesrv=namesrv) as producer:
        producer.send(Message(topic, what.encode(), tags="new"))


def test_an_order_is_stored(rocketmq_cluster: LocalCluster, rocketmq_topic: str) -> None:
    place_order(rocketmq_cluster.namesrv_address, rocketmq_topic, "a book")
    with sync.PullConsumer(
        "audit",
        rocketmq_topic,
        namesrv=rocketmq_cluster.namesrv_address,
        start_from=StartFrom.FIRST,
    ) as consumer:
        assert [(message.body, message.tags) for message in consumer.poll()] == [(b"a book", "new")]


def test_orders_keep_their_order(rocketmq_cluster: LocalCluster, rocketmq_topic: str) -> None:
    async def order_twice() -> list[bytes]:
        namesrv = rocketmq_cluster.namesrv_address
        async with Producer("shop", namesrv=namesrv) as producer:
            for what in (b"a book", b"a pen"):
                await producer.send(Message(rocketmq_topic, what), sharding_key="customer 7")
        async with PullConsumer(
            "audit", rocketmq_topic, namesrv=namesrv, start_from=StartFrom.FIRST
        ) as consumer:
            bodies: list[bytes] = []
            while len(bodies) < 2:
                bodies += [message.body for message in await consumer.poll()]
            return bodies

    assert asyncio.run(order_twice()) == [b"a book", b"a pen"]


if __name__ == "__main__":
    # A process of its own: pytest comes before what it tests, and its plugins, are imported.
    arguments = ["-q", "-p", "no:cacheprovider", __file__]
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode)
