"""A real broker whose system calls fail for a while: stores, reads, delayed messages, tables (see ``shim.c``).

Whatever the errno, the broker lives, says in its log what is wrong without a traceback, and goes on by itself when it is
over; only a sync that fails needs a restart. Nothing acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq.broker.addresses import free_port
from aiorocketmq.remoting.client import RemotingClient
from aiorocketmq.remoting.invocations import Response
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest
from aiorocketmq.remoting.protocol.record import decode_messages

from ..e2e.cluster import HOST, PATIENCE_S, asynchronous, until
from ..store.world import bodies_of, open_store

OPEN, CREATE, WRITE, SYNC, MAP, NAMES, SPACE, READ, LIST = (1 << bit for bit in range(9))
EVERYTHING = (1 << 9) - 1
ROUNDS = {
    errno.EMFILE: OPEN | CREATE | LIST,
    errno.ENFILE: OPEN | CREATE | LIST,
    errno.ENOMEM: EVERYTHING,
    errno.EINTR: EVERYTHING,
    errno.EAGAIN: EVERYTHING,
    errno.ENOSPC: CREATE | WRITE | SPACE | NAMES,
    errno.EDQUOT: CREATE | WRITE | SPACE | NAMES,
    errno.EACCES: OPEN | CREATE | LIST | NAMES,
    errno.EROFS: OPEN | CREATE | SPACE | NAMES,
    errno.EIO: EVERYTHING & ~SYNC,
}
"""What a machine in such a state does not do."""
REFUSED = {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}
FILES = {"mappedFileSizeCommitLog": 64 << 10, "mappedFileSizeConsumeQueue": 20 * 20}
_READY = re.compile(r"broker ready .* port=(\d+) ")
_CONTROL = struct.Struct("=iIQ")


class FaultyBroker:
    """A broker under the shim."""

    def __init__(self, folder: Path, shim: Path, *more: str) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.control_path = folder / "control"
        self.control_path.write_bytes(bytes(mmap.PAGESIZE))
        with self.control_path.open("r+b") as file:
            self.control = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.port = free_port(HOST)
        self.log_path = folder / "broker.log"
        self.environment = {
            **os.environ, "HOME": str(folder), "ROCKETMQ_HOME": str(folder), "NAMESRV_ADDR": "", "LD_PRELOAD": str(shim),
            "FAULT_CONTROL": str(self.control_path), "FAULT_ROOT": str(self.store),
        }  # fmt: skip
        settings = {
            "listenPort": self.port, "bindAddress": HOST, "storePathRootDir": self.store, "maxHashSlotNum": 100,
            "maxIndexNum": 40, "flushIntervalCommitLog": 20, "flushCommitLogLeastPages": 0, "flushDiskType": "SYNC_FLUSH",
            "flushIntervalConsumeQueue": 20, "flushConsumeQueueThoroughInterval": 50, "syncFlushTimeout": 100,
            "flushDelayOffsetInterval": 100, "diskSpaceWarningLevelRatio": 100, "diskSpaceCleanForciblyRatio": 100,
            "messageDelayLevel": "1s 2s", **FILES,
        }  # fmt: skip
        self.command = [sys.executable, "-m", "aiorocketmq.broker", *(f"--{k}={v}" for k, v in settings.items()), *more]
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        with self.log_path.open("w") as log:
            return subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log
        return bool(_READY.search(self.log))

    def fail(self, number: int, calls: int) -> None:
        _CONTROL.pack_into(self.control, 0, number, calls, 0)

    def heal(self) -> int:
        """How many calls have failed."""
        failed: int = _CONTROL.unpack_from(self.control)[2]
        self.fail(0, 0)
        return failed


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs a C compiler on Linux, for system calls that fail")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def broker(tmp_path: Path, shim: Path) -> Iterator[FaultyBroker]:
    broker = FaultyBroker(tmp_path, shim)
    yield broker
    broker.heal()
    if broker.process.poll() is None:
        broker.process.kill()
    broker.process.wait(PATIENCE_S)


class Traffic:
    """Sends and pulls, and what was acknowledged."""

    def __init__(self, client: RemotingClient, address: str) -> None:
        self.client = client
        self.address = address
        self.acknowledged: dict[str, list[bytes]] = {}
        self.refused = 0
        """Or perhaps not on the disk."""
        self.count = 0

    async def send(self, topic: str, size: int = 100, delay: int = 0) -> bool:
        """Whether it was acknowledged. What is stored, but perhaps not on the disk, counts as well: it must not go."""
        self.count += 1
        header = SendMessageRequest(
            producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
            born_timestamp=1, flag=0, properties=f"KEYS\x01k{self.count}\x02" + (f"DELAY\x01{delay}\x02" if delay else ""),
        )  # fmt: skip
        body = (b"%d:" % self.count).ljust(size, b".")
        answer = await self.ask(RequestCode.SEND_MESSAGE, header, body)
        if answer.code in (ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT):
            self.acknowledged.setdefault(topic, []).append(body)
        else:
            assert answer.code in REFUSED, (answer.code, answer.remark)
            assert answer.remark
        self.refused += answer.code != ResponseCode.SUCCESS
        return answer.code == ResponseCode.SUCCESS

    async def pull(self, topic: str, offset: int = 0) -> Response:
        header = PullMessageRequest(
            consumer_group="CID_ONSAPI_PULL", topic=topic, queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=4,
            commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0, expression_type="TAG",
        )  # fmt: skip
        return await self.ask(RequestCode.PULL_MESSAGE, header, b"")

    async def ask(self, code: RequestCode, header: object, body: bytes) -> Response:
        return await self.client.invoke(self.address, code, header, body, timeout=PATIENCE_S)

    async def all_of(self, topic: str) -> list[bytes]:
        found: list[bytes] = []
        while (answer := await self.pull(topic, len(found))).code == ResponseCode.SUCCESS:
            found += [message.body for message in decode_messages(bytes(answer.body))]
        return found

    async def some(self, seconds: float) -> None:
        """Of everything."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self.send("TBW102", 5000)
            await self.send("Delayed", delay=1)
            await self.send("Small")
            await self.pull("TBW102")
            await self.pull("Small", 3)


