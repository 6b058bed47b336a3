"""Groups of LocalCluster: what each member is told, and what cannot be."""

import asyncio
from pathlib import Path

import pytest

from aiorocketmq import LocalCluster, Message, Producer, PullConsumer, StartFrom, sync
from aiorocketmq.daemon.launch import LaunchError
from aiorocketmq.local_group import LocalGroup
from aiorocketmq.remoting.protocol.java_properties import parse_properties

Configs = list[dict[str, str]]


def configured(folder: Path, first_port: int, properties: dict[str, str]) -> Configs:
    group = LocalGroup(
        folder,
        namesrv="127.0.0.1:9876",
        size=3,
        first_port=first_port,
        bind="127.0.0.1",
        host="127.0.0.1",
        properties=properties,
    )
    group.configure()
    return [
        {
            each.name: each.value
            for each in parse_properties((folder / f"n{number}" / "broker.conf").read_text())
        }
        for number in range(3)
    ]


def test_ports_of_members_are_a_thousand_apart(tmp_path: Path) -> None:
    configs = configured(tmp_path, 10911, {})
    assert [config["listenPort"] for config in configs] == ["10911", "11911", "12911"]
    assert {config["dLegerPeers"] for config in configs} == {
        "n0-127.0.0.1:40911;n1-127.0.0.1:41911;n2-127.0.0.1:42911"
    }
    assert [config["dLegerSelfId"] for config in configs] == ["n0", "n1", "n2"]


def test_any_ports_are_all_different(tmp_path: Path) -> None:
    configs = configured(tmp_path, 0, {})
    ports = [int(config["listenPort"]) for config in configs]
    ports += [int(peer.rpartition(":")[2]) for peer in configs[0]["dLegerPeers"].split(";")]
    around = [port + step for port in ports for step in (-2, 0, 1)]
    assert len(set(around)) == len(around)


def test_all_members_are_told_the_same_but_for_what_is_theirs(tmp_path: Path) -> None:
    configs = configured(tmp_path, 10911, {"brokerName": "mine", "autoCreateTopicEnable": "false"})
    for config in configs:
        assert config["brokerName"] == config["dLegerGroup"] == "mine"
        assert config["autoCreateTopicEnable"] == "false"
        assert config["enableDLegerCommitLog"] == "true"
    theirs = {"listenPort", "storePathRootDir", "dLegerSelfId"}
    assert {name for name in configs[0] if len({config[name] for config in configs}) > 1} == theirs


def test_what_raft_says_cannot_be_said_twice(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="dLegerPeers: raft=3 says it already"):
        configured(tmp_path, 0, {"dLegerPeers": "n0-localhost:1"})


@pytest.mark.parametrize("raft", [-1, 10])
def test_numbers_of_members_that_cannot_be(raft: int) -> None:
    with pytest.raises(ValueError, match="1 to 9"):
        LocalCluster(raft=raft)


@pytest.mark.parametrize(
    ("there", "raft", "text"),
    [
        (["store"], 3, "a broker without a group"),
        (["n0/store", "n1/store", "n2/store"], 0, "a group of 3: that is raft=3"),
        (["n0/store", "n1/store", "n2/store"], 5, "a group of 3"),
    ],
)
def test_data_of_another_kind_of_cluster(
    tmp_path: Path, there: list[str], raft: int, text: str
) -> None:
    for name in there:
        (tmp_path / name).mkdir(parents=True)
    with (
        pytest.raises(LaunchError, match=text),
        LocalCluster(data_dir=tmp_path, raft=raft),
    ):
        pass


def test_one_broker_has_no_leader() -> None:
    async def ask() -> None:
        async with LocalCluster() as cluster:
            assert cluster.members == ()
            await cluster.leader()

    with pytest.raises(RuntimeError, match="raft=3"):
        asyncio.run(ask())


def test_when_the_leader_is_killed_another_one_leads() -> None:
    async def use() -> None:
        async with LocalCluster(raft=3) as cluster:
            await cluster.create_topic("Order", queue_nums=2)
            first = await cluster.leader()
            assert first.address == cluster.broker_address
            async with Producer("shop", namesrv=cluster.namesrv_address) as producer:
                await producer.send(Message("Order", b"before"))
            await first.kill()
            second = await cluster.leader()
            assert second is not first
            async with Producer("shop", namesrv=cluster.namesrv_address) as producer:
                assert len(await producer.queues("Order")) == 2
                await producer.send(Message("Order", b"after"))
            await first.start()
            await second.stop()
            assert (await cluster.leader()) is not second
            assert await bodies(cluster, 2) == {b"before", b"after"}

    asyncio.run(use())


async def bodies(cluster: LocalCluster, count: int) -> set[bytes]:
    found: set[bytes] = set()
    async with PullConsumer(
        "reader", "Order", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
    ) as consumer:
        async with asyncio.timeout(30):
            while len(found) < count:
                found |= {message.body for message in await consumer.poll()}
    return found


def test_a_group_in_a_thread_keeps_its_data(tmp_path: Path) -> None:
    for number in range(2):
        with LocalCluster(data_dir=tmp_path, raft=3) as cluster:
            asyncio.run(cluster.create_topic("Order"))
            with sync.Producer("shop", namesrv=cluster.namesrv_address) as producer:
                producer.send(Message("Order", b"%d" % number))
            members = cluster.members
        assert [member.pid for member in members] == [None] * 3
        for member in members:
            assert not (member.folder / "store" / "abort").exists(), "all have ended in good order"
    with LocalCluster(data_dir=tmp_path, raft=3) as cluster:
        assert asyncio.run(bodies(cluster, 2)) == {b"0", b"1"}
