"""Real daemons for end-to-end tests: a name server and brokers, each a process of its own on free
loopback ports.

A test waits for conditions, never for a time; whatever happens, only processes that were started
here are ended.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec, Self

from aiorocketmq import Admin, Message, MessageExt, Producer, PullConsumer
from aiorocketmq.broker.config.addresses import free_port
from aiorocketmq.remoting.errors import RocketMQError

from ..forked import Forked

HOST = "127.0.0.1"
SUSPEND = 1.0
"""Long polls end soon, so that nothing waits for them."""
BEFORE_THE_NEXT_REBALANCE_S = 10.0
"""The regular one comes every 20 s: what happens before it happens because somebody was told."""
PATIENCE_S = 60.0
"""How long a condition may take on a machine that is busy with other tests."""

_NAMESRV_READY = re.compile(r"name server ready port=(\d+)")
_BROKER_READY = re.compile(r"broker ready name=\S+ .*? port=(\d+)")

P = ParamSpec("P")


class DaemonProcess:
    """``python -m <module>``, ready when its log says so. The log is a file: nobody has to read a
    pipe."""

    def __init__(self, module: str, ready: re.Pattern[str], folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / "daemon.log"
        environment = {**os.environ, "HOME": str(folder), "ROCKETMQ_HOME": str(folder)}
        environment.pop("NAMESRV_ADDR", None)
        with self.log_path.open("w") as log:
            self.process = Forked(module, *arguments, env=environment, stdout=log, stderr=log)
        try:
            self.port = int(self._wait_for(ready)[1])
        except BaseException:
            self.end(signal.SIGKILL)
            raise

    def _wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := pattern.search(self.log_path.read_text()):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"{self.process.args} did not get ready:\n{self.log_path.read_text()}")

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop (or kill) this process and wait until it is gone."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class Cluster:
    """One name server and the brokers that a test starts. Use as ``with``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name_server = self._name_server("namesrv")
        self._others: list[DaemonProcess] = []
        self.brokers: dict[str, DaemonProcess] = {}
        self._ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in (*self.brokers.values(), *self._others, self.name_server):
            daemon.end()

    def _name_server(self, name: str) -> DaemonProcess:
        settings = ("--listenPort=0", f"--bindAddress={HOST}")
        return DaemonProcess("aiorocketmq.namesrv", _NAMESRV_READY, self._folder / name, *settings)

    def second_name_server(self) -> DaemonProcess:
        """One that brokers know of when they are told (``namesrvAddr``)."""
        self._others.append(self._name_server(f"namesrv-{len(self._others) + 2}"))
        return self._others[-1]

    @property
    def namesrv(self) -> str:
        return self.name_server.address

    def store_of(self, name: str) -> Path:
        """The files of a broker."""
        return self._folder / name / "store"

    def start_broker(self, name: str = "broker-a", **properties: object) -> DaemonProcess:
        """A broker that is registered when this returns; one that was there before keeps its port
        and its store."""
        is_found = (
            name not in self._ports and not {"listenPort", "haListenPort"} & properties.keys()
        )
        port = self._ports.setdefault(name, free_port(HOST))
        settings = {
            "listenPort": port,
            "bindAddress": HOST,
            "brokerIP1": HOST,
            "brokerIP2": HOST,
            "brokerName": name,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self._folder / name / "store",
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 20 * 20_000,
            "maxHashSlotNum": 10_000,
            "maxIndexNum": 40_000,
            # that the machine is busy is no reason to refuse a message
            "waitTimeMillsInSendQueue": 60_000,
            **properties,
        }
        arguments = (f"--{key}={value}" for key, value in settings.items())
        folder = self._folder / name
        try:
            broker = DaemonProcess("aiorocketmq.broker", _BROKER_READY, folder, *arguments)
        except AssertionError as error:
            if not is_found or "is in use" not in str(error):
                raise
            del self._ports[name]  # somebody was faster: another test, say
            return self.start_broker(name, **properties)
        self.brokers[name] = broker
        asyncio.run(
            self._wait_until_known(
                str(settings["brokerName"]), int(str(settings.get("brokerId", 0)))
            )
        )
        return broker

    def start_slave(
        self, name: str = "broker-a", broker_id: int = 1, **properties: object
    ) -> DaemonProcess:
        """A slave of that broker; here it is called ``<name>-<id>``."""
        properties = {
            "brokerName": name,
            "brokerRole": "SLAVE",
            "brokerId": broker_id,
            **properties,
        }
        return self.start_broker(f"{name}-{broker_id}", **properties)

    def kill_broker(self, name: str) -> None:
        """SIGKILL."""
        self.brokers.pop(name).end(signal.SIGKILL)

    def stop_broker(self, name: str) -> None:
        """SIGTERM, and a clean end."""
        assert self.brokers.pop(name).end() == 0

    async def _wait_until_known(self, name: str, broker_id: int) -> None:
        async with Admin(namesrv=self.namesrv) as admin:

            async def known() -> bool:
                broker = (await admin.cluster_info()).broker_addr_table.get(name)
                return broker is not None and broker_id in broker.broker_addrs

            await until(known, f"the name server knows {name} with id {broker_id}")


async def until(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition (a function or a coroutine function). An error of ours in it counts as
    "not yet"."""
    deadline = time.monotonic() + patience_s
    failure: RocketMQError | None = None
    while time.monotonic() < deadline:
        try:
            result = condition()
            if isinstance(result, Coroutine):
                result = await result
            if result:
                return
        except RocketMQError as error:
            failure = error
        await asyncio.sleep(0.01)
    raise AssertionError(f"waited {patience_s:.0f} s in vain for: {what}") from failure


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, on a loop of its own. Tasks that it leaves behind are a
    failure."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def checked() -> None:
            await test(*args, **kwargs)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks left behind: {left}"

        asyncio.run(checked())

    return run


async def create_topic(namesrv: str, topic: str, queues: int) -> None:
    """On all masters; every name server knows all its queues when this returns."""
    async with Admin(namesrv=namesrv) as admin:
        addresses = await admin.create_topic(topic, queues=queues)
    for server in namesrv.split(";"):
        async with Admin(namesrv=server) as admin:

            async def known(admin: Admin = admin) -> bool:
                return len(await admin.read_queues(topic)) == queues * len(addresses)

            await until(known, f"the name server {server} knows all queues of {topic}")


async def sent(cluster: Cluster, topic: str, body: bytes, *keys: str, tags: str = "A") -> str:
    """The id of one message."""
    async with Producer("p", namesrv=cluster.namesrv) as producer:
        return (await producer.send(Message(topic, body, tags=tags, keys=keys))).msg_id


async def total_of(consumer: PullConsumer, count: int) -> list[MessageExt]:
    """The next ``count`` messages."""
    messages: list[MessageExt] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(messages) < count:
            messages += await consumer.poll()
    return messages
