"""Masters of LocalCluster side by side: what each is told, what cannot be, that they share a
topic."""

import asyncio
import urllib.request
from pathlib import Path

import pytest

from aiorocketmq import LocalCluster, Message, Producer, PullConsumer, StartFrom
from aiorocketmq.broker.config.addresses import free_port
from aiorocketmq.daemon.launch import LaunchError
from aiorocketmq.local_brokers import LocalMember
from aiorocketmq.local_masters import LARGEST, LocalMasters
from aiorocketmq.remoting.protocol.java_properties import parse_properties


def configured(folder: Path, first_port: int, size: int = 3, **properties: str) -> LocalMasters:
    masters = LocalMasters(
        folder,
        namesrv="127.0.0.1:9876",
        size=size,
        first_port=first_port,
        bind="127.0.0.1",
        host="127.0.0.1",
        properties=properties,
    )
    masters.configure()
    return masters


def told(member: LocalMember) -> dict[str, str]:
    text = member.config_file.read_text()
    return {each.name: each.value for each in parse_properties(text)}


def test_each_has_its_ports_its_name_and_its_folder(tmp_path: Path) -> None:
    masters = configured(tmp_path, 10911, prometheusPort="5557", fileReservedTime="24")
    tables = [told(member) for member in masters.members]
    assert [member.folder for member in masters.members] == [
        tmp_path / f"broker-{number}" for number in range(3)
    ]
    assert [table["brokerName"] for table in tables] == ["broker-0", "broker-1", "broker-2"]
    assert [table["listenPort"] for table in tables] == ["10911", "10921", "10931"]
    assert [table["prometheusPort"] for table in tables] == ["5557", "5558", "5559"]
    assert masters.members[2].metrics_address == "127.0.0.1:5559"
    assert [table["storePathRootDir"] for table in tables] == [
        str(member.folder / "store") for member in masters.members
    ]
    theirs = {"brokerName", "listenPort", "prometheusPort", "storePathRootDir"}
    assert {name for name in tables[0] if len({each[name] for each in tables}) > 1} == theirs


def test_any_ports_are_all_different(tmp_path: Path) -> None:
    masters = configured(tmp_path, 0, 9)
    ports = [int(told(member)["listenPort"]) for member in masters.members]
    around = [port + step for port in ports for step in (-2, 0, 1)]
    assert len(set(around)) == len(around)
    assert {told(member)["prometheusPort"] for member in masters.members} == {"0"}


def test_what_masters_says_cannot_be_said_twice(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="brokerName: masters=3 says it already"):
        configured(tmp_path, 0, brokerName="mine")


def test_masters_have_no_tls(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"tls\.server\.mode: masters=3 has no TLS, a cluster of"):
        configured(tmp_path, 0, 3, **{"tls.server.mode": "enforcing"})


def test_ports_that_there_are_not(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="port for slaves would be 65541, and there are 65535"):
        configured(tmp_path, 65520)


@pytest.mark.parametrize(
    ("raft", "masters", "text"),
    [(0, -1, "1 to 64"), (0, LARGEST + 1, "1 to 64"), (3, 2, "raft and masters")],
)
def test_numbers_of_masters_that_cannot_be(raft: int, masters: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LocalCluster(raft=raft, masters=masters)


@pytest.mark.parametrize(
    ("there", "raft", "masters", "text"),
    [
        (["store"], 0, 2, "a broker without a group"),
        (["n0/store"], 0, 2, "a group of 1: that is raft=1"),
        (["broker-0/store", "broker-1/store"], 0, 0, "2 masters: that is masters=2, or more"),
        (["broker-0/store", "broker-1/store"], 0, 1, "2 masters: that is masters=2, or more"),
        (["broker-0/store", "broker-1/store"], 3, 0, "2 masters: that is masters=2, or more"),
    ],
)
def test_data_of_another_kind_of_cluster(
    tmp_path: Path, there: list[str], raft: int, masters: int, text: str
) -> None:
    for name in there:
        (tmp_path / name).mkdir(parents=True)
    with (
        pytest.raises(LaunchError, match=text),
        LocalCluster(data_dir=tmp_path, raft=raft, masters=masters),
    ):
        pass


async def bodies(namesrv: str, count: int) -> set[bytes]:
    found: set[bytes] = set()
    async with PullConsumer(
        "reader", "Order", namesrv=namesrv, start_from=StartFrom.FIRST
    ) as consumer:
        async with asyncio.timeout(30):
            while len(found) < count:
                found |= {message.body for message in await consumer.poll()}
    return found


def put_messages(address: str) -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("rocketmq_put_messages_total")
    )


def test_two_share_a_topic_and_one_can_be_added(tmp_path: Path) -> None:
    """Both take messages, each tells its own figures; with a third the data is still there, and
    when one is killed the others go on."""

    async def use() -> None:
        properties = {"prometheusPort": str(free_port("127.0.0.1"))}
        async with LocalCluster(data_dir=tmp_path, masters=2, properties=properties) as cluster:
            await cluster.create_topic("Order", queue_nums=2)
            async with Producer("shop", namesrv=cluster.namesrv_address) as producer:
                assert len(await producer.queues("Order")) == 4
                for number in range(8):
                    await producer.send(Message("Order", b"%d" % number))
            figures = [
                await asyncio.to_thread(put_messages, each.metrics_address)
                for each in cluster.members
            ]
            assert figures == [4, 4]
            assert cluster.broker_address == cluster.members[0].address
            with pytest.raises(RuntimeError, match="no group"):
                await cluster.leader()
        assert [member.pid for member in cluster.members] == [None, None]
        async with LocalCluster(data_dir=tmp_path, masters=3) as cluster:
            await cluster.create_topic("Order", queue_nums=2)
            sent = {b"%d" % number for number in range(8)}
            assert await bodies(cluster.namesrv_address, 8) == sent
            await cluster.members[1].kill()
            async with Producer("shop", namesrv=cluster.namesrv_address) as producer:
                results = [await producer.send(Message("Order", b"after")) for _ in range(6)]
            assert {each.queue.broker_name for each in results} == {"broker-0", "broker-2"}

    asyncio.run(use())
