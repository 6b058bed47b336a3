"""The port for slaves: strangers that fill it, TLS, and a secret."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq import Message, Producer, SendStatus

from ..forked import Forked
from .cluster import HOST, Cluster, DaemonProcess, asynchronous, until
from .test_client_tls import SecureCluster

SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 20}
SECRET = "a secret of slave and master"


async def until_logged(daemon: DaemonProcess, text: str) -> None:
    await until(lambda: text in daemon.log_path.read_text(), f"{text!r} in {daemon.log_path}")


def port_of(master: DaemonProcess) -> int:
    return master.port + 1


@contextmanager
def strangers(
    master: DaemonProcess, hosts: list[str], each: int, *, report: bytes = b""
) -> Iterator[list[socket.socket]]:
    """Connections from these addresses, each of which sends ``report`` first."""
    with ExitStack() as stack:
        found = []
        for host in hosts:
            for _ in range(each):
                connection = socket.create_connection(
                    (HOST, port_of(master)), source_address=(host, 0)
                )
                found.append(stack.enter_context(connection))
                connection.sendall(report)
        yield found


async def replicates(cluster: Cluster, group: str, topic: str) -> None:
    """SYNC_MASTER: a send is answered so when a slave has it."""
    async with Producer(
        group, namesrv=cluster.namesrv, tls=getattr(cluster, "context", None)
    ) as producer:

        async def is_copied() -> bool:
            return (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK

        await until(is_copied, "a slave has what is sent")


@pytest.mark.parametrize(
    ("hosts", "each", "report"),
    [
        pytest.param([HOST], 70, b"", id="silent, where the slave is"),
        pytest.param(
            [f"127.0.0.{number}" for number in range(2, 10)],
            8,
            bytes(8),
            id="speaking, from elsewhere",
        ),
    ],
)
def test_strangers_do_not_keep_the_slave_out(
    cluster: Cluster, group: str, topic: str, hosts: list[str], each: int, report: bytes
) -> None:
    """They would also come again as often as they are closed: here they are not closed for being
    silent."""
    master = cluster.start_broker(brokerRole="SYNC_MASTER", haHousekeepingInterval=600_000, **SMALL)
    with strangers(master, hosts, each, report=report):
        cluster.start_slave(**SMALL)

        @asynchronous
        async def check() -> None:
            await replicates(cluster, group, topic)

        check()


def receives(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""


def test_a_slave_of_the_original_is_served_by_a_master_without_a_secret(
    cluster: Cluster, group: str, topic: str
) -> None:
    master = cluster.start_broker(**SMALL)

    @asynchronous
    async def send() -> None:
        async with Producer(group, namesrv=cluster.namesrv) as producer:
            await producer.send(Message(topic, b"x"))

    send()
    with strangers(master, [HOST], 1, report=bytes(8)) as (slave,):
        offset, size = struct.unpack(">qi", receives(slave)[:12])
        assert (offset, size > 0) == (0, True)


def test_with_a_secret_both_have_to_know_it(cluster: Cluster, group: str, topic: str) -> None:
    master = cluster.start_broker(brokerRole="SYNC_MASTER", haSecret=SECRET, **SMALL)
    with strangers(master, [HOST], 1, report=bytes(8)) as (stranger,):
        assert receives(stranger) == b"", "closed, without a byte of the log"
    wrong = cluster.start_slave(broker_id=2, haSecret="a secret of somebody else", **SMALL)
    cluster.start_slave(broker_id=1, haSecret=SECRET, **SMALL)

    @asynchronous
    async def check() -> None:
        await replicates(cluster, group, topic)
        await until_logged(master, "it does not know the secret")
        await until_logged(wrong, "not following the master")

    check()
    for file in (cluster.store_of("broker-a-2") / "commitlog").iterdir():
        assert not file.read_bytes().strip(b"\0"), "nothing came"
    for daemon in (master, wrong):
        assert SECRET not in daemon.log_path.read_text()


def test_a_slave_with_a_secret_does_not_follow_a_master_without(cluster: Cluster) -> None:
    master = cluster.start_broker(**SMALL)
    slave = cluster.start_slave(haSecret=SECRET, **SMALL)

    @asynchronous
    async def check() -> None:
        await until_logged(master, "set the same haSecret at both ends")
        await until_logged(slave, "not following the master")

    check()


def test_enforcing_is_for_the_port_for_slaves_too(tmp_path: Path, group: str, topic: str) -> None:
    with SecureCluster(tmp_path) as cluster:
        secure: dict[str, Any] = {**cluster.tls, **SMALL, "haSecret": SECRET}
        master = cluster.start_broker(brokerRole="SYNC_MASTER", **secure)
        with strangers(master, [HOST], 1, report=bytes(8)) as (plain,):
            assert receives(plain) == b""
        cluster.start_slave(**secure)

        @asynchronous
        async def check() -> None:
            await replicates(cluster, group, topic)
            await until_logged(master, "encrypted=true")
            await until_logged(
                master, "the peer does not use TLS, which tls.server.mode=enforcing demands"
            )

        check()


def test_a_short_secret_refuses_to_start(tmp_path: Path) -> None:
    with (tmp_path / "err").open("w+") as err:
        broker = Forked(
            "aiorocketmq.broker",
            "--haSecret=short",
            f"--storePathRootDir={tmp_path}/s",
            stdout=err,
            stderr=err,
        )
        assert broker.wait(30) == 2
        assert "haSecret must have at least 16 characters" in (tmp_path / "err").read_text()
