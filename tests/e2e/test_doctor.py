"""``mqdoctor`` beside real daemons, and beside peers that are none."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from aiorocketmq import Admin, Message, MessageExt, Producer, PushConsumer
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.tools.doctor.__main__ import main
from aiorocketmq.tools.doctor.finding import Level
from aiorocketmq.tools.doctor.findings import findings
from aiorocketmq.tools.doctor.looking import Question, look

from .cluster import HOST, SUSPEND, Cluster, asynchronous, create_topic, until
from .losing_relay import RELAY, LosingRelay
from .raft_group import GROUP, RaftGroup
from .test_acl import ACCOUNTS
from .test_client_tls import SecureCluster

HOUR_MS = 3_600_000
ALWAYS = {"clocks of the name servers", "topic"}
"""What is said of a cluster where all is as it should be."""


class Told(NamedTuple):
    """What one run left behind."""

    code: int
    out: str
    err: str

    @property
    def wrong(self) -> list[str]:
        """``where: what`` of what is wrong."""
        return [f"{f['where']}: {f['what']}" for f in self._of("WRONG")]

    @property
    def unseen(self) -> list[str]:
        return [f"{f['where']}: {f['what']}" for f in self._of("UNSEEN")]

    def _of(self, level: str) -> list[dict[str, str]]:
        return [f for f in json.loads(self.out)["findings"] if f["level"] == level]


Doctor = Callable[..., Told]


@pytest.fixture
def doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Doctor]:
    """Run it, with ``--json``; nothing of the environment counts."""
    for name in ("NAMESRV_ADDR", "ROCKETMQ_HOME", "MQADMIN_TLS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    own = logging.getLogger("aiorocketmq")
    level = own.level

    def run(*arguments: str) -> Told:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--json"], prog_name="mqdoctor")
        return Told(int(ended.value.code or 0), *capsys.readouterr())

    yield run
    own.setLevel(level)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("healthy")) as cluster:
        cluster.start_broker()
        yield cluster


def address_of(cluster: Cluster, name: str = "broker-a") -> str:
    return cluster.brokers[name].address


# --- nothing is wrong
# --------------------------------------------------------------------------------------------------


def test_nothing_is_wrong(cluster: Cluster, doctor: Doctor, topic: str, group: str) -> None:
    asyncio.run(create_topic(cluster.namesrv, topic, 4))
    told = doctor("-n", cluster.namesrv, "-t", topic, "-g", group)
    assert (told.code, told.wrong, told.err) == (0, [], "")
    assert len(json.loads(told.out)["answers"]) == 2


def test_it_is_a_module_that_reads_only(cluster: Cluster) -> None:
    """In an interpreter of its own, and text."""
    environment = {**os.environ, "NAMESRV_ADDR": cluster.namesrv}
    command = [sys.executable, "-m", "aiorocketmq.doctor"]
    before = asyncio.run(everything(cluster))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == (
        "0 wrong, 0 to know, 1 not seen. Nothing was changed, no message was read."
    )
    assert asyncio.run(everything(cluster)) == before


async def everything(cluster: Cluster) -> list[object]:
    """What could be changed."""
    async with Admin(namesrv=cluster.namesrv) as admin:
        address = address_of(cluster)
        return [
            await admin.topic_configs(address),
            await admin.broker_config(address),
            await admin.cluster_info(),
        ]


def test_a_slave_that_keeps_up(tmp_path: Path, doctor: Doctor) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start_broker()
        cluster.start_slave()
        asyncio.run(send_some(cluster, "Orders"))
        told = doctor("-n", cluster.namesrv)
        assert (told.code, told.wrong) == (0, [])
        assert "slave" in told.out


async def send_some(cluster: Cluster, topic: str) -> None:
    async with Producer("p", namesrv=cluster.namesrv) as producer:
        await producer.send([Message(topic, b"x" * 100) for _ in range(100)])


# --- something is
# --------------------------------------------------------------------------------------------------


def test_a_broker_as_name_server(cluster: Cluster, doctor: Doctor) -> None:
    address = address_of(cluster)
    told = doctor("-n", address)
    assert (told.code, told.wrong) == (
        1,
        [f"name server {address}: that is a broker and no name server"],
    )


def test_a_broker_that_is_killed(tmp_path: Path, doctor: Doctor) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start_broker()
        cluster.start_broker("broker-b")
        cluster.kill_broker("broker-a")

        async def gone() -> bool:
            async with Admin(namesrv=cluster.namesrv) as admin:
                return "broker-a" not in (await admin.cluster_info()).broker_addr_table

        asyncio.run(until(gone, "the name server sees it"))
        told = doctor("-n", cluster.namesrv)
        assert told.code == 1
        (line,) = told.wrong
        assert line.startswith("broker broker-a: it died at 20")


def test_a_broker_that_hangs(tmp_path: Path, doctor: Doctor) -> None:
    with Cluster(tmp_path) as cluster:
        process = cluster.start_broker().process
        process.send_signal(signal.SIGSTOP)
        try:
            told = doctor("-n", cluster.namesrv, "--timeout", "2")
        finally:
            process.send_signal(signal.SIGCONT)
        (line,) = told.wrong
        assert "it takes connections and answers nothing within 2 s" in line


def test_a_broker_that_registers_a_wrong_address(tmp_path: Path, doctor: Doctor) -> None:
    with Cluster(tmp_path) as cluster:
        port = cluster.start_broker(brokerIP1="127.0.0.9").port
        told = doctor("-n", cluster.namesrv)
        assert (told.code, told.wrong) == (
            1,
            [
                f"broker broker-a 0, 127.0.0.9:{port}: nothing listens there: the connection is "
                "refused"
            ],
        )


def test_a_slave_that_does_not_reach_its_master(tmp_path: Path, doctor: Doctor) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start_broker(haListenPort=1, brokerIP2="127.0.0.9")
        asyncio.run(send_some(cluster, "Orders"))
        cluster.start_slave()
        told = doctor("-n", cluster.namesrv, "--timeout", "1")
        (line,) = told.wrong
        assert "broker broker-a 1" in line
        assert "a slave that lacks" in line


def test_a_master_is_missing(tmp_path: Path, doctor: Doctor) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start_broker()
        cluster.start_slave()
        cluster.stop_broker("broker-a")
        told = doctor("-n", cluster.namesrv)
        assert told.wrong == [
            "broker broker-a: it has no master: its queues can be read and not written"
        ]


def test_a_group_with_and_without_a_majority(tmp_path: Path, doctor: Doctor) -> None:
    with RaftGroup(tmp_path) as group:
        group.start()
        leader = asyncio.run(group.complete())
        asyncio.run(send_some(group, "Orders"))
        assert doctor("-n", group.namesrv).wrong == []
        group.kill(leader, next(name for name in group.names if name != leader))

        async def gone() -> bool:
            return len(await group.ids()) == 1

        asyncio.run(until(gone, "the name server sees it"))
        assert doctor("-n", group.namesrv).wrong == [
            f"broker {GROUP}: it has no master: its queues can be read and not written"
        ]


def test_one_of_two_name_servers_is_dead(cluster: Cluster, doctor: Doctor) -> None:
    other = cluster.second_name_server()
    other.end()
    told = doctor("-n", f"{cluster.namesrv};{other.address}")
    assert (told.code, told.wrong) == (
        1,
        [f"name server {other.address}: nothing listens there: the connection is refused"],
    )


def test_name_servers_that_disagree(cluster: Cluster, doctor: Doctor, topic: str) -> None:
    other = cluster.second_name_server()
    asyncio.run(create_topic(cluster.namesrv, topic, 4))
    told = doctor("-n", f"{cluster.namesrv};{other.address}", "-t", topic)
    assert told.wrong == [
        f"name server {other.address}: it does not know broker broker-a 0, {address_of(cluster)}, "
        f"which {cluster.namesrv} knows",
        f"name server {other.address}: it does not know the topic {topic}, which "
        f"{cluster.namesrv} knows",
    ]
    assert f"(it is {cluster.namesrv} now)" in told.out


def test_a_clock_that_is_wrong(
    cluster: Cluster, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process' own."""
    right = SystemClock().time_ms
    monkeypatch.setattr(SystemClock, "time_ms", lambda _self: right() + HOUR_MS)
    (line,) = doctor("-n", cluster.namesrv).wrong
    assert f"broker broker-a 0, {address_of(cluster)}: its clock is 3" in line
    assert line.endswith("s behind this machine's")


