"""LocalCluster: starts, sends, receives, stops, and leaves nothing behind."""

import asyncio
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from aiorocketmq import (
    ClientStateError,
    ConnectError,
    ExpressionRefused,
    LocalCluster,
    Message,
    Producer,
    PullConsumer,
    Sql,
    local_thread,
)
from aiorocketmq.broker.state.topics import Topics
from aiorocketmq.client.offsets.start_offset import StartFrom
from aiorocketmq.daemon.launch import LaunchError
from aiorocketmq.remoting.errors import AddressInUseError, ConnectionLostError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.java_properties import PropertyError
from aiorocketmq.remoting.transport.tls import TlsError
from aiorocketmq.store.model.errors import StoreLockedError


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port of loopback that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


async def send_and_receive(cluster: LocalCluster) -> bytes:
    async with Producer("PID_test", namesrv=cluster.namesrv_address) as producer:
        await producer.send(Message("Test", b"hello", tags="TagA"))
    return await receive(cluster)


async def receive(cluster: LocalCluster) -> bytes:
    async with PullConsumer(
        "GID_test", "Test", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
    ) as consumer:
        async with asyncio.timeout(30):
            async for message in consumer:
                return message.body
    raise AssertionError


def test_on_the_running_loop(temporary: Path) -> None:
    async def use() -> LocalCluster:
        before = asyncio.all_tasks()
        async with LocalCluster() as cluster:
            assert cluster.loop is asyncio.get_running_loop()
            assert cluster.data_dir.parent == temporary
            assert await send_and_receive(cluster) == b"hello"
        assert asyncio.all_tasks() == before
        return cluster

    cluster = asyncio.run(use())
    assert not connects(cluster.namesrv_address)
    assert not connects(cluster.broker_address)
    assert not list(temporary.iterdir())


def test_in_a_thread(temporary: Path) -> None:
    threads = threading.active_count()
    with LocalCluster() as cluster:
        assert asyncio.run(send_and_receive(cluster)) == b"hello"
        assert connects(cluster.namesrv_address)
    assert threading.active_count() == threads
    assert not connects(cluster.namesrv_address)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("begun", [False, True])
def test_a_start_in_a_thread_that_is_interrupted_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """As by Ctrl-C. Python waits for its threads before it ends."""
    starting = threading.Event()

    class Slow(LocalCluster):
        async def run(self, ready: object = None) -> None:
            starting.set()
            await asyncio.Event().wait()

    def interrupted(*_futures: object, **_more: object) -> None:
        if begun:
            starting.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(local_thread, "wait", interrupted)
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        Slow().__enter__()
    assert threading.active_count() == threads
    assert starting.is_set() or not begun


def test_two_at_a_time() -> None:
    with LocalCluster() as first, LocalCluster() as second:
        assert (
            len(
                {
                    first.namesrv_address,
                    first.broker_address,
                    second.namesrv_address,
                    second.broker_address,
                }
            )
            == 4
        )
        assert first.data_dir != second.data_dir


def test_a_data_directory_is_there_again(tmp_path: Path, temporary: Path) -> None:
    folder = tmp_path / "not" / "there" / "yet"
    with LocalCluster(data_dir=folder) as cluster:
        assert asyncio.run(send_and_receive(cluster)) == b"hello"
    with LocalCluster(data_dir=str(folder)) as cluster:
        assert cluster.data_dir == folder
        asyncio.run(send_again(cluster))
    assert not list(temporary.iterdir())


async def send_again(cluster: LocalCluster) -> None:
    """The group goes on after what it consumed; the topic and its messages are still there."""
    async with Producer("PID_test", namesrv=cluster.namesrv_address) as producer:
        result = await producer.send(
            [Message("Test", b"more")], queue=(await producer.queues("Test"))[0]
        )
    assert result.queue.topic == "Test"
    assert await receive(cluster) == b"more"


def test_disk_use_is_small() -> None:
    with LocalCluster() as cluster:
        asyncio.run(send_and_receive(cluster))
        used = sum(path.stat().st_blocks * 512 for path in cluster.data_dir.rglob("*"))
    assert used < 128 << 20


def test_given_ports_and_properties() -> None:
    with LocalCluster() as first:
        ports = [
            int(address.rpartition(":")[2])
            for address in (first.namesrv_address, first.broker_address)
        ]
    with LocalCluster(
        namesrv_port=ports[0], broker_port=ports[1], properties={"brokerName": "mine"}
    ) as cluster:
        assert cluster.namesrv_address == f"127.0.0.1:{ports[0]}"
        assert cluster.broker_address == f"127.0.0.1:{ports[1]}"
        assert asyncio.run(broker_names(cluster)) == {"mine"}


async def broker_names(cluster: LocalCluster) -> set[str]:
    await cluster.create_topic("Made", queue_nums=3)
    async with Producer("PID_test", namesrv=cluster.namesrv_address) as producer:
        queues = await producer.queues("Made")
    assert [queue.queue_id for queue in queues] == [0, 1, 2]
    return {queue.broker_name for queue in queues}


