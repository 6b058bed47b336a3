"""Closing a TLS connection does not wait for the other end, which need not answer a goodbye (Netty
does not)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pytest
import trustme

from aiorocketmq import Message, MessageExt, Producer, PushConsumer, sync
from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport.client import RemotingClient

from ..mute_tls import MuteTlsRelay, mute_client
from .cluster import HOST, Cluster, asynchronous
from .test_mqadmin import Tool

RELAY = "127.0.0.2"
"""Clients find the broker there: it says that it is its address."""
LIMIT_S = 0.3
SLACK_S = 5.0
"""What a busy machine may add to it; waiting for the peer takes 30 s."""


class MuteCluster(NamedTuple):
    """A plain cluster behind relays that never answer a goodbye."""

    cluster: Cluster
    relays: tuple[MuteTlsRelay, MuteTlsRelay]
    serving: ssl.SSLContext
    trusting: ssl.SSLContext
    certificate: dict[str, object]

    @property
    def namesrv(self) -> str:
        return self.relays[0].address


@pytest.fixture(scope="module")
def mute(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MuteCluster]:
    folder = tmp_path_factory.mktemp("mute")
    ca = trustme.CA()
    issued = ca.issue_cert(HOST, RELAY)
    issued.private_key_pem.write_to_path(folder / "server.key")
    issued.cert_chain_pems[0].write_to_path(folder / "server.pem")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(serving)
    trusting = ssl.create_default_context()
    ca.configure_trust(trusting)
    certificate: dict[str, object] = {
        "tls.server.certPath": folder / "server.pem",
        "tls.server.keyPath": folder / "server.key",
    }
    with Cluster(folder / "cluster") as cluster, contextlib.ExitStack() as stack:
        broker = cluster.start_broker(brokerIP1=RELAY)
        relays = (
            stack.enter_context(
                MuteTlsRelay(serving, (RELAY, 0), (HOST, cluster.name_server.port))
            ),
            stack.enter_context(MuteTlsRelay(serving, (RELAY, broker.port), (HOST, broker.port))),
        )
        yield MuteCluster(cluster, relays, serving, trusting, certificate)


@asynchronous
async def test_producer(mute: MuteCluster, topic: str, group: str) -> None:
    producer = Producer(group, namesrv=mute.namesrv, tls=mute.trusting)
    await producer.start()
    await producer.send(Message(topic, b"x"))
    before = sum(relay.goodbyes for relay in mute.relays)
    began = time.monotonic()
    await producer.stop()
    assert time.monotonic() - began < LIMIT_S + SLACK_S
    assert sum(relay.goodbyes for relay in mute.relays) >= before + 2, "a goodbye is sent"


@asynchronous
async def test_push_consumer(mute: MuteCluster, topic: str, group: str) -> None:
    received = asyncio.Event()
    consumer = PushConsumer(group, namesrv=mute.namesrv, tls=mute.trusting)
    consumer.subscribe(topic)

    @consumer.on_message
    async def handle(_message: MessageExt) -> None:
        received.set()

    async with Producer(group, namesrv=mute.namesrv, tls=mute.trusting) as producer:
        await producer.send(Message(topic, b"x"))
        await consumer.start()
        async with asyncio.timeout(30):
            while not received.is_set():
                await producer.send(Message(topic, b"x"))
                await asyncio.sleep(0.05)
    began = time.monotonic()
    await consumer.stop()
    assert time.monotonic() - began < LIMIT_S + SLACK_S


def test_blocking_producer(mute: MuteCluster, topic: str, group: str) -> None:
    producer = sync.Producer(group, namesrv=mute.namesrv, tls=mute.trusting)
    producer.start()
    producer.send(Message(topic, b"x"))
    began = time.monotonic()
    producer.stop()
    assert time.monotonic() - began < LIMIT_S + SLACK_S


def test_mqadmin(mute: MuteCluster, tmp_path: Path) -> None:
    settings = tmp_path / "tls.properties"
    settings.write_text("tls.client.authServer=false\n")
    began = time.monotonic()
    printed = Tool(mute.cluster, tmp_path)(
        f"brokerStatus -c DefaultCluster -n {mute.namesrv} --tlsConfig {settings}"
    )
    assert (printed.code, "bootTimestamp" in printed.out) == (0, True)
    assert time.monotonic() - began < LIMIT_S + SLACK_S


def test_sigterm_of_a_broker(mute: MuteCluster) -> None:
    """Its name server is mute, and so are its clients."""
    broker = mute.cluster.start_broker(
        "broker-t",
        namesrvAddr=mute.namesrv,
        brokerClusterName="other",
        **{"tls.enable": "true"},
        **mute.certificate,
    )
    clients = [mute_client(mute.trusting, HOST, broker.port) for _ in range(20)]
    began = time.monotonic()
    mute.cluster.stop_broker("broker-t")
    assert time.monotonic() - began < LIMIT_S + SLACK_S
    for client in clients:
        assert client.recv(1) == b"", "a goodbye, else this would be an error"
        client.close()


MUCH_BYTES = 8 << 20
"""More than the buffers of two sockets take."""


class SlowPeer:
    """Takes one connection, and reads nothing until it is told to. ``bytes_read`` counts in clear
    text."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._listening = socket.create_server((HOST, 0))
        self._thread = threading.Thread(target=self._serve)
        self.may_read = threading.Event()
        self.bytes_read: int = 0
        self.address: str = f"{HOST}:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_read.set()
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        peer, _ = self._listening.accept()
        peer = peer if self._context is None else self._context.wrap_socket(peer, server_side=True)
        self.may_read.wait()
        with peer, contextlib.suppress(OSError):
            while data := peer.recv(1 << 20):
                self.bytes_read += len(data)


async def speak_and_leave(peer: SlowPeer, tls: ssl.SSLContext | None, read: bool) -> float:
    """How long leaving took."""
    async with RemotingClient(tls=tls) as client:
        for _ in range(MUCH_BYTES >> 20):
            await client.invoke_oneway(peer.address, RequestCode.HEART_BEAT, body=b"x" * (1 << 20))
        if read:
            peer.may_read.set()
        began = time.monotonic()
    return time.monotonic() - began


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop])
@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_what_was_written_goes_out_unless_the_peer_reads_nothing(
    mute: MuteCluster, encrypted: bool, reads: bool, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with (
        SlowPeer(mute.serving if encrypted else None) as peer,
        asyncio.Runner(loop_factory=loop) as runner,
    ):
        took = runner.run(speak_and_leave(peer, mute.trusting if encrypted else None, reads))
        assert took < LIMIT_S + SLACK_S
    assert (peer.bytes_read > MUCH_BYTES) is reads