async def restarted(broker: FaultyBroker) -> None:
    """A clean stop, and a start."""
    assert "Traceback" not in broker.log
    assert "the disk failed" not in broker.log
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(PATIENCE_S) == 0, broker.log
    broker.process = broker.start()
    await until(broker.is_ready, "the broker is ready again")


@asynchronous
async def test_a_broker_whose_system_calls_fail_goes_on_when_they_do_not(broker: FaultyBroker, tmp_path: Path) -> None:
    await until(broker.is_ready, "the broker is ready")
    async with RemotingClient() as client:
        traffic = Traffic(client, f"{HOST}:{broker.port}")
        for number, calls in ROUNDS.items():
            name = errno.errorcode[number]
            await traffic.some(0.1)
            before = traffic.refused
            broker.fail(number, calls)
            await traffic.some(0.3)
            end = time.monotonic() + 5
            while traffic.refused == before and number != errno.EINTR and time.monotonic() < end:
                await traffic.some(0.05)
            assert broker.heal(), f"{name} is felt"
            assert traffic.refused > before or number == errno.EINTR, f"{name} is told"
            assert broker.process.poll() is None, broker.log

            async def goes_on() -> bool:
                return (
                    await traffic.send("TBW102", 5000)
                    and await traffic.send("Delayed", delay=1)
                    and await traffic.send("Small")
                )

            await until(goes_on, f"sends go on after {name}", 10)
        for topic, bodies in traffic.acknowledged.items():

            async def all_there(topic: str = topic, bodies: list[bytes] = bodies) -> bool:
                return len(await traffic.all_of(topic)) >= len(bodies)

            await until(all_there, f"everything in {topic} can be read")
            assert sorted(await traffic.all_of(topic)) == sorted(bodies), topic
        await restarted(broker)
        for number in (errno.EMFILE, errno.ENOMEM, errno.EIO):  # nothing is mapped yet, delayed messages are read as well
            broker.fail(number, ROUNDS[number])
            answer = await traffic.pull("TBW102")
            assert answer.code == ResponseCode.SYSTEM_ERROR, answer
            assert os.strerror(number) in str(answer.remark)
            await asyncio.sleep(0.3)
            broker.heal()
        for topic, bodies in traffic.acknowledged.items():
            assert sorted(await traffic.all_of(topic)) == sorted(bodies), topic
        assert "Traceback" not in broker.log
        assert "the disk failed" not in broker.log
        assert await traffic.send("New"), "a topic can be made"

        broker.fail(errno.EIO, SYNC)
        assert not await traffic.send("TBW102")
        broker.heal()
        assert not await traffic.send("TBW102")
        assert "the disk failed" in broker.log
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(PATIENCE_S) == 0, broker.log
    store = open_store(broker.store, mapped_file_size_commit_log=64 << 10, mapped_file_size_consume_queue=20 * 20)
    for topic, bodies in traffic.acknowledged.items():
        assert sorted(bodies_of(store, topic)) == sorted(bodies), topic
    store.close()