@pytest.mark.parametrize("which", ["namesrv_port", "broker_port"])
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_port_that_is_taken(
    temporary: Path, taken_port: int, which: str, in_thread: bool
) -> None:
    cluster = LocalCluster(**{which: taken_port})  # type: ignore[arg-type]
    threads = threading.active_count()
    with pytest.raises(AddressInUseError, match=f"port {taken_port}"):
        start(cluster, in_thread=in_thread)
    assert threading.active_count() == threads
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("properties", "error", "text"),
    [
        ({"brokerNam": "x"}, LaunchError, "brokerNam"),
        ({"brokerId": "x"}, PropertyError, "brokerId"),
        (
            {"brokerPermission": 4},
            LaunchError,
            "the value of a property is text: brokerPermission='4', not 4",
        ),
        ({"aclEnable": True}, LaunchError, "aclEnable='true', not True"),
        ({"brokerRole": "SLAVE"}, LaunchError, "SLAVE"),
    ],
)
def test_properties_that_cannot_be(
    temporary: Path, properties: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        start(LocalCluster(properties=properties), in_thread=False)
    assert not list(temporary.iterdir())


def test_a_directory_that_is_in_use(tmp_path: Path) -> None:
    with LocalCluster(data_dir=tmp_path), pytest.raises(StoreLockedError):
        start(LocalCluster(data_dir=tmp_path), in_thread=True)


def start(cluster: LocalCluster, *, in_thread: bool) -> None:
    async def on_loop() -> None:
        async with cluster:
            pass

    if in_thread:
        with cluster:
            pass
    else:
        asyncio.run(on_loop())


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21])
def test_cancelled_while_starting(temporary: Path, turns: int) -> None:
    """At whatever point: every turn of the loop is another one."""

    async def use() -> None:
        cluster = LocalCluster()
        starting = asyncio.create_task(cluster.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(use())
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            (name, "known once the cluster runs")
            for name in ("namesrv_address", "broker_address", "data_dir", "loop")
        ),
        ("nonsense", "'LocalCluster' object has no attribute 'nonsense'"),
    ],
)
def test_what_is_known_once_it_runs(name: str, text: str) -> None:
    with pytest.raises(AttributeError, match=text):
        getattr(LocalCluster(), name)


@pytest.mark.parametrize("mode", ["enforcing", "permissive"])
def test_tls(tmp_path: Path, mode: str) -> None:
    ca = trustme.CA()
    issued = ca.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    context = ssl.create_default_context()
    ca.configure_trust(context)

    async def use() -> None:
        properties = {
            "tls.server.mode": mode,
            "tls.server.certPath": str(tmp_path / "server.pem"),
            "tls.server.keyPath": str(tmp_path / "server.key"),
        }
        async with LocalCluster(properties=properties) as cluster:
            namesrv = cluster.namesrv_address
            async with Producer("g", namesrv=namesrv, tls=context) as producer:
                await producer.send(Message("T", b"for your eyes only"))
            if mode == "enforcing":
                async with Producer("g", namesrv=namesrv) as plain:
                    with pytest.raises(ConnectionLostError, match="perhaps it speaks TLS and tls="):
                        await plain.send(Message("T", b"for everybody"))

    asyncio.run(use())


def test_a_certificate_that_is_not_there() -> None:
    with pytest.raises(TlsError, match="nowhere"):
        start(
            LocalCluster(properties={"tls.server.certPath": "/nowhere/server.pem"}),
            in_thread=False,
        )


def test_a_topic_is_made_on_the_loop_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks: a broker is not for several threads."""
    loops: list[asyncio.AbstractEventLoop] = []
    update = Topics.update

    def watched(table: Topics, config: TopicConfig) -> Any:
        loops.append(asyncio.get_running_loop())
        return update(table, config)

    with LocalCluster() as cluster:
        monkeypatch.setattr(Topics, "update", watched)
        asyncio.run(cluster.create_topic("T"))
        assert loops == [cluster.loop]


def test_not_running() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        asyncio.run(LocalCluster().create_topic("x"))


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    """``/proc`` has no room for files, whoever asks; a file is no folder."""
    file = tmp_path / "file"
    file.touch()
    for folder in (Path("/proc/self"), file, file / "below"):
        with pytest.raises(LaunchError, match=f"data_dir={folder.resolve()} cannot be written to"):
            with LocalCluster(data_dir=folder):
                pass


async def polls(consumer: PullConsumer) -> None:
    """Nothing comes, until it raises."""
    async with asyncio.timeout(30):
        while True:
            assert await consumer.poll(0.05) == []


def test_what_a_broker_refuses_says_what_to_do() -> None:
    async def run() -> None:
        async with LocalCluster(properties={"enablePropertyFilter": "false"}) as cluster:
            await cluster.create_topic("T")
            consumer = PullConsumer("g", namesrv=cluster.namesrv_address)
            consumer.subscribe("T", Sql("a > 1"))
            with pytest.raises(
                ExpressionRefused, match="; set enablePropertyFilter=true there; topic"
            ):
                await consumer.start()
            async with PullConsumer("h", namesrv=cluster.namesrv_address) as running:
                running.subscribe("T", Sql("a > 1"))
                with pytest.raises(ExpressionRefused, match="; set enablePropertyFilter=true"):
                    await polls(running)
                with pytest.raises(ClientStateError, match="reads nothing"):
                    await running.poll(0.05)
            async with Producer("p", namesrv=cluster.broker_address) as producer:
                with pytest.raises(
                    ConnectError, match=r"that is no name server \(perhaps a broker\)"
                ):
                    await producer.send(Message("T", b"x"))

    asyncio.run(run())
