"""Bits that flip in the files of running brokers: what a user sees of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from aiorocketmq import Message, Producer, PushConsumer, SendStatus, StartFrom
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.transport.client import RemotingClient

from .cluster import SUSPEND, Cluster, asynchronous, create_topic, until
from .test_replication import SMALL, until_logged

COUNT, HEAD = 30, 88


def body(number: int) -> bytes:
    return b"message-%02d-" % number + bytes(200)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as started:
        yield started


class LogFile:
    """The first file of a broker's log."""

    def __init__(self, store: Path) -> None:
        self.path = store / "commitlog" / ("0" * 20)

    def place_of(self, number: int) -> int:
        return self.path.read_bytes().find(body(number)) - HEAD

    def flip(self, number: int, at: int) -> None:
        place = self.place_of(number) + at
        with self.path.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 4]))


async def consumed(cluster: Cluster, group: str, count: int) -> tuple[set[bytes], int]:
    """What a new group gets, and how many it could not."""
    seen: set[bytes] = set()
    consumer = PushConsumer(
        group, namesrv=cluster.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    )
    consumer.subscribe("Rot")
    consumer.on_message(lambda message: seen.add(message.body))
    async with consumer:
        await until(
            lambda: len(seen) + consumer.damaged_messages >= count, f"{count} messages for {group}"
        )
    return seen, consumer.damaged_messages


def test_a_damaged_message_costs_itself_only_and_is_had_from_another_replica(
    cluster: Cluster,
) -> None:
    cluster.start_broker(**SMALL)
    asynchronous(lambda: create_topic(cluster.namesrv, "Rot", 1))()
    cluster.start_slave(**SMALL)
    master, slave = LogFile(cluster.store_of("broker-a")), LogFile(cluster.store_of("broker-a-1"))
    everything = {body(number) for number in range(COUNT)}

    async def with_a_slave() -> None:
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            for number in range(COUNT):
                await producer.send(Message("Rot", body(number)))
        await until(lambda: slave.place_of(COUNT - 1) >= 0, "the slave has all messages")
        master.flip(7, HEAD)
        master.flip(12, 4)  # its magic: a head is not believed to another broker
        assert await consumed(cluster, "has-a-slave", COUNT) == (everything, 0)
        await until(lambda: master.place_of(7) >= 0, "the master has its body from the slave")

    asynchronous(with_a_slave)()
    cluster.stop_broker("broker-a-1")
    slave.flip(25, HEAD + 2)
    damaged_slave = cluster.start_slave(**SMALL)

    async def the_slave_mends_itself() -> None:
        whole = PullMessageRequest(
            consumer_group="has-a-slave", topic="Rot", queue_id=0, queue_offset=0, max_msg_nums=32,
            sys_flag=PullSysFlag.SUBSCRIPTION, commit_offset=0, suspend_timeout_millis=0,
            subscription="*", sub_version=0,
            expression_type="TAG",
        )  # fmt: skip
        async with RemotingClient() as remoting:

            async def pulled() -> int:
                answer = await remoting.invoke(
                    damaged_slave.address, RequestCode.PULL_MESSAGE, whole
                )
                return answer.header.next_begin_offset if answer.code == 0 else -1

            async def stops() -> bool:
                return await pulled() == 25

            await until(stops, "the slave hands out nothing behind its damaged message")
            await until(lambda: slave.place_of(25) >= 0, "the slave has it from its master")

            async def goes_on() -> bool:
                return await pulled() == COUNT

            await until(goes_on, "the slave hands out the rest")

    asynchronous(the_slave_mends_itself)()
    cluster.kill_broker("broker-a-1")

    async def alone() -> None:
        seen, damaged = await consumed(cluster, "has-no-slave", COUNT)
        assert (seen, damaged) == (everything - {body(12)}, 1)

    asynchronous(alone)()
    log = cluster.brokers["broker-a"].log_path.read_text()
    assert log.count("is damaged and left out") == 2, "each once for both groups"


def test_a_master_has_a_damaged_message_from_its_slave(cluster: Cluster) -> None:
    cluster.start_broker(**SMALL)
    asynchronous(lambda: create_topic(cluster.namesrv, "Rot", 1))()
    cluster.start_slave(**SMALL)
    master, slave = LogFile(cluster.store_of("broker-a")), LogFile(cluster.store_of("broker-a-1"))

    async def sent() -> None:
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            for number in range(COUNT):
                await producer.send(Message("Rot", body(number)))
        await until(lambda: slave.place_of(COUNT - 1) >= 0, "the slave has all messages")

    asynchronous(sent)()
    cluster.kill_broker("broker-a")
    for number in (7, 8, 20):
        master.flip(number, HEAD)
    restarted = cluster.start_broker(**SMALL)

    async def mended() -> None:
        everything = {body(number) for number in range(COUNT)}
        assert await consumed(cluster, "g", COUNT) == (everything, 0)
        await until_logged(restarted, "a damaged record is mended")
        for number in (7, 8, 20):
            await until(lambda: master.place_of(number) >= 0, "it is intact")  # noqa: B023

    asynchronous(mended)()


def test_a_last_record_that_a_master_cuts_is_told_and_stays_with_the_slave(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Nothing that was acknowledged is lost in silence, and nothing while the slave is not
    emptied."""
    cluster.start_broker(brokerRole="SYNC_MASTER", **SMALL)
    asynchronous(lambda: create_topic(cluster.namesrv, "Rot", 1))()
    slave_broker = cluster.start_slave(**SMALL)
    master, slave = LogFile(cluster.store_of("broker-a")), LogFile(cluster.store_of("broker-a-1"))

    async def acknowledged(number: int) -> bool:
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            return (await producer.send(Message("Rot", body(number)))).status is SendStatus.SEND_OK

    async def all_but_one() -> None:
        await until(partial(acknowledged, 0), "the slave follows")
        assert all([await acknowledged(number) for number in range(1, COUNT - 1)])

    asynchronous(all_but_one)()
    cluster.kill_broker("broker-a")
    master.flip(COUNT - 2, 4)
    restarted = cluster.start_broker(brokerRole="SYNC_MASTER", **SMALL)
    assert "what lay behind" in restarted.log_path.read_text()

    async def told() -> None:
        await until_logged(slave_broker, "the last record of this slave")
        assert not await acknowledged(COUNT - 1), "and sends know that they have no slave"

    asynchronous(told)()
    assert slave.place_of(COUNT - 2) >= 0
    assert slave.place_of(COUNT - 1) < 0
    cluster.stop_broker("broker-a")
    cluster.stop_broker("broker-a-1")
    cluster.store_of("broker-a").rename(tmp_path / "old master")
    cluster.store_of("broker-a-1").rename(cluster.store_of("broker-a"))
    cluster.start_broker(brokerRole="SYNC_MASTER", **SMALL)

    async def the_slave_becomes_the_master() -> None:
        assert await consumed(cluster, "afterwards", COUNT - 1) == (
            {body(number) for number in range(COUNT - 1)},
            0,
        )

    asynchronous(the_slave_becomes_the_master)()
