"""More silent connections than the system gives descriptors: the store keeps its own, and what is
connected goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest
from aiorocketmq.remoting.transport.client import RemotingClient

from .cluster import HOST, PATIENCE_S, asynchronous, until

DESCRIPTORS = 1024
SILENT = 1100
_READY = re.compile(r"(?:broker|name server) ready .*?port=(\d+)")
_CROWD = """
import resource, socket, sys
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
sockets = []
for port in sys.argv[2:]:
    for _ in range(int(sys.argv[1])):
        sockets.append(socket.socket())
        sockets[-1].setblocking(False)
        sockets[-1].connect_ex(("127.0.0.1", int(port)))
print("there", flush=True)
sys.stdin.read()
"""


class LimitedDaemon:
    """A daemon that may have ``soft`` open files, and raise that to ``hard``."""

    def __init__(
        self, module: str, folder: Path, soft: int, hard: int, **properties: object
    ) -> None:
        self.log_path = folder / f"{module}.log"
        environment = {
            **os.environ,
            "HOME": str(folder),
            "ROCKETMQ_HOME": str(folder),
            "NAMESRV_ADDR": "",
        }
        limits = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
        settings = (
            f"--{name}={value}"
            for name, value in {"listenPort": 0, "bindAddress": HOST, **properties}.items()
        )
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", limits, "sh", sys.executable, "-m", module, *settings],
                env=environment,
                stdout=log,
                stderr=log,
            )
        self.port = 0

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            if "ulimit" in self.log:
                pytest.skip(f"the limits of this test cannot be set here: {self.log.strip()}")
            raise AssertionError(self.log)
        found = _READY.search(self.log)
        self.port = int(found[1]) if found else 0
        return bool(found)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@contextmanager
def daemon(
    module: str, folder: Path, soft: int, hard: int, **properties: object
) -> Iterator[LimitedDaemon]:
    started = LimitedDaemon(module, folder, soft, hard, **properties)
    try:
        yield started
    finally:
        assert started.end() == 0, started.log


@contextmanager
def crowd(count: int, *ports: int) -> Iterator[None]:
    """So many silent connections to each port."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CROWD, str(count), *map(str, ports)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "there\n":
        pytest.skip("this machine does not allow so many connections")
    try:
        yield
    finally:
        process.communicate()
        assert process.returncode == 0


async def send(client: RemotingClient, port: int, topic: str, body: bytes = b"body") -> int:
    header = SendMessageRequest(
        producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=1,
        queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties="KEYS\x01k\x02",
    )  # fmt: skip
    return (
        await client.invoke(
            f"{HOST}:{port}", RequestCode.SEND_MESSAGE, header, body, timeout=PATIENCE_S
        )
    ).code


@asynchronous
async def test_a_crowd_of_silent_connections_leaves_the_store_its_descriptors(
    tmp_path: Path,
) -> None:
    store = {
        "storePathRootDir": tmp_path / "store", "mappedFileSizeCommitLog": 256 << 10,
        "maxHashSlotNum": 100,
        "maxIndexNum": 40, "flushIntervalConsumeQueue": 100,
        "flushConsumeQueueThoroughInterval": 200,
    }  # fmt: skip
    with daemon("aiorocketmq.broker", tmp_path, DESCRIPTORS, DESCRIPTORS, **store) as broker:
        await until(broker.is_ready, "the broker is ready")
        async with RemotingClient() as client:
            assert await send(client, broker.port, "Before") == 0
            with crowd(SILENT // 2, broker.port, broker.port - 2):  # both ports count together
                await until(
                    lambda: "accepting pauses" in broker.log, "the broker says that it is full"
                )
                for number in range(
                    30
                ):  # new files of queues, log and index; and of the table of topics
                    assert await send(client, broker.port, f"During{number}", bytes(20_000)) == 0, (
                        broker.log
                    )
                assert "consumequeue" in os.listdir(tmp_path / "store")
                await until(
                    lambda: (tmp_path / "store" / "checkpoint").exists(), "a checkpoint is written"
                )
            await until(
                lambda: "over: accepting pauses" in broker.log, "the broker says that it goes on"
            )
            async with RemotingClient() as another:
                assert await send(another, broker.port, "After") == 0
    log = broker.log
    ports = set(re.findall(r" accepting pauses server=(\S+)", log))
    assert 2 * len(ports) == log.count("accepting pauses"), "a beginning and an end of each port"
    assert "maxConnections=20000 does not fit" in log
    assert "LimitNOFILE" in log
    for bad in ("failed", "Traceback", "not synced", "cannot", "not saved"):
        assert bad not in log, log


@asynchronous
async def test_the_limit_of_descriptors_is_raised_as_far_as_it_may_be(tmp_path: Path) -> None:
    """And maxConnections is kept then, without a word."""
    with daemon("aiorocketmq.namesrv", tmp_path, 256, 4096, maxConnections=2000) as namesrv:
        await until(namesrv.is_ready, "the name server is ready")
        limits = Path(f"/proc/{namesrv.process.pid}/limits")
        if limits.exists():
            found = re.search(r"Max open files +(\d+)", limits.read_text())
            assert found is not None
            assert int(found[1]) == 4096
        with crowd(300, namesrv.port):
            pass
    assert "does not fit" not in namesrv.log
    assert "accepting pauses" not in namesrv.log