# --- clients and ports
# --------------------------------------------------------------------------------------------------


async def looked(namesrv: str, topic: str | None = None, group: str | None = None) -> list[str]:
    """Lines of what is wrong or good to know."""
    found = findings(await look(Question((namesrv,), topic, group)))
    return [f"{e.level.value} {e.where}: {e.what}" for e in found if e.level is not Level.UNSEEN]


@asynchronous
async def test_consumers(cluster: Cluster, topic: str, group: str) -> None:
    await create_topic(cluster.namesrv, topic, 4)
    consumer = PushConsumer(group, namesrv=cluster.namesrv, suspend=SUSPEND)
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(_message: MessageExt) -> None: ...

    assert await looked(cluster.namesrv, topic, group) == [
        f"NOTE group {group}: none of its consumers is connected"
    ]
    async with consumer:
        assert await looked(cluster.namesrv, topic, group) == []
        assert await looked(cluster.namesrv, "TBW102", group) == [
            f"WRONG group {group}: its consumers do not subscribe TBW102"
        ]


def test_a_port_that_is_not_published(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        port = cluster.start_broker(brokerIP1=RELAY).port

        async def through_a_relay() -> list[str]:
            async with LosingRelay(HOST, port, [], random.Random(1)):
                return await looked(cluster.namesrv)

        (line,) = asyncio.run(through_a_relay())
        assert line.startswith(
            f"NOTE broker broker-a 0, {RELAY}:{port}: its port for small requests"
        )


# --- TLS
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with SecureCluster(tmp_path_factory.mktemp("secure")) as cluster:
        cluster.start_broker(**cluster.tls)
        yield cluster


def tls_file(folder: Path, *lines: str) -> str:
    path = folder / "tls.properties"
    path.write_text("\n".join(lines))
    return str(path)


def test_a_cluster_that_speaks_tls(secure: SecureCluster, doctor: Doctor, tmp_path: Path) -> None:
    server = f"name server {secure.namesrv}"
    told = doctor("-n", secure.namesrv)
    assert told.wrong == [f"{server}: it speaks TLS only, and was spoken to without"]
    told = doctor("-n", secure.namesrv, "--tlsConfig", tls_file(tmp_path))
    assert (told.code, told.wrong) == (0, [])
    strict = tls_file(tmp_path, "tls.client.authServer=true")
    (line,) = doctor("-n", secure.namesrv, "--tlsConfig", strict).wrong
    assert line.startswith(f"{server}: TLS fails at a certificate (")


def test_a_cluster_that_does_not(cluster: Cluster, doctor: Doctor, tmp_path: Path) -> None:
    told = doctor("-n", cluster.namesrv, "--tlsConfig", tls_file(tmp_path))
    assert told.wrong == [
        f"name server {cluster.namesrv}: it does not speak TLS, and was spoken to with"
    ]


# --- access control, secrets
# --------------------------------------------------------------------------------------------------

SECRETS = "the-admin", "admin-secret", "the-writer", "writer-secret", "the-nobody", "another"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("acl")
    accounts = folder / "broker-a" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    with Cluster(folder) as cluster:
        cluster.start_broker(aclEnable="true")
        yield cluster


@pytest.mark.parametrize(
    ("account", "what"),
    [
        (None, "it wants an account, and requests are not signed"),
        (("the-nobody", "admin-secret"), "it does not know this access key"),
        (("the-admin", "another"), "it knows this access key, but the signature is wrong: the "),
        (("the-admin", "admin-secret"), None),
        (("the-writer", "writer-secret"), None),
    ],
    ids=["none", "unknown", "wrong", "admin", "writer"],
)
def test_access_control(
    guarded: Cluster,
    doctor: Doctor,
    monkeypatch: pytest.MonkeyPatch,
    account: tuple[str, str] | None,
    what: str | None,
) -> None:
    if account is not None:
        monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", account[0])
        monkeypatch.setenv("ROCKETMQ_SECRET_KEY", account[1])
    told = doctor("-n", guarded.namesrv)
    assert told.code == (0 if what is None else 1)
    place = f"broker broker-a 0, {address_of(guarded)}: "
    assert [line.startswith(f"{place}{what}") for line in told.wrong] == [True] * told.code
    assert any("to administrators only" in each for each in told.unseen) is (
        account is not None and account[0] == "the-writer"
    )
    assert not any(secret in told.out + told.err for secret in SECRETS)


def test_a_file_with_half_an_account(
    cluster: Cluster, doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text("accessKey: the-admin\n")
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    told = doctor("-n", cluster.namesrv)
    assert f"not signed, ~/{tmp_path.name}/conf/tools.yml has no accessKey" in told.out
    assert "the-admin" not in told.out
    assert (told.code, told.err) == (0, "")


# --- peers that are none
# --------------------------------------------------------------------------------------------------


@contextmanager
def peer(answer: Callable[[bytes], bytes] | None) -> Iterator[str]:
    """Answers whatever comes; ``None``: never."""
    done = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked = self.request.recv(4096)
            if answer is None:
                done.wait()
            elif asked:
                self.request.sendall(answer(asked))

    with socketserver.ThreadingTCPServer((HOST, 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"{HOST}:{server.server_address[1]}"
        finally:
            done.set()
            server.shutdown()
            thread.join()


def with_body(body: bytes) -> Callable[[bytes], bytes]:
    """A well-formed answer to any request."""

    def answer(asked: bytes) -> bytes:
        header = json.loads(asked[8 : 8 + int.from_bytes(asked[5:8])])
        command = RemotingCommand(code=0, opaque=header["opaque"], flag=1, version=409)
        return encode_frame(SerializeType.JSON, encode_header(command), body)

    return answer


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (None, "it takes connections and answers nothing within 1 s"),
        (lambda _: b"", "it ends the connection in the place of an answer"),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "it ends the connection in the place of"),
        (with_body(b"\x00garbage"), "what it answers cannot be read"),
        (with_body(b'{"brokerAddrTable":{"a":{"brokerAddrs":7}}}'), "what it answers cannot be"),
    ],
    ids=["silent", "closes", "http", "garbage", "other"],
)
def test_a_peer_that_is_no_name_server(
    doctor: Doctor, answer: Callable[[bytes], bytes] | None, what: str
) -> None:
    with peer(answer) as address:
        told = doctor("-n", address, "--timeout", "1")
    assert told.code == 1
    assert told.wrong[0].startswith(f"name server {address}: {what}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [(None, "no answer within 1 s"), (lambda _: b"", "")],
    ids=["silent", "closes"],
)
def test_a_peer_that_answers_neither_tls_nor_plain(
    doctor: Doctor, tmp_path: Path, answer: Callable[[bytes], bytes] | None, said: str
) -> None:
    with peer(answer) as address:
        told = doctor("-n", address, "--timeout", "1", "--tlsConfig", tls_file(tmp_path))
    (line,) = (each for each in told.wrong if said in each)
    assert line.startswith(f"name server {address}: TLS is not answered")


def test_a_name_server_that_names_nonsense(doctor: Doctor) -> None:
    table = {
        f"b{n}": {"brokerName": f"b{n}", "brokerAddrs": {"0": f"no address {n}\x1b"}}
        for n in range(300)
    }
    body = json.dumps({"brokerAddrTable": table, "clusterAddrTable": {}}).encode()
    with peer(with_body(body)) as address:
        told = doctor("-n", address, "--timeout", "1")
    assert told.code == 1
    assert "brokers: 100 more, which were not looked at" in told.unseen
    assert "\x1b" not in told.out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "no name server is known: add -n HOST:PORT"),
        (("-n", "x"), "'x' must look like host:9876"),
        (("-n", "x:1", "--tlsConfig", "/nowhere"), "/nowhere"),
        (("-n", "x:1", "--timeout", "0"), "--timeout"),
    ],
)
def test_a_wrong_command_line(doctor: Doctor, arguments: tuple[str, ...], problem: str) -> None:
    told = doctor(*arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("mqdoctor: ")
    assert problem in told.err
    assert told.err.count("\n") == 1


def test_a_name_that_nobody_knows(doctor: Doctor) -> None:
    (line, _) = [*doctor("-n", "no-such-host.invalid:9876").wrong, ""]
    assert line.startswith(
        "name server no-such-host.invalid:9876: this machine does not know the name of the host"
    )
