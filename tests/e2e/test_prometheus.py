"""A real scrape of a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
from collections.abc import Iterator

import pytest

from aiorocketmq import Message, Producer
from aiorocketmq.broker.config.addresses import free_port

from .cluster import HOST, Cluster, asynchronous, until

pytest.importorskip("prometheus_client", reason="the extra [prometheus] is not installed")
from aiorocketmq.broker.monitoring.prometheus import MAX_CONNECTIONS


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, int]]:
    port = free_port(HOST)
    with Cluster(tmp_path_factory.mktemp("prometheus")) as cluster:
        cluster.start_broker(prometheusPort=port)
        yield cluster, port


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    with contextlib.closing(http.client.HTTPConnection(HOST, port, timeout=10)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@asynchronous
async def test_a_scrape(measured: tuple[Cluster, int]) -> None:
    cluster, port = measured
    async with Producer("p", namesrv=cluster.namesrv) as producer:
        for _ in range(5):
            await producer.send(Message("Measured", b"x"))
    status, text = get(port, "/metrics")
    assert status == 200
    lines = text.splitlines()
    assert (
        'rocketmq_messages_in_total{cluster="DefaultCluster",node_id="broker-a",topic="Measured"} '
        "5.0" in lines
    )
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
    for path, method, expected in (
        ("/", "GET", 404),
        ("/metrics", "POST", 405),
        ("/metrics?x=1", "HEAD", 200),
    ):
        assert get(port, path, method)[0] == expected


def test_connections_have_a_limit(measured: tuple[Cluster, int]) -> None:
    _, port = measured
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(socket.create_connection((HOST, port), timeout=10))
        with socket.create_connection((HOST, port), timeout=10) as more:
            assert more.recv(1) == b""

    async def works() -> bool:
        try:
            return (await asyncio.to_thread(get, port, "/metrics"))[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    asyncio.run(until(works, "it serves again"))
