"""Master to slave: how fast, how far behind, what a send costs that waits for the slave.

``python -m benchmarks.replication``. Master and slave are processes of their own. An empty slave
first gets a log that is there, next to a bare copy of the same bytes over a loopback connection
(``loopback_copy``) in the same run; then it follows while as much is sent as the master takes; then
sends wait for it (SYNC_MASTER). What TLS costs: ``replication_tls``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.transport.client import RemotingClient
from examples.demo.daemons import data_folder, free_port
from examples.demo.program import run_program

from .cpu import cpu_ns
from .harness.frames import TOPIC
from .harness.pages import fetch_pages
from .store_common import open_store, put

FILE_SIZE: Final = 64 << 20
_READY: Final = re.compile(r"broker ready .* port=(\d+) ")
_PATIENCE_S: Final = 120.0
ROUNDS: Final = 5
_SYNC_S: Final = 1.0
"""So long after its last byte a log is on the disk."""
_IDLE: Final = 3
"""So many times that with nothing to do follow; the least of them counts."""
MIB: Final = 1 << 20


class Broker:
    """A process."""

    def __init__(self, folder: Path, name: str, **settings: object) -> None:
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        self.port = free_port(-2, 1)
        given = {
            "listenPort": self.port, "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "brokerName": "bench", "storePathRootDir": self.folder / "store",
            "mappedFileSizeCommitLog": FILE_SIZE,
            **settings,
        }  # fmt: skip
        environment = {**os.environ, "ROCKETMQ_HOME": str(self.folder), "NAMESRV_ADDR": ""}
        self.log = self.folder / "broker.log"
        command = [
            sys.executable,
            "-m",
            "aiorocketmq.broker",
            *(f"--{name}={value}" for name, value in given.items()),
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def cpu_s(self) -> float:
        return cpu_ns(self.process.pid) / 1e9

    async def ready(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not _READY.search(self.log.read_text()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(self.log.read_text())
            await asyncio.sleep(0.02)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


@contextmanager
def brokers(*started: Broker) -> Iterator[None]:
    """They end with the block."""
    try:
        yield
    finally:
        for broker in started:
            broker.end()


async def log_end(client: RemotingClient, broker: Broker) -> int:
    """Where the log of a broker ends."""
    answer = (
        await client.invoke(broker.address, RequestCode.GET_BROKER_RUNTIME_INFO, timeout=10)
    ).check()
    return int(decode_body(KVTable, answer.body).table["commitLogMaxOffset"])


async def until_log_ends(client: RemotingClient, broker: Broker, end: int) -> None:
    """Return when everything below ``end`` is there."""
    for _ in range(100_000):
        if await log_end(client, broker) >= end:
            return
        await asyncio.sleep(0.01)
    raise SystemExit("the slave does not get the whole log")


async def until_slave_has(folder: Path, end: int) -> None:
    """Return when the slave's log holds everything below ``end``. Its file is looked at: asking a
    broker costs CPU time."""
    start = (end - 1) // FILE_SIZE * FILE_SIZE
    files = [
        folder / name / "store" / "commitlog" / f"{start:020d}" for name in ("master", "slave")
    ]
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if files[1].exists() and len(set(map(partial(_last_bytes, end - start), files))) == 1:
            return
        await asyncio.sleep(0.002)
    raise SystemExit("the slave does not get the whole log")


def _last_bytes(end: int, path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, end - 64))
        return file.read(min(end, 64))


async def send_until_slave_is_there(client: RemotingClient, master: Broker, role: str) -> None:
    """Until a send is acknowledged by a slave, too."""
    for _ in range(1000):
        if (await send(client, master, 1))[1] == {0} and (
            role == "SYNC_MASTER" or "slave connected" in master.log.read_text()
        ):
            return
        await asyncio.sleep(0.02)
    raise SystemExit("no slave follows the master")


def slave_of(master: Broker, folder: Path, name: str, **settings: object) -> Broker:
    return Broker(
        folder,
        name,
        brokerRole="SLAVE",
        brokerId=1,
        haMasterAddress=f"127.0.0.1:{master.port + 1}",
        **settings,
    )


def prepare(folder: Path, mebibytes: int, body_size: int, *, mixed: bool = False) -> int:
    """A store with so much in it; where its log ends. ``mixed``: bodies of many sizes, from half of
    it to one and a half."""
    store = open_store(
        folder / "master" / "store",
        mapped_file_size_commit_log=FILE_SIZE,
        message_index_enable=False,
    )
    number = end = 0
    while end < mebibytes * MIB:
        properties = encode_properties({"UNIQ_KEY": f"7F0000010000{number:020X}", "TAGS": "TagA"})
        size = body_size // 2 + number * 7919 % body_size if mixed else body_size
        end = put(store, number & 3, bytes(size), properties)
        number += 1
    store.close()
    return end


def bare_copy(paths: list[Path]) -> dict[str, float]:
    """The same bytes from process to process, and nothing else."""
    port = str(free_port())
    module = [sys.executable, "-m", "benchmarks.loopback_copy"]
    started = time.perf_counter()
    with (
        subprocess.Popen(
            [*module, "send", port, *map(str, paths)], stdout=subprocess.PIPE, text=True
        ) as sender,
        subprocess.Popen(
            [*module, "receive", port, str(paths[0].parent / "copy")],
            stdout=subprocess.PIPE,
            text=True,
        ) as receiver,
    ):
        sent, received = (each.communicate()[0].split() for each in (sender, receiver))
    seconds = time.perf_counter() - started
    mebibytes = int(received[0]) / MIB
    return {
        "seconds": seconds,
        "ms_per_mib_sender": float(sent[-1]) * 1000 / mebibytes,
        "ms_per_mib_receiver": float(received[-1]) * 1000 / mebibytes,
    }


async def catch_up(
    folder: Path, mebibytes: int, body_size: int, *, index: bool = False, mixed: bool = False
) -> dict[str, Any]:
    """Empty slaves, one after the other, get what is there, each next to a bare copy of the same
    bytes and to a slave that makes nothing out of the log, which is all that the bare copy does
    (``log_only``). ``ratio`` is the best of one over the best of the other; ``ratio_median`` the
    same of medians.
    """
    prepare(folder, mebibytes, body_size, mixed=mixed)
    paths = sorted((folder / "master" / "store" / "commitlog").iterdir())
    rounds: list[CatchUp] = []
    master = Broker(folder, "master", messageIndexEnable=False)
    with brokers(master):
        await master.ready()
        async with RemotingClient() as client:
            end = await log_end(client, master)
        for _ in range(ROUNDS):
            cpu_s, seconds = await one_slave(master, folder, end, index=index)
            log_only_s = await log_only_slave(master, folder, end)
            fetch_pages(folder, end)
            copy = bare_copy(paths)
            rounds.append(
                CatchUp(
                    cpu_s,
                    log_only_s,
                    copy["ms_per_mib_sender"] + copy["ms_per_mib_receiver"],
                    seconds,
                )
            )
    mebibytes_sent = end / MIB
    ours, alone = (
        [sum(seconds) * 1000 / mebibytes_sent for seconds in each]
        for each in ([one.cpu_s for one in rounds], [one.log_only_s for one in rounds])
    )
    bare = [each.bare_ms for each in rounds]
    best = min(rounds, key=lambda each: sum(each.cpu_s))
    return {
        "what": f"catch up, {body_size} B "
        f"bodies{', of many sizes' if mixed else ''}{', index' if index else ''}",
        "mib": mebibytes_sent,
        "mib_per_s": mebibytes_sent / min(each.seconds for each in rounds),
        "cpu_ms_per_mib": dict(
            zip(
                ("master", "slave"),
                (part * 1000 / mebibytes_sent for part in best.cpu_s),
                strict=True,
            )
        ),
        "log_only_ms_per_mib": min(alone),
        "bare_ms_per_mib": min(bare),
        "ratio": min(ours) / min(bare),
        "ratio_median": statistics.median(ours) / statistics.median(bare),
        "ratio_log_only": min(alone) / min(bare),
    }


class CatchUp(NamedTuple):
    """One round: CPU seconds of master and slave, the same with a slave that keeps the log only,
    and of the bare copy milliseconds per MiB of both ends."""

    cpu_s: tuple[float, float]
    log_only_s: tuple[float, float]
    bare_ms: float
    seconds: float


async def one_slave(
    master: Broker, folder: Path, end: int, *, index: bool, **security: object
) -> tuple[tuple[float, float], float]:
    """CPU seconds of master and slave, and how long it took. The master stands still while the
    slave starts, so that only replication counts: the stream, the log on the slave's disk, and its
    consume queues (with ``index`` its index too), until a second after the last byte, when all is
    synced; what both use in a second with nothing to do does not count.
    """
    shutil.rmtree(folder / "slave", ignore_errors=True)
    fetch_pages(folder, 2 * end)
    with stopped(master):
        slave = slave_of(master, folder, "slave", messageIndexEnable=index, **security)
        await slave.ready()
        await asyncio.sleep(0.5)
        before = (master.cpu_s, slave.cpu_s)
    with brokers(slave):
        started = time.perf_counter()
        await until_slave_has(folder, end)
        seconds = time.perf_counter() - started
        await asyncio.sleep(_SYNC_S)
        after = (master.cpu_s, slave.cpu_s)
        idle = [await used_in(_SYNC_S, master, slave) for _ in range(_IDLE)]
    quiet = [
        min(each) for each in zip(*idle, strict=True)
    ]  # some work may come late: it must not count as idling
    used = [ends - begins - rest for begins, ends, rest in zip(before, after, quiet, strict=True)]
    return (used[0], used[1]), seconds


async def used_in(seconds: float, *measured: Broker) -> list[float]:
    """CPU seconds that each uses from now on."""
    before = [broker.cpu_s for broker in measured]
    await asyncio.sleep(seconds)
    return [broker.cpu_s - begins for broker, begins in zip(measured, before, strict=True)]


@contextmanager
def stopped(broker: Broker) -> Iterator[None]:
    """It stands still meanwhile."""
    broker.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.process.send_signal(signal.SIGCONT)


async def log_only_slave(master: Broker, folder: Path, end: int) -> tuple[float, float]:
    """CPU seconds of the master and of a slave that keeps the log only."""
    shutil.rmtree(folder / "log_only", ignore_errors=True)
    fetch_pages(folder, end)
    before = master.cpu_s
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.log_slave", f"127.0.0.1:{master.port + 1}"),
        *(str(folder / "log_only"), str(FILE_SIZE), str(end)),
        stdout=subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return master.cpu_s - before, float(output)


def start_load(master: Broker, seconds: float) -> subprocess.Popen[str]:
    """As much as the master takes."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.loadgen",
        str(master.port),
        "send",
        "8",
        "64",
        str(seconds),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def follow(folder: Path, seconds: float) -> dict[str, Any]:
    """How far behind the slave is under full send load."""
    master = Broker(folder, "master")
    slave = slave_of(master, folder, "slave")
    with brokers(master, slave):
        await asyncio.gather(master.ready(), slave.ready())
        async with RemotingClient() as client:
            await send_until_slave_is_there(client, master, "ASYNC_MASTER")
            load = start_load(master, seconds)
            behind: list[int] = []
            before = (master.cpu_s, slave.cpu_s, await log_end(client, master))
            while load.poll() is None:
                theirs = await log_end(client, slave)
                behind.append(max(0, await log_end(client, master) - theirs))
                await asyncio.sleep(0.05)
            written = await log_end(client, master)
            stopped = time.perf_counter()
            await until_log_ends(client, slave, written)
            lag_s = time.perf_counter() - stopped
            after = (master.cpu_s, slave.cpu_s, written)
            assert load.stdout is not None
            result = json.loads(load.stdout.read().splitlines()[-1])
    mebibytes = (after[2] - before[2]) / MIB
    return {
        "what": "full send load, 128 B bodies",
        "messages_per_s": result["messages"] / result["seconds"],
        "mib_per_s": mebibytes / seconds,
        "behind_bytes": {"median": statistics.median(behind), "max": max(behind)},
        "equal_after_s": lag_s,
        "cpu_s": {"master": after[0] - before[0], "slave": after[1] - before[1]},
    }


