"""A name server and a broker as processes of their own, in a folder of their own.

::

    async with Daemons.started(DataFolder.make()) as daemons:
        await daemons.watch(work(daemons.namesrv_address))

They run in sessions of their own, so that Ctrl-C in the terminal reaches whoever started them, and
not them; leaving the ``async with`` sends them SIGTERM and waits.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Self, TypeVar

from aiorocketmq.broker.config.addresses import FREE_PORTS
from aiorocketmq.remoting.errors import BrokerError, RemotingError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.route import ClusterInfo
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport.client import RemotingClient

from .errors import DaemonDied, DemoError

T = TypeVar("T")

HOST = "127.0.0.1"
BROKER_NAME = "demo-broker"
CLUSTER_NAME = "DefaultCluster"
READY_WITHIN = 30.0
STOPPED_WITHIN = 20.0
_LAST_LINES = 8
_BROKER_NEIGHBOURS = (-2, 1)
"""Its VIP port is two below the one it listens on, its replication port one above."""
_LOOK_EVERY_S = 0.02


@contextmanager
def data_folder(parent: Path | None, *, keep: bool = False) -> Iterator[Path]:
    """A new folder, below ``parent`` or where temporary files go; removed at the end unless it is
    to be kept.

    Raises ``DemoError`` when none can be made.
    """
    try:
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="aiorocketmq-", dir=parent)).absolute()
    except OSError as error:
        where = parent or Path(os.environ.get("TMPDIR", "/tmp"))
        raise DemoError(
            f"cannot write to {where}: {error.strerror or error}; name another folder"
        ) from None
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def free_port(*neighbours: int) -> int:
    """A port of the loopback address that nobody listens on, and neither on those at these
    distances from it."""
    for _ in range(100):
        port = random.choice(FREE_PORTS)
        if all(_can_listen(port + distance) for distance in (0, *neighbours)):
            return port
    raise DemoError(f"no free ports on {HOST}")


def check_port(option: str, port: int) -> None:
    """Raises ``DemoError`` when the port cannot be listened on."""
    if not _can_listen(port):
        raise DemoError(
            f"port {port} is in use; name another one with {option}, or leave that out to have a "
            "free one"
        )


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class DaemonProcess:
    """One daemon: its process, its command and its log."""

    def __init__(self, title: str, module: str, config: Path, log: Path) -> None:
        self.title = title
        self.log = log
        self.command = [sys.executable, "-m", module, "-c", str(config)]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def was_started(self) -> bool:
        """There is a process, or was one."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process is not None
        return self._process.pid

    async def start(self, environment: dict[str, str]) -> None:
        """Start the process; that says nothing yet about whether it serves."""
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL for what does not obey."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOPPED_WITHIN):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def died(self) -> None:
        """Raises ``DaemonDied`` when the process ends; never returns."""
        assert self._process is not None
        code = await self._process.wait()
        how = (
            f"was ended by {signal.Signals(-code).name}"
            if code < 0
            else f"ended with exit code {code}"
        )
        raise DaemonDied(f"the {self.title} {how}; the end of its log:", self.last_lines())

    def last_lines(self) -> str:
        """The end of the log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-_LAST_LINES:]) or "(it is empty)"


class Daemons:
    """One name server and one broker."""

    def __init__(
        self, folder: Path, namesrv_port: int | None = None, broker_port: int | None = None
    ) -> None:
        """Raises ``DemoError`` when a port that was asked for is in use."""
        if namesrv_port is not None:
            check_port("--namesrv-port", namesrv_port)
        if broker_port is not None:
            check_port("--broker-port", broker_port)
        self.folder = folder
        self.namesrv_address = f"{HOST}:{namesrv_port or free_port()}"
        self.broker_address = f"{HOST}:{broker_port or free_port(*_BROKER_NEIGHBOURS)}"
        self.namesrv = self._daemon("name server", "namesrv", self._namesrv_config())
        self.broker = self._daemon("broker", "broker", self._broker_config())

    @classmethod
    @asynccontextmanager
    async def started(
        cls, folder: Path, namesrv_port: int | None = None, broker_port: int | None = None
    ) -> AsyncIterator[Self]:
        """Both running and known to each other; stopped at the end. Raises ``DemoError``."""
        daemons = cls(folder, namesrv_port, broker_port)
        environment = {**os.environ, "ROCKETMQ_HOME": str(folder), "PYTHONUNBUFFERED": "1"}
        async with AsyncExitStack() as running:
            for daemon, is_ready in (
                (daemons.namesrv, daemons._name_server_answers),
                (daemons.broker, daemons._registered),
            ):
                running.push_async_callback(daemon.stop)
                await daemon.start(environment)
                await daemons.watch(is_ready())
            yield daemons

    async def watch(self, work: Coroutine[None, None, T]) -> T:
        """The result of some work that needs what was started. Raises ``DaemonDied`` as soon as a
        daemon is gone."""
        task = asyncio.ensure_future(work)
        deaths = [
            asyncio.ensure_future(daemon.died())
            for daemon in (self.namesrv, self.broker)
            if daemon.was_started
        ]
        try:
            await asyncio.wait([task, *deaths], return_when=asyncio.FIRST_COMPLETED)
            for death in deaths:
                if death.done():
                    death.result()
            return task.result()
        finally:
            for one in (task, *deaths):
                one.cancel()
            await asyncio.gather(task, *deaths, return_exceptions=True)

    async def _name_server_answers(self) -> None:
        """Return when it does: a broker that is quicker would complain."""
        await self._until_cluster(lambda info: info is not None, self.namesrv, "answer")

    async def _registered(self) -> None:
        """Return when the name server knows the broker."""
        await self._until_cluster(
            lambda info: info is not None and bool(info.broker_addr_table),
            self.broker,
            "register with the name server",
        )

    async def _until_cluster(
        self, is_ready: Callable[[ClusterInfo | None], bool], daemon: DaemonProcess, what: str
    ) -> None:
        try:
            async with RemotingClient(name="demo") as remoting, asyncio.timeout(READY_WITHIN):
                while not is_ready(await _cluster(remoting, self.namesrv_address)):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            problem = (
                f"the {daemon.title} did not {what} within {READY_WITHIN:.0f} s; the end of its "
                "log:"
            )
            raise DemoError(problem, daemon.last_lines()) from None

    def _daemon(self, title: str, name: str, config: Sequence[str]) -> DaemonProcess:
        path = self.folder / f"{name}.conf"
        path.write_text("\n".join(config) + "\n", encoding="utf-8")
        return DaemonProcess(title, f"aiorocketmq.{name}", path, self.folder / f"{name}.log")

    def _namesrv_config(self) -> list[str]:
        return [
            f"listenPort={self.namesrv_address.rpartition(':')[2]}",
            f"bindAddress={HOST}",
            f"kvConfigPath={self.folder / 'kvConfig.json'}",
        ]

    def _broker_config(self) -> list[str]:
        return [
            f"namesrvAddr={self.namesrv_address}",
            f"brokerClusterName={CLUSTER_NAME}",
            f"brokerName={BROKER_NAME}",
            f"brokerIP1={HOST}",
            f"bindAddress={HOST}",
            f"listenPort={self.broker_address.rpartition(':')[2]}",
            f"storePathRootDir={self.folder / 'store'}",
            f"storePathCommitLog={self.folder / 'store' / 'commitlog'}",
            f"mappedFileSizeCommitLog={64 * 1024 * 1024}",
            # that the machine is busy is no reason to refuse a message
            "waitTimeMillsInSendQueue=10000",
        ]


async def _cluster(remoting: RemotingClient, namesrv_address: str) -> ClusterInfo | None:
    """What the name server knows; None when it does not answer."""
    try:
        answer = await remoting.invoke(
            namesrv_address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout=1.0
        )
        return decode_body(ClusterInfo, answer.check(namesrv_address).body)
    except (RemotingError, BrokerError):
        return None
