"""A real broker whose system calls fail when a test wants them to (``shim.c``), and traffic with
it."""

from __future__ import annotations

import errno
import mmap
import os
import re
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from aiorocketmq.broker.config.addresses import free_port
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest
from aiorocketmq.remoting.protocol.wire import Record, fields_of
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.store.model.config import MessageStoreConfig
from tests.stored import decode_messages

from ..e2e.cluster import HOST, PATIENCE_S

OPEN, CREATE, WRITE, SYNC, MAP, NAMES, SPACE, READ, LIST = (1 << bit for bit in range(9))
EVERYTHING = (1 << 9) - 1
STATES = {
    errno.EMFILE: OPEN | CREATE | LIST,
    errno.ENFILE: OPEN | CREATE | LIST,
    errno.ENOMEM: EVERYTHING & ~SYNC,
    errno.EINTR: EVERYTHING & ~SYNC,
    errno.EAGAIN: EVERYTHING & ~SYNC,
    errno.ENOSPC: CREATE | WRITE | SPACE | NAMES,
    errno.EDQUOT: CREATE | WRITE | SPACE | NAMES,
    errno.EACCES: OPEN | CREATE | LIST | NAMES,
    errno.EROFS: OPEN | CREATE | SPACE | NAMES,
    errno.EIO: EVERYTHING & ~SYNC,
}
"""What a machine in such a state does not do. (A sync that fails, however, needs a restart.)"""
_STORED = {
    ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
}  # fmt: skip
_REFUSED = {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}
STORE: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 << 10, "mapped_file_size_consume_queue": 20 * 20,
    "max_hash_slot_num": 100,
    "max_index_num": 40,
}  # fmt: skip
"""Of the broker, for who opens it: files so small that new ones are made all the time."""
FILES = {
    field.wire_name: STORE[field.name]
    for field in fields_of(MessageStoreConfig)
    if field.name in STORE
}
DELAYS = "1s 2s"
_READY = re.compile(r"broker ready .* port=(\d+) ")
_CONTROL = struct.Struct("=iIQ")


class FaultyBroker:
    """A broker under the shim."""

    def __init__(self, folder: Path, shim: Path, **properties: object) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.store = folder / "store"
        self.control_path = folder / "control"
        self.control_path.write_bytes(bytes(mmap.PAGESIZE))
        with self.control_path.open("r+b") as file:
            self.control = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.port = free_port(HOST)
        self.log_path = folder / "broker.log"
        self.environment = {
            **os.environ, "HOME": str(folder), "ROCKETMQ_HOME": str(folder), "NAMESRV_ADDR": "",
            "LD_PRELOAD": str(shim),
            "FAULT_CONTROL": str(self.control_path), "FAULT_ROOT": str(self.store),
        }  # fmt: skip
        settings = {
            "listenPort": self.port, "bindAddress": HOST, "storePathRootDir": self.store,
            "flushIntervalCommitLog": 20,
            "flushCommitLogLeastPages": 0, "flushDiskType": "SYNC_FLUSH",
            "flushIntervalConsumeQueue": 20,
            "flushConsumeQueueThoroughInterval": 50, "syncFlushTimeout": 100,
            "flushDelayOffsetInterval": 100,
            "diskSpaceWarningLevelRatio": 100, "diskSpaceCleanForciblyRatio": 100,
            "messageDelayLevel": DELAYS, **FILES,
            **properties,
        }  # fmt: skip
        self.command = [
            sys.executable,
            "-m",
            "aiorocketmq.broker",
            *(f"--{k}={v}" for k, v in settings.items()),
        ]
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

    @property
    def failed(self) -> int:
        """How many calls have failed."""
        failed: int = _CONTROL.unpack_from(self.control)[2]
        return failed

    def heal(self) -> int:
        """How many calls have failed until now."""
        failed = self.failed
        self.fail(0, 0)
        return failed

    def end(self) -> None:
        """Whatever happens."""
        self.heal()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)


class Traffic:
    """Sends and pulls, and what became of them."""

    def __init__(self, client: RemotingClient, address: str) -> None:
        self.client = client
        self.address = address
        self.stored: dict[str, list[bytes]] = {}
        """Whatever else the answer said: it must not go."""
        self.acknowledged: list[bytes] = []
        """Without a doubt."""
        self.answers: Counter[int] = Counter()
        """To sends, by their code."""
        self._count = 0

    @property
    def doubtful(self) -> int:
        """How many were refused, or perhaps are not where they should be."""
        return self.answers.total() - self.answers[ResponseCode.SUCCESS]

    async def send(self, topic: str, size: int = 100, delay: int = 0) -> bool:
        """Whether it was acknowledged."""
        self._count += 1
        header = SendMessageRequest(
            producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=1,
            queue_id=0, sys_flag=0,
            born_timestamp=1, flag=0,
            properties=f"KEYS\x01k{self._count}\x02" + (f"DELAY\x01{delay}\x02" if delay else ""),
        )  # fmt: skip
        body = (b"<%d>" % self._count).ljust(size, b".")
        answer = await self.ask(RequestCode.SEND_MESSAGE, header, body)
        self.answers[answer.code] += 1
        if answer.code in _STORED:
            self.stored.setdefault(topic, []).append(body)
        else:
            assert answer.code in _REFUSED, (answer.code, answer.remark)
            assert answer.remark
        if answer.code == ResponseCode.SUCCESS:
            self.acknowledged.append(body)
        return answer.code == ResponseCode.SUCCESS

    async def pull(self, topic: str, offset: int = 0) -> Response:
        header = PullMessageRequest(
            consumer_group="CID_ONSAPI_PULL", topic=topic, queue_id=0, queue_offset=offset,
            max_msg_nums=32, sys_flag=4,
            commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
            expression_type="TAG",
        )  # fmt: skip
        return await self.ask(RequestCode.PULL_MESSAGE, header, b"")

    async def ask(self, code: RequestCode, header: Record | None, body: bytes) -> Response:
        return await self.client.invoke(self.address, code, header, body, timeout=PATIENCE_S)

    async def all_of(self, topic: str) -> list[bytes]:
        found: list[bytes] = []
        while (answer := await self.pull(topic, len(found))).code == ResponseCode.SUCCESS:
            found += [message.body for message in decode_messages(bytes(answer.body))]
        return found

    async def of_everything(self) -> bool:
        """Whether all was acknowledged."""
        large = await self.send("TBW102", 5000)
        delayed = await self.send("Delayed", delay=1)
        return await self.send("Small") and large and delayed

    async def some(self, seconds: float) -> None:
        """Of everything."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self.of_everything()
            await self.pull("TBW102")
            await self.pull("Small", 3)