async def send(client: RemotingClient, master: Broker, count: int) -> tuple[list[float], set[int]]:
    """One after the other; seconds of each, and the codes."""
    header = SendMessageRequestV2(
        producer_group="bench", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties="",
    )  # fmt: skip
    took, codes = [], set()
    for _ in range(count):
        started = time.perf_counter()
        codes.add(
            (
                await client.invoke(
                    master.address, RequestCode.SEND_MESSAGE_V2, header, bytes(128), timeout=10
                )
            ).code
        )
        took.append(time.perf_counter() - started)
    return took, codes


async def latency(folder: Path, role: str, count: int, in_flight: int) -> dict[str, Any]:
    """Sends that wait for the slave, or (ASYNC_MASTER) do not."""
    master = Broker(folder, "master", brokerRole=role)
    slave = slave_of(master, folder, "slave")
    with brokers(master, slave):
        await asyncio.gather(master.ready(), slave.ready())
        async with RemotingClient() as client:
            await send_until_slave_is_there(client, master, role)
            await send(client, master, 200)
            before = (master.cpu_s, slave.cpu_s)
            parts = await asyncio.gather(
                *(send(client, master, count // in_flight) for _ in range(in_flight))
            )
            after = (master.cpu_s, slave.cpu_s)
    took = sorted(second for part, _ in parts for second in part)
    codes: set[int] = set().union(*(found for _, found in parts))
    return {
        "what": f"{role}, {in_flight} in flight",
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[len(took) * 99 // 100] * 1000,
        "codes": sorted(codes),
        "cpu_us_per_message": {
            name: (later - earlier) * 1e6 / len(took)
            for name, earlier, later in zip(("master", "slave"), before, after, strict=True)
        },
    }


async def measure(mebibytes: int, seconds: float, count: int, data: Path | None) -> int:
    for body_size in (128, 1024, 4096, 65536):
        for given in ({}, {"index": True}, {"mixed": True}, {"mixed": True, "index": True}):
            with data_folder(data) as folder:
                print(
                    json.dumps(rounded(await catch_up(folder, mebibytes, body_size, **given))),
                    flush=True,
                )
    with data_folder(data) as folder:
        print(json.dumps(rounded(await follow(folder, seconds))), flush=True)
    for role in ("ASYNC_MASTER", "SYNC_MASTER"):
        for in_flight in (1, 64):
            with data_folder(data) as folder:
                print(
                    json.dumps(rounded(await latency(folder, role, count, in_flight))), flush=True
                )
    return 0


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: rounded(value)
        if isinstance(value, dict)
        else round(value, 3)
        if isinstance(value, float)
        else value
        for name, value in row.items()
    }


@click.command()
@click.option("--mib", "mebibytes", default=256, help="How much an empty slave gets, 256.")
@click.option("--seconds", default=5.0, help="Of full send load, 5.")
@click.option("--sends", default=6400, help="Whose latency is measured, 6400.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the files go (temporary files).",
)
def main(mebibytes: int, seconds: float, sends: int, data: Path | None) -> None:
    """Replication: throughput, lag, latency, CPU."""
    sys.exit(run_program("replication", measure(mebibytes, seconds, sends, data)))


if __name__ == "__main__":
    main()
