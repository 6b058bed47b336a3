"""Brokers on this machine, each in a process of its own, so that one that is killed is really dead,
and two are on two cores.

A broker has a folder with all that belongs to it::

    n0/broker.conf    what it is told; "mqbroker -c" starts it by hand
    n0/broker.log     what it says
    n0/store          its store
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from .broker.config.config import BrokerConfig
from .client.admin import Admin
from .daemon.launch import LaunchError
from .local_properties import DEFAULTS, checked
from .remoting.errors import AddressInUseError
from .remoting.protocol.java_properties import format_properties
from .remoting.services import to_the_end

MEMBER: Final = "aiorocketmq.local_member"
HIGHEST_PORT: Final = 65535
_LOOK_AGAIN_S: Final = 0.01
_PORT_ATTEMPTS: Final = 5
_STOP_S: Final = 60.0
_START_S: Final = 60.0
_IN_USE: Final = "in use"


class LocalMember:
    """One broker of several. Its methods may be awaited on any loop."""

    def __init__(self, name: str, folder: Path) -> None:
        self.id: str = name
        """``n0``, ``n1``, ..."""
        self.folder: Path = folder
        self.config_file: Path = folder / "broker.conf"
        self.log_file: Path = folder / "broker.log"
        self.address: str = ""
        """``host:port`` for clients."""
        self.peer_address: str = ""
        """``host:port`` for the other members of a group; else empty."""
        self.metrics_address: str = ""
        """``host:port`` of its metrics; empty: ``prometheusPort`` is not set."""
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    def __repr__(self) -> str:
        return f"LocalMember({self.id!r}, {self.address!r}, pid={self.pid})"

    @property
    def pid(self) -> int | None:
        """Of its process; None: there is none."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process is not None else None

    @property
    def serves(self) -> bool:
        """It runs and is not paused."""
        return self.pid is not None and not self._paused

    async def start(self) -> None:
        """Returns when it listens, which is before it has found its group. Raises ``LaunchError``
        when it does not start; nothing happens where it runs."""
        if self.pid is not None:
            return
        self.begin()
        await self.listening()

    def begin(self) -> None:
        """Start its process and do not wait."""
        self._forget()
        environment = {"ROCKETMQ_HOME": str(self.folder), **os.environ}
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MEMBER, "-c", str(self.config_file)],
                stdin=subprocess.PIPE,  # it ends when this end is closed, by whatever
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us, who stop it in good order
            )

    async def listening(self) -> None:
        """Raises ``LaunchError`` with its last words when it ends before."""
        host, _, port = self.address.rpartition(":")

        async def connects() -> bool:
            if self.pid is None:
                self._forget()
                raise LaunchError(f"member {self.id} does not start: {self._last_words()}")
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                return False
            writer.close()
            return True

        await until(connects, f"member {self.id} listens", _START_S)

    async def stop(self) -> None:
        """As an administrator stops it: it hands over leadership first. Returns when it is gone."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """SIGKILL: as a machine that fails. Returns when it is gone."""
        await self._end(signal.SIGKILL)

    async def pause(self) -> None:
        """SIGSTOP: as a machine that hangs. Its connections stay."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    async def resume(self) -> None:
        """Go on after ``pause``."""
        self._signal(signal.SIGCONT)
        self._paused = False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    async def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        self._signal(number)
        if self._paused:
            await self.resume()  # what is stopped does not hear of it
        try:
            await until(lambda: process.poll() is not None, f"{self.id} ends", _STOP_S)
        except TimeoutError:
            process.kill()
            process.wait()
        self._forget()

    def _forget(self) -> None:
        """Of a process that has ended."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process, self._paused = None, False

    def _last_words(self) -> str:
        lines = self.log_file.read_text("utf-8", "replace").splitlines()
        return lines[-1].removeprefix("mqbroker: ") if lines else "it said nothing"


class LocalBrokers(ABC):
    """All of them. ``start`` returns when the name server knows them all as what they are to be."""

    option: ClassVar[str]
    """Of ``LocalCluster``: how many there are."""
    prefix: ClassVar[str]
    """Of their names, before the number."""
    settled: ClassVar[frozenset[str]]
    """Properties that follow from the option."""

    def __init__(
        self,
        folder: Path,
        *,
        namesrv: str,
        size: int,
        first_port: int,
        bind: str,
        host: str,
        properties: Mapping[str, str],
    ) -> None:
        """``first_port`` 0: any ports. Raises ``LaunchError``."""
        if given := sorted(self.settled & properties.keys()):
            raise LaunchError(f"{', '.join(given)}: {self.option}={size} says it already")
        if tls := sorted(name for name in properties if name.startswith("tls.")):
            raise LaunchError(
                f"{', '.join(tls)}: {self.option}={size} has no TLS, a cluster of one broker has"
            )
        names = [f"{self.prefix}{number}" for number in range(size)]
        self.members: tuple[LocalMember, ...] = tuple(
            LocalMember(name, folder / name) for name in names
        )
        self._namesrv = namesrv
        self._first_port = first_port
        self._bind = bind
        self._host = host
        self._properties = properties

    @abstractmethod
    def _choose_ports(self) -> None:
        """Of each member. Raises ``LaunchError``."""

    @abstractmethod
    def _own(self, member: LocalMember) -> Mapping[str, str]:
        """Properties that make it what it is among the others."""

    @abstractmethod
    async def _complete(self, admin: Admin) -> bool:
        """Whether the name server knows all there is to know."""

    @abstractmethod
    async def create_topic(self, topic: str, queue_nums: int, timeout_s: float) -> None:
        """Returns when clients find it. Raises ``TimeoutError``."""

    async def start(self) -> None:
        """Raises ``AddressInUseError``, ``LaunchError``, ``TimeoutError``."""
        for _ in range(_PORT_ATTEMPTS - 1 if self._first_port == 0 else 0):
            try:
                return await self._start()
            except AddressInUseError:  # somebody was quicker
                await self.stop()
        await self._start()

    async def stop(self) -> None:
        """All at once: to hand over leadership would be no use."""
        await asyncio.gather(*(member.stop() for member in self.members))

    async def serve(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Until cancelled; ``ready`` is called when messages can be sent."""
        try:
            await self.start()
            await ready()
            await asyncio.Event().wait()
        finally:
            await to_the_end(self.stop())

    def configure(self) -> None:
        """Choose ports and write each member's configuration; ``prometheusPort`` is that of the
        first, the others have the next ones. Raises ``LaunchError``, ``PropertyError`` for
        properties that cannot be."""
        given = checked({**DEFAULTS, **self._properties})[BrokerConfig]
        self._choose_ports()
        for number, member in enumerate(self.members):
            metrics_port = given.prometheus_port and given.prometheus_port + number
            common = {
                "namesrvAddr": self._namesrv,
                "listenPort": member.address.rpartition(":")[2],
                "bindAddress": self._bind,
                "brokerIP1": self._host,
                "brokerIP2": self._host,
                "storePathRootDir": str(member.folder / "store"),
            }
            own = {"prometheusPort": str(metrics_port), **self._own(member)}
            table = {**DEFAULTS, **common, **self._properties, **own}
            checked(table)
            if metrics_port:
                member.metrics_address = f"{given.prometheus_address}:{metrics_port}"
            member.folder.mkdir(parents=True, exist_ok=True)
            member.config_file.write_text(format_properties(table), "utf-8")

    async def _start(self) -> None:
        self.configure()
        for member in self.members:
            member.begin()
        for member in self.members:
            await self._listening(member)

        async def complete() -> bool:
            if dead := [member for member in self.members if member.pid is None]:
                await self._listening(dead[0])
            return await self._complete(admin)

        async with Admin(namesrv=self._namesrv) as admin:
            await until(complete, "the name server knows all brokers", _START_S)

    async def _listening(self, member: LocalMember) -> None:
        try:
            await member.listening()
        except LaunchError as error:
            if _IN_USE in str(error):
                raise AddressInUseError(str(error)) from None
            raise


async def until(
    condition: Callable[[], bool] | Callable[[], Awaitable[bool]], what: str, timeout_s: float
) -> None:
    """Raises ``TimeoutError`` that says what was waited for."""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                found = condition()
                if found if isinstance(found, bool) else await found:
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        raise TimeoutError(f"waited {timeout_s:g} s in vain: {what}") from None
