"""How long pages of the console take, and what it costs while people look: ``python -m
benchmarks.console``.

A name server knows 20 brokers with 2,000 topics and 200 groups, registrations made here; all of
them are one real broker, which has the topics and groups and answers for each. Each page is asked
for by four at a time; p95 is to be below 200 ms. Then no page is open for half a minute, then ten
are, and the CPU time of the console's process is to be below 1 % of a core.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from aiorocketmq import Admin, LocalCluster, Message, Producer
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerRequest
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.client import RemotingClient

AT_ONCE: Final = 4
P95_MS: Final = 200
IDLE: Final = 0.01
EVERYWHERE: Final = "0.0.0.0"
"""So that 127.0.0.2, 127.0.0.3, ... lead to the broker, too."""
_SETTLE_S: Final = 25.0
_REGISTER_S: Final = 30.0
PAGES: Final = (
    "/", "/topics", "/topics?page=17", "/topics?q=17", "/topic?name=topic-0017", "/groups",
    "/groups?q=17", "/group?name=group-017", "/messages", "/accounts",
    "/topic/change?name=topic-0017&read_queues=8&write_queues=8&perm=6",
    "/messages?topic=topic-0017&way=key&text=key-17",
)  # fmt: skip
LIVE: Final = (
    "/live/overview", "/live/topics", "/live/topics?page=2", "/live/topics?page=3", "/live/groups",
    "/live/topic?name=topic-0001", "/live/topic?name=topic-0002", "/live/group?name=group-001",
    "/live/group?name=group-002", "/live/overview",
)  # fmt: skip


class Wanted(NamedTuple):
    """The options."""

    rounds: int
    seconds: float
    topics: int
    groups: int
    brokers: int


@click.command()
@click.option("--rounds", default=100, show_default=True, help="Of each page.")
@click.option("--seconds", default=30.0, show_default=True, help="That ten pages stay open.")
@click.option("--topics", default=2000, show_default=True)
@click.option("--groups", default=200, show_default=True)
@click.option("--brokers", default=20, show_default=True)
def main(**wanted: Any) -> None:
    """Measure the console; the exit code says whether it is within its marks."""
    sys.exit(asyncio.run(_measure(Wanted(**wanted))))


async def _measure(wanted: Wanted) -> int:
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster(host=EVERYWHERE))
        await stack.enter_async_context(_registered(cluster, wanted))
        msg_id = await _stored(cluster)
        pid, port = await stack.enter_async_context(_console(cluster.namesrv_address))
        good = True
        print(f"{wanted.brokers} brokers, {wanted.topics} topics, {wanted.groups} groups; ms")
        for path in (*PAGES, f"/message?topic=topic-0017&id={msg_id}"):
            before = _cpu_s(pid)
            p50, p95, worst = await _page(port, path, wanted.rounds)
            cpu = (_cpu_s(pid) - before) * 1000 / wanted.rounds
            good &= p95 < P95_MS
            print(f"{path:64} p50 {p50:6.1f}  p95 {p95:6.1f}  max {worst:6.1f}  CPU {cpu:6.1f}")
        await asyncio.sleep(_SETTLE_S)  # rates of topics that pages have asked for
        print(f"no page open: {await _used(pid, wanted.seconds) * 100:.2f} % of a core")
        used = await _open(port, pid, wanted.seconds)
        print(f"{len(LIVE)} pages open: {used * 100:.2f} % of a core")
        return 0 if good and used < IDLE else 1


@asynccontextmanager
async def _registered(cluster: LocalCluster, wanted: Wanted) -> AsyncIterator[None]:
    """The broker has them all; others that are said to have them are this one."""
    names = [f"topic-{number:04}" for number in range(wanted.topics)]
    async with Admin(namesrv=cluster.namesrv_address, request_timeout=30) as admin:
        for name in names:
            config = TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4)
            await admin.create_topic_on(cluster.broker_address, config)
        for number in range(wanted.groups):
            retry = TopicConfig(topic_name=f"%RETRY%group-{number:03}", read_queue_nums=1)
            await admin.create_topic_on(cluster.broker_address, retry)
            await admin.create_subscription_group(
                cluster.broker_address, SubscriptionGroupConfig(group_name=f"group-{number:03}")
            )
    retries = [f"%RETRY%group-{number:03}" for number in range(wanted.groups)]
    table = TopicConfigTable(
        topic_config_table={each: TopicConfig(topic_name=each) for each in (*names, *retries)},
        data_version=DataVersion(counter=1),
    )
    body = encode_body(RegisterBrokerBody(topic_config_table=table))
    client = RemotingClient(clock=SystemClock())
    port = cluster.broker_address.rpartition(":")[2]

    async def register() -> None:
        for number in range(wanted.brokers - 1):
            header = RegisterBrokerRequest(
                broker_name=f"simulated-{number:02}",
                broker_addr=f"127.0.0.{number + 2}:{port}",
                cluster_name="DefaultCluster",
                ha_server_addr="127.0.0.1:1",
                broker_id=0,
            )
            answer = await client.invoke(
                cluster.namesrv_address, RequestCode.REGISTER_BROKER, header, body, timeout=30
            )
            answer.check(cluster.namesrv_address)

    async def stay() -> None:
        """As brokers do, else they are forgotten after two minutes."""
        while True:
            await asyncio.sleep(_REGISTER_S)
            await register()

    await register()
    staying = asyncio.create_task(stay())
    try:
        yield
    finally:
        staying.cancel()
        await client.close()


@asynccontextmanager
async def _console(namesrv: str) -> AsyncIterator[tuple[int, int]]:
    """Its process id and port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aiorocketmq.console", "-n", namesrv, "--port", "0",
        stdout=asyncio.subprocess.PIPE, cwd=tempfile.gettempdir(),
    )  # fmt: skip
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    try:
        yield process.pid, int(line.rstrip().rstrip("/").rpartition(":")[2])
    finally:
        process.terminate()
        await process.wait()


async def _stored(cluster: LocalCluster) -> str:
    """The id of one of a hundred messages of a topic."""
    async with Producer("Benchmark", namesrv=cluster.namesrv_address) as producer:
        messages = [Message("topic-0017", b"body", keys=[f"key-{n}"]) for n in range(100)]
        return [await producer.send(message) for message in messages][17].msg_id


async def _page(port: int, path: str, rounds: int) -> tuple[float, float, float]:
    """p50, p95 and the longest, ms; the first one, which has to ask everybody, among them."""
    taken: list[float] = []

    async def some() -> None:
        while len(taken) < rounds:
            began = time.perf_counter()
            await _get(port, path)
            taken.append((time.perf_counter() - began) * 1000)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    taken.sort()
    return taken[len(taken) // 2], taken[len(taken) * 95 // 100], taken[-1]


async def _get(port: int, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n".encode())
    answer = await reader.read()
    while piece := await reader.read():
        answer += piece
    writer.close()
    if b" 200 " not in answer[:20]:
        raise SystemExit(f"{path}: {answer[:300]!r}")


async def _open(port: int, pid: int, seconds: float) -> float:
    """The share of a core that ten open pages take."""
    writers = []
    for path in LIVE:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        writers.append(writer)
    await asyncio.sleep(_SETTLE_S)  # what each page asks for first
    used = await _used(pid, seconds)
    for writer in writers:
        writer.close()
    return used


async def _used(pid: int, seconds: float) -> float:
    """The share of a core that it takes in that time."""
    before = _cpu_s(pid)
    await asyncio.sleep(seconds)
    return (_cpu_s(pid) - before) / seconds


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    main()
