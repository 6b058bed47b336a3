"""A broker process in several lives, on one store and port, for campaigns that stop and kill it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.transport.client import RemotingClient
from examples.demo.daemons import free_port
from examples.demo.errors import DemoError

from .cpu import cpu_ns

_READY: Final = re.compile(r"broker ready .* port=(\d+) ")
_BAD_LINES: Final = re.compile(r"Traceback| CRITICAL | ERROR ")
_PATIENCE_S: Final = 120.0


class BrokerProcess:
    """``problems``: what its lives have left in their logs, and how they ended."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        """``settings`` are properties by the original's names, on top of small files."""
        self.store = folder / "store"
        self.address = f"127.0.0.1:{free_port(-2, 1)}"
        self.problems: list[str] = []
        self._settings = {
            "storePathRootDir": self.store, "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
            "listenPort": self.address.rpartition(":")[2], "mappedFileSizeCommitLog": 64 << 20,
            "mappedFileSizeConsumeQueue": 20 * 20_000, "maxHashSlotNum": 100_000,
            "maxIndexNum": 400_000, **settings,
        }  # fmt: skip
        self._folder = folder
        self._log = folder / "broker.log"
        self._process: asyncio.subprocess.Process | None = None
        self._cpu_s = 0.0

    async def start(self) -> None:
        """Return when it serves. Raises ``DemoError``."""
        options = (f"--{name}={value}" for name, value in self._settings.items())
        environment = {
            **os.environ,
            "ROCKETMQ_HOME": str(self._folder),
            "HOME": str(self._folder),
            "NAMESRV_ADDR": "",
        }
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "aiorocketmq.broker", *options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        deadline = time.monotonic() + _PATIENCE_S
        while _READY.search(self._log.read_text(errors="replace")) is None:
            if self._process.returncode is not None or time.monotonic() > deadline:
                raise DemoError(
                    "the broker does not start; its log:",
                    self._log.read_text(errors="replace")[-3000:],
                )
            await asyncio.sleep(0.01)

    async def end(self, number: signal.Signals) -> None:
        """End this life."""
        process, self._process = self._process, None
        if process is None:
            return
        self._cpu_s += _used_s(process)
        if process.returncode is None:
            process.send_signal(number)
        code = await process.wait()
        if code not in (0, -signal.SIGKILL):
            self.problems.append(f"the broker ended with exit code {code}")
        lines = self._log.read_text(errors="replace").splitlines()
        self.problems += [f"log: {line}" for line in lines if _BAD_LINES.search(line)]

    @property
    def cpu_s(self) -> float:
        """In all its lives."""
        return self._cpu_s + (_used_s(self._process) if self._process is not None else 0.0)


def _used_s(process: asyncio.subprocess.Process) -> float:
    try:
        return cpu_ns(process.pid) / 1e9
    except ProcessLookupError:
        return 0.0


async def make_topic(client: RemotingClient, address: str, topic: str, queues: int) -> None:
    request = CreateTopicRequest(
        topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    (await client.invoke(address, RequestCode.UPDATE_AND_CREATE_TOPIC, request, timeout=30)).check()
