"""Every client over TLS, name server and broker alike."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from aiorocketmq import (
    Admin,
    ConnectError,
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    StartFrom,
    sync,
)

from .cluster import _NAMESRV_READY, HOST, SUSPEND, Cluster, DaemonProcess, asynchronous, total_of


class SecureCluster(Cluster):
    """Its daemons take nothing but TLS from clients."""

    def __init__(self, folder: Path) -> None:
        ca = trustme.CA()
        issued = ca.issue_cert(HOST)
        folder.mkdir(parents=True, exist_ok=True)
        issued.private_key_pem.write_to_path(folder / "server.key")
        issued.cert_chain_pems[0].write_to_path(folder / "server.pem")
        self.context = ssl.create_default_context()
        ca.configure_trust(self.context)
        self.tls: dict[str, Any] = {
            "tls.server.mode": "enforcing",
            "tls.server.certPath": folder / "server.pem",
            "tls.server.keyPath": folder / "server.key",
            "tls.enable": "true",
        }
        self._folder = folder
        self.name_server = DaemonProcess(
            "aiorocketmq.namesrv", _NAMESRV_READY, folder / "namesrv", "--listenPort=0",
            f"--bindAddress={HOST}",
            *(f"--{name}={value}" for name, value in self.tls.items()),
        )  # fmt: skip
        self.brokers = {}
        self._others = []
        self._ports = {}

    async def _wait_until_known(self, name: str, broker_id: int = 0) -> None:
        async with Admin(namesrv=self.namesrv, tls=self.context) as admin:
            async with asyncio.timeout(30):
                while name not in (await admin.cluster_info()).broker_addr_table:
                    await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with SecureCluster(tmp_path_factory.mktemp("secure")) as cluster:
        cluster.start_broker(**cluster.tls)
        yield cluster


@asynchronous
async def test_asyncio_clients(secure: SecureCluster, topic: str, group: str) -> None:
    received = asyncio.Event()
    consumer = PushConsumer(
        group, namesrv=secure.namesrv, tls=secure.context, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        received.set()

    async with Producer(group, namesrv=secure.namesrv, tls=secure.context) as producer:
        sent = await producer.send(Message(topic, b"x" * 5000))
        async with consumer, asyncio.timeout(30):
            await received.wait()
    async with PullConsumer(
        f"{group}-pull", topic, namesrv=secure.namesrv, tls=secure.context, suspend=SUSPEND
    ) as puller:
        (message,) = await total_of(puller, 1)
    assert (message.msg_id, message.body) == (sent.msg_id, b"x" * 5000)


def test_blocking_clients(secure: SecureCluster, topic: str, group: str) -> None:
    with sync.Producer(group, namesrv=secure.namesrv, tls=secure.context) as producer:
        for _ in range(3):
            producer.send(Message(topic, b"x"))
        (connection,) = next(iter(producer._direct._idle.values()))  # the calling thread's own
        assert isinstance(connection._socket, ssl.SSLSocket)
        assert connection.is_open()
        producer.send(Message(topic, b"x"))
    with sync.PullConsumer(
        group, topic, namesrv=secure.namesrv, tls=secure.context, suspend=SUSPEND
    ) as consumer:
        assert next(iter(consumer)).body == b"x"


@asynchronous
async def test_who_does_not_trust_the_certificate_does_not_connect(
    secure: SecureCluster, topic: str, group: str
) -> None:
    async with Producer(
        group, namesrv=secure.namesrv, tls=ssl.create_default_context()
    ) as producer:
        with pytest.raises(ConnectError, match="certificate"):
            await producer.send(Message(topic, b"x"))
