"""Master and slave as real processes: what is acknowledged survives the master, disk and all."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq import Message, MessageExt, Producer, PushConsumer, SendStatus
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.transport.client import RemotingClient
from examples.demo.daemons import free_port
from tests.stored import decode_messages

from .cluster import PATIENCE_S, SUSPEND, Cluster, DaemonProcess, asynchronous, create_topic, until

SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "haHousekeepingInterval": 3000,
    "haSendHeartbeatInterval": 500,
}
IN_FLIGHT = 64


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as started:
        yield started


async def until_logged(daemon: DaemonProcess, text: str, times: int = 1) -> None:
    await until(
        lambda: daemon.log_path.read_text().count(text) >= times,
        f"{text!r} in {daemon.log_path}",
        PATIENCE_S,
    )


async def load(
    producer: Producer,
    topic: str,
    acknowledged: set[bytes],
    name: bytes,
    *,
    timeout: float = 2,
    any_answer: bool = False,
) -> None:
    """Send until the master is gone. ``any_answer``: one that is stored and not as safe counts,
    too."""
    number = 0
    while True:
        number += 1
        body = b"%s-%d" % (name, number)
        try:
            result = await producer.send(Message(topic, body + bytes(200)), timeout=timeout)
        except RocketMQError:
            return
        if any_answer or result.status is SendStatus.SEND_OK:
            acknowledged.add(body)


def test_what_a_sync_master_has_acknowledged_is_at_the_slave(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The master is killed under load and its disk thrown away: consumers go on from the slave and
    commit there."""
    master = cluster.start_broker(brokerRole="SYNC_MASTER", **SMALL)
    asynchronous(lambda: create_topic(cluster.namesrv, "Orders", 4))()
    slave = cluster.start_slave(**SMALL)
    acknowledged: set[bytes] = set()
    seen: set[bytes] = set()

    async def scenario() -> None:
        await until_logged(master, "slave connected")
        consumer = PushConsumer("g", namesrv=cluster.namesrv, suspend=SUSPEND, commit_interval=0.2)
        consumer.subscribe("Orders")
        consumer.on_message(lambda message: seen.add(name_of(message)))
        async with Producer("p", namesrv=cluster.namesrv, retries=0) as producer, consumer:
            senders = [
                asyncio.create_task(load(producer, "Orders", acknowledged, b"%d" % number))
                for number in range(IN_FLIGHT)
            ]
            await until(
                lambda: len(acknowledged) > 2000 and len(seen) > 500, "some thousand messages"
            )
            cluster.kill_broker("broker-a")
            shutil.rmtree(tmp_path / "broker-a" / "store")
            await asyncio.gather(*senders)
            await until(lambda: acknowledged <= seen, "every acknowledged message, from the slave")
            async with RemotingClient() as remoting:
                await until(
                    lambda: is_at_the_end(remoting, slave.address),
                    "the group's place is committed at the slave",
                )

    asynchronous(scenario)()
    cluster.start_broker(
        brokerRole="SYNC_MASTER", **SMALL
    )  # with an empty disk: not what the slave has followed

    async def refused() -> None:
        await until_logged(slave, "the last record of this slave")
        await until_logged(slave, "does not have it")

    asynchronous(refused)()
    stored = tmp_path / "broker-a-1" / "store" / "commitlog" / ("0" * 20)
    assert stored.read_bytes()[:4] != bytes(4), "nothing is overwritten"


async def is_at_the_end(remoting: RemotingClient, address: str) -> bool:
    """The group has committed all of its topic, says the broker."""
    answer = (await remoting.invoke(address, RequestCode.GET_ALL_CONSUMER_OFFSET)).check(address)
    offsets = decode_body(ConsumerOffsetTable, answer.body).offset_table.get("Orders@g", {})
    for queue_id in range(4):
        header = QueueRequest(topic="Orders", queue_id=queue_id)
        answer = (await remoting.invoke(address, RequestCode.GET_MAX_OFFSET, header)).check(address)
        if offsets.get(queue_id) != answer.header.offset:
            return False
    return True


