"""The master of a pair is gone, and its slave is made the master: producers of ours hear of it at
once, whatever the interval at which they look at routes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq import Admin, Message, Producer, SendFailed, SendResult
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.sync import Producer as SyncProducer

from .cluster import Cluster, asynchronous, create_topic, until

TOPIC = "Orders"
SOON_S = 1.0
PAIR: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 20, "haSendHeartbeatInterval": 500}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as started:
        yield started


class Sends:
    """When each of several ways to send was acknowledged first since the last ``begin``."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, float] = {}

    def begin(self) -> None:
        self.acknowledged.clear()

    async def go_on(self, name: str, send: Callable[[], Awaitable[SendResult]]) -> None:
        """What is bound to a queue and was under way fails: its connection was lost."""
        failures = 0
        while True:
            try:
                result = await send()
            except SendFailed:
                failures += 1
                if failures > 1:
                    raise
                continue
            assert result.queue.broker_name == "broker-a"
            self.acknowledged.setdefault(name, time.monotonic())
            await asyncio.sleep(0.01)


def message() -> Message:
    return Message(TOPIC, b"x")


async def master_of(namesrv: str) -> str | None:
    async with Admin(namesrv=namesrv) as admin:
        broker = (await admin.cluster_info()).broker_addr_table.get("broker-a")
    return broker.broker_addrs.get(0) if broker is not None else None


def test_the_next_acknowledgement_comes_with_the_route(cluster: Cluster) -> None:
    cluster.start_broker(**PAIR)
    asynchronous(lambda: create_topic(cluster.namesrv, TOPIC, 4))()
    slave = cluster.start_slave(**PAIR)
    sends = Sends()

    async def scenario() -> None:
        with SyncProducer("s", namesrv=cluster.namesrv) as blocking:
            async with Producer("p", namesrv=cluster.namesrv) as producer:
                ways: dict[str, Callable[[], Awaitable[SendResult]]] = {
                    "plain": lambda: producer.send(message(), timeout=60),
                    "by key": lambda: producer.send(message(), timeout=60, sharding_key="k"),
                    "batch": lambda: producer.send([message(), message()], timeout=60),
                    "sync": lambda: asyncio.to_thread(blocking.send, message(), timeout=60),
                }
                async with asyncio.TaskGroup() as group:
                    senders = [
                        group.create_task(sends.go_on(name, way)) for name, way in ways.items()
                    ]
                    await until(lambda: len(sends.acknowledged) == len(ways), "all of them send")
                    await asyncio.to_thread(slave_has_the_topic, cluster)
                    cluster.kill_broker("broker-a")
                    await asyncio.to_thread(cluster.stop_broker, "broker-a-1")
                    starting = group.create_task(asyncio.to_thread(start_as_master, cluster))
                    sends.begin()
                    known = await until_known(cluster.namesrv, slave.address)
                    await until(
                        lambda: len(sends.acknowledged) == len(ways),
                        "all of them are acknowledged again",
                    )
                    latest = max(sends.acknowledged.values()) - known
                    await starting
                    for sender in senders:
                        sender.cancel()
                assert latest < SOON_S

    asynchronous(scenario)()


def start_as_master(cluster: Cluster) -> None:
    cluster.start_broker("broker-a-1", brokerName="broker-a", brokerId=0, **PAIR)


def slave_has_the_topic(cluster: Cluster) -> None:
    """Else it would be made anew, of another size."""
    topics = cluster.store_of("broker-a-1") / "config" / "topics.json"

    async def there() -> None:
        await until(lambda: topics.exists() and TOPIC in topics.read_text(), "the topic there")

    asyncio.run(there())


async def until_known(namesrv: str, address: str) -> float:
    """When the name server has it as the master."""
    while True:
        try:
            if await master_of(namesrv) == address:
                return time.monotonic()
        except RocketMQError:
            pass
        await asyncio.sleep(0.01)
