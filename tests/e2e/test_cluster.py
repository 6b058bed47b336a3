"""A cluster of two masters, a slave and two name servers, and what is done with it in daily
life."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiorocketmq import Admin, Message, MessageExt, Producer, PushConsumer, SendStatus
from examples.demo.daemons import free_port

from .cluster import HOST, SUSPEND, Cluster, DaemonProcess, asynchronous, create_topic, until

SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 20, "registerNameServerPeriod": 10_000}
TOPIC = "Orders"


class Client:
    """Sends, and counts what comes."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.sent: set[bytes] = set()
        self.seen: set[bytes] = set()

    def take(self, message: MessageExt) -> None:
        self.seen.add(bytes(message.body))

    async def brokers(self, count: int = 8, status: SendStatus | None = None) -> set[str]:
        """Where so many messages go now."""
        await self.producer.instance.routes.refresh(TOPIC)
        results = []
        for _ in range(count):
            body = b"%d" % len(self.sent)
            results.append(await self.producer.send(Message(TOPIC, body)))
            self.sent.add(body)
        return {result.queue.broker_name for result in results if status in {None, result.status}}

    async def until_sent_to(self, *names: str, status: SendStatus | None = None) -> None:
        async def sent() -> bool:
            return await self.brokers(status=status) == set(names)

        await until(sent, f"messages go to {names}")


def test_maintenance_new_addresses_and_name_servers_that_are_down(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        second = cluster.second_name_server()
        both = f"{second.address};{cluster.namesrv}"
        for name, role in (("broker-a", "SYNC_MASTER"), ("broker-b", "ASYNC_MASTER")):
            cluster.start_broker(name, brokerRole=role, namesrvAddr=both, **SMALL)
        slave = cluster.start_slave(namesrvAddr=both, **SMALL)
        asynchronous(lambda: scenario(cluster, second, slave, both))()


async def scenario(
    cluster: Cluster, second: DaemonProcess, slave: DaemonProcess, both: str
) -> None:
    await create_topic(both, TOPIC, 2)
    options: dict[str, Any] = {"namesrv": both, "route_interval": 0.5}
    consumer = PushConsumer("g", suspend=SUSPEND, **options)
    async with Producer("p", **options) as producer:
        client = Client(producer)
        consumer.subscribe(TOPIC)
        consumer.on_message(client.take)
        async with consumer:
            await client.until_sent_to("broker-a", "broker-b", status=SendStatus.SEND_OK)
            await wiped(client, both)
            second.end()
            await client.until_sent_to("broker-a", "broker-b")
            async with Producer("p2", **options) as later:
                assert (await later.send(Message(TOPIC, b"later"))).status in {*SendStatus}
            client.sent.add(b"later")
            await moved(cluster, slave, client, both)
            await until(lambda: client.sent <= client.seen, "everything is consumed")


async def wiped(client: Client, both: str) -> None:
    """For maintenance producers are kept away from a broker; consumers go on with it."""
    async with Admin(namesrv=both) as admin:
        for address in both.split(";"):
            assert await admin.wipe_write_perm(address, "broker-a") > 0
        assert await client.brokers() == {"broker-b"}
        for address in both.split(";"):
            assert await admin.add_write_perm(address, "broker-a") > 0
    await client.until_sent_to("broker-a", "broker-b")


async def moved(cluster: Cluster, slave: DaemonProcess, client: Client, both: str) -> None:
    """A master comes back with another address: everybody finds it, its slave too."""
    old = cluster.brokers["broker-a"].port
    await asyncio.to_thread(cluster.stop_broker, "broker-a")
    assert await client.brokers() == {"broker-b"}
    port = free_port(-2, 1)
    assert port != old
    await asyncio.to_thread(
        lambda: cluster.start_broker(
            "broker-a", brokerRole="SYNC_MASTER", listenPort=port, namesrvAddr=both, **SMALL
        )
    )
    await client.until_sent_to("broker-a", "broker-b", status=SendStatus.SEND_OK)
    assert f"the master's port for slaves is {HOST}:{port + 1} " in slave.log_path.read_text()
