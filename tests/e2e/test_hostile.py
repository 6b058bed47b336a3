"""Bad input against real daemons: a typed answer or a closed connection, one line in the log,
nobody else notices.

The longer campaign with the same frames is ``make fuzz``.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq import Admin, Message, Producer, StartFrom
from aiorocketmq.client.consumer.pull_consumer import PullConsumer
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import pack_prefix
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)
from benchmarks.cpu import cpu_ns
from benchmarks.hostile_frames import Hostile, garbage, seeds
from tests.stored import EntryKind, StoreDirectory

from .cluster import HOST, Cluster, DaemonProcess, asynchronous, create_topic, total_of, until

MARK = 0x0B5E55ED
BAD_LINE = re.compile(r"Traceback|handler failed|Fatal error|never retrieved| ERROR | CRITICAL ")
FRAMES = 2500


class Peer:
    """A connection on which anything can be written."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        form: int = 0,
        **more: Any,
    ) -> None:
        header = encode_header(RemotingCommand(code=code, ext_fields=fields, **more), form)
        self.writer.write(
            pack_prefix(4 + len(header) + len(body), form << 24 | len(header)) + header + body
        )

    async def read(self) -> RemotingCommand:
        """The next frame. Raises ``IncompleteReadError`` when the connection ends."""
        async with asyncio.timeout(20):
            frame = await self.reader.readexactly(
                int.from_bytes(await self.reader.readexactly(4), "big")
            )
        return decode_header(frame[0], frame[4 : 4 + int.from_bytes(frame[1:4], "big")])

    async def ask(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", *, form: int = 0
    ) -> RemotingCommand:
        """Send a request and return its answer; what the broker asks meanwhile is left out."""
        self.write(code, fields, body, form=form, opaque=MARK)
        while not (answer := await self.read()).is_response or answer.opaque != MARK:
            pass
        return answer

    async def ended(self) -> bool:
        """Whether the server closes the connection."""
        try:
            async with asyncio.timeout(20):
                await self.reader.read()
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def peer_of(daemon: DaemonProcess) -> AsyncIterator[Peer]:
    peer = Peer(*await asyncio.open_connection(HOST, daemon.port))
    try:
        yield peer
    finally:
        peer.writer.transport.abort()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own, whose logs must have no bug in them at the end. How long a send takes
    is measured here: that it waited 0.2 s because the machine has other work as well is no reason
    to refuse it.
    """
    with Cluster(tmp_path_factory.mktemp("attacked")) as cluster:
        daemons = (cluster.name_server, cluster.start_broker(waitTimeMillsInSendQueue=10_000))
        yield cluster
        for daemon in daemons:
            assert bad_lines(daemon) == []


def bad_lines(daemon: DaemonProcess) -> list[str]:
    lines = daemon.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if BAD_LINE.search(line)]


def daemons_of(cluster: Cluster) -> tuple[DaemonProcess, DaemonProcess]:
    return cluster.name_server, cluster.brokers["broker-a"]


@asynchronous
async def test_garbage_ends_its_connection_with_one_line_in_the_log(attacked: Cluster) -> None:
    """One line a minute, for all are of one host."""
    for daemon in daemons_of(attacked):
        before = len(daemon.log_path.read_text().splitlines())
        for data in (
            b"\xff" * 64,
            b"\x00\x00\x00\x00",
            pack_prefix(2**31 - 1, 4),
            pack_prefix(20, 0xFFFFFF),
            b"GET / HTTP/1.1\r\n",
        ):
            async with peer_of(daemon) as peer:
                peer.writer.write(data)
                assert await peer.ended()
        lines = daemon.log_path.read_text().splitlines()[before:]
        assert sum("connection refused" in line for line in lines) == 1


@asynchronous
async def test_mutated_frames_are_answered_or_end_their_connection(attacked: Cluster) -> None:
    rng = random.Random(20_261_121)
    hostile = Hostile(rng, seeds())
    for daemon in daemons_of(attacked):
        for _ in range(FRAMES // 25):
            async with peer_of(daemon) as peer:
                peer.writer.write(b"".join(hostile.frame() for _ in range(25)))
                try:
                    answer = await peer.ask(RequestCode.QUERY_DATA_VERSION, {"brokerName": "n"})
                    assert answer.code in (1, 3)
                except (asyncio.IncompleteReadError, ConnectionError):
                    pass  # closed, which is an answer too
        assert daemon.process.poll() is None


@asynchronous
async def test_others_do_not_notice(attacked: Cluster, topic: str) -> None:
    """Half frames, pipelines whose answers nobody reads, garbage, and a producer beside them."""
    await create_topic(attacked.namesrv, topic, 1)
    rng = random.Random(5)
    worst = 0.0
    async with Producer(
        "p", namesrv=attacked.namesrv, request_timeout=15.0
    ) as producer:  # heartbeats wait as long
        peers = [
            Peer(*await asyncio.open_connection(HOST, daemon.port))
            for daemon in daemons_of(attacked)
            for _ in range(50)
        ]
        for number, peer in enumerate(peers):
            if number % 3 == 0:
                peer.writer.write(pack_prefix(1000, 500) + b'{"code":')
            elif number % 3 == 1:
                for _ in range(1000):
                    peer.write(RequestCode.GET_ALL_TOPIC_CONFIG)
            else:
                peer.writer.write(garbage(rng))
        try:
            for number in range(100):
                began = time.monotonic()
                await producer.send(Message(topic, b"%d" % number), timeout=15.0)
                worst = max(worst, time.monotonic() - began)
        finally:
            for peer in peers:
                peer.writer.transport.abort()
    assert worst < 10.0
    async with PullConsumer(
        f"g-{topic}", topic, namesrv=attacked.namesrv, start_from=StartFrom.FIRST
    ) as consumer:
        assert len(await total_of(consumer, 100)) == 100


@asynchronous
async def test_the_answer_of_a_rogue_client_that_is_passed_on(attacked: Cluster) -> None:
    """Its code does not fit into the form that the administrator speaks."""
    broker = attacked.brokers["broker-a"]
    async with peer_of(broker) as rogue, peer_of(broker) as admin:
        consumers = [{"groupName": "rogue", "subscriptionDataSet": []}]
        assert (
            await rogue.ask(
                RequestCode.HEART_BEAT,
                None,
                json.dumps({"clientID": "c", "consumerDataSet": consumers}).encode(),
            )
        ).code == 0
        asked = asyncio.create_task(
            admin.ask(
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                {"consumerGroup": "rogue", "clientId": "c"},
                form=1,
            )
        )
        while (question := await rogue.read()).code != RequestCode.GET_CONSUMER_RUNNING_INFO:
            pass
        rogue.write(70_000, opaque=question.opaque, flag=1)
        answer = await asked
        assert (answer.code, "cannot be sent" in (answer.remark or "")) == (1, True)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@asynchronous
async def test_nobody_waits_for_a_slow_reading(attacked: Cluster) -> None:
    """Megabytes that can only be read the slow way are refused, not read."""
    for daemon in daemons_of(attacked):
        async with peer_of(daemon) as peer, peer_of(daemon) as other:
            header = b'{"code":34,"opaque":1,extFields:{' + b"a:1," * 3_000_000 + b"}}"
            peer.writer.write(pack_prefix(4 + len(header), len(header)) + header)
            peer.write(RequestCode.HEART_BEAT, body=b"x")
            other.write(
                RequestCode.HEART_BEAT, body=b"{clientID:1,x:[" + b"{}," * 4_000_000 + b"]}"
            )
            before = cpu_ns(daemon.process.pid)
            assert (await other.read()).code in (1, 3)
            assert await peer.ended()
            assert cpu_ns(daemon.process.pid) - before < 3e9  # it was 12 s


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_unfinished_frames_share_one_budget_and_the_memory_comes_back(tmp_path: Path) -> None:
    """Sixty peers send 4 MiB each of frames that they never finish; a producer does not notice."""
    with Cluster(tmp_path) as cluster:
        asyncio.run(_unfinished_frames(cluster, cluster.start_broker(maxBufferedBytes=64 << 20)))


async def _unfinished_frames(cluster: Cluster, broker: DaemonProcess) -> None:
    await create_topic(cluster.namesrv, "Budget", 1)
    before, most = private_bytes(broker), 0
    peers = [Peer(*await asyncio.open_connection(HOST, broker.port)) for _ in range(60)]
    begin, more = pack_prefix((16 << 20) - 4, 100) + bytes((1 << 20) - 8), bytes(1 << 20)
    try:
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            for number in range(4):
                for peer in peers:
                    if not peer.writer.transport.is_closing():
                        peer.writer.write(more if number else begin)
                await producer.send(Message("Budget", b"in between"), timeout=15.0)
                await asyncio.sleep(0.1)
                most = max(most, private_bytes(broker) - before)
            await until(lambda: told(broker, "connection cut"), "the slowest were cut")
            await producer.send(Message("Budget", b"afterwards"), timeout=15.0)
            most = max(most, private_bytes(broker) - before)
    finally:
        for peer in peers:
            peer.writer.transport.abort()
    assert most < 128 << 20  # it was 240 MiB and more
    assert told(broker, "maxBufferedBytes=67108864")
    await until(lambda: told(broker, "memory given back"), "memory goes back to the system")
    await until(
        lambda: private_bytes(broker) - before < 32 << 20,
        f"{private_bytes(broker) - before} go back",
    )


def told(daemon: DaemonProcess, text: str) -> bool:
    return text in daemon.log_path.read_text(encoding="utf-8", errors="replace")


def private_bytes(daemon: DaemonProcess) -> int:
    found = re.search(
        r"RssAnon:\s+(\d+) kB", Path(f"/proc/{daemon.process.pid}/status").read_text()
    )
    assert found is not None
    return int(found[1]) << 10


def test_the_store_is_whole_afterwards(tmp_path: Path) -> None:
    """Every sysFlag, among them the bits that change the layout of a record; then a crash."""
    with Cluster(tmp_path) as cluster:
        broker = cluster.start_broker()
        sent = asyncio.run(_send_with_flags(broker))
        cluster.kill_broker("broker-a")
        cluster.start_broker()
        assert asyncio.run(_messages(cluster.namesrv)) == sent
        cluster.stop_broker("broker-a")
        store = StoreDirectory(tmp_path / "broker-a" / "store")
        assert [entry for entry in store.entries() if entry.kind is EntryKind.DAMAGED] == []


async def _send_with_flags(broker: DaemonProcess) -> int:
    fields = {
        "producerGroup": "p", "topic": "Flags", "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1", "queueId": "0",
        "bornTimestamp": "1", "flag": "0", "properties": "",
    }  # fmt: skip
    flags = [
        flag for flag in (*range(256), -1, 2**31 - 1, -(2**31)) if not flag & 0x4
    ]  # prepared ones are in no queue
    async with peer_of(broker) as peer:
        for flag in flags:
            assert (
                await peer.ask(RequestCode.SEND_MESSAGE, {**fields, "sysFlag": str(flag)}, b"hello")
            ).code == 0
    return len(flags)


async def _messages(namesrv: str) -> int:
    async with Admin(namesrv=namesrv) as admin:
        await until(lambda: admin.topic_route("Flags"), "the broker that came back is known")
        stats = await admin.topic_stats("Flags")
        return sum(each.max_offset for each in stats.offset_table.values())