def name_of(message: MessageExt) -> bytes:
    return message.body.rstrip(b"\0")


def test_slaves_come_later_go_away_and_catch_up(cluster: Cluster, tmp_path: Path) -> None:
    """An empty slave gets everything that is there; one that was killed goes on; the master may be
    killed too. Its port for slaves is where it was told to be.
    """
    ha_port = free_port()
    asynchronous(lambda: start_and_send(cluster, ha_port))()
    cluster.start_slave(haAckAfterFlush=True, **SMALL)

    async def same() -> None:
        paths = [tmp_path / name / "store" / "commitlog" for name in ("broker-a", "broker-a-1")]

        def logs_are_equal() -> bool:
            logs = [
                {path.name: path.read_bytes() for path in folder.iterdir() if path.stat().st_size}
                for folder in paths
            ]
            used = [
                {name: data for name, data in log.items() if data[:4] != bytes(4)} for log in logs
            ]
            return used[0] == used[1] and len(used[0]) > 1

        await until(logs_are_equal, "both logs are equal")

    asynchronous(same)()
    assert f":{ha_port} from=0" in cluster.brokers["broker-a-1"].log_path.read_text()
    cluster.kill_broker("broker-a-1")
    asynchronous(lambda: send(cluster, 300))()
    cluster.start_slave(haAckAfterFlush=True, **SMALL)
    asynchronous(same)()
    cluster.kill_broker("broker-a")
    cluster.start_broker(haListenPort=ha_port, **SMALL)
    asynchronous(lambda: send(cluster, 300))()
    asynchronous(same)()


async def start_and_send(cluster: Cluster, ha_port: int) -> None:
    await asyncio.to_thread(lambda: cluster.start_broker(haListenPort=ha_port, **SMALL))
    await send(cluster, 1500)


async def send(cluster: Cluster, count: int) -> None:
    async with Producer("p", namesrv=cluster.namesrv) as producer:
        await asyncio.gather(*(producer.send(Message("T", bytes(1000))) for _ in range(count)))


@pytest.mark.parametrize("waits_for", ["nothing", "disk", "slave"])
def test_whose_message_is_stored_is_answered_before_a_stop(
    cluster: Cluster, tmp_path: Path, waits_for: str
) -> None:
    """What is stored and not answered would be sent again."""
    settings: dict[str, Any] = {
        "disk": {"flushDiskType": "SYNC_FLUSH"},
        "slave": {"brokerRole": "SYNC_MASTER"},
    }.get(waits_for, {})
    master = cluster.start_broker(**settings, **SMALL)
    asynchronous(lambda: create_topic(cluster.namesrv, "Orders", 4))()
    acknowledged: set[bytes] = set()

    async def scenario() -> None:
        if waits_for == "slave":
            await asyncio.to_thread(cluster.start_slave, **SMALL)
            await until_logged(master, "slave connected")
        async with contextlib.AsyncExitStack() as stack:
            senders = []
            for name in ("a", "b", "c", "d"):
                producer = Producer("p", namesrv=cluster.namesrv, retries=0, instance_name=name)
                await stack.enter_async_context(producer)
                for number in range(IN_FLIGHT // 4):
                    body = b"%s%d" % (name.encode(), number)
                    sender = load(
                        producer, "Orders", acknowledged, body, timeout=PATIENCE_S, any_answer=True
                    )
                    senders.append(asyncio.create_task(sender))
            await until(lambda: len(acknowledged) > 500, "messages are acknowledged")
            await asyncio.to_thread(cluster.stop_broker, "broker-a")
            await asyncio.gather(*senders)

    asynchronous(scenario)()
    stored = {
        message.body.rstrip(b"\0")
        for path in sorted((cluster.store_of("broker-a") / "commitlog").iterdir())
        for message in decode_messages(path.read_bytes())
        if message.topic == "Orders"
    }
    assert stored == acknowledged
