"""The servers that are measured, and their floors, each a process of its own that ends with its
block."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

from aiorocketmq.remoting.protocol.leaves import KIND, PURE_VARIABLE
from examples.demo.daemons import free_port

from .figures import BenchmarkError
from .native import floor as native_floor
from .peer import Peer, until_listening

_READY: Final = re.compile(r"(broker|name server) ready ")
_PATIENCE_S: Final = 120.0
_LEAVE_S: Final = 10.0
_REMOVED_WITHIN_S: Final = 10.0
C_FLOOR: Final = "a server in C, the same exchange"
PYTHON_FLOOR: Final = "a Python server that only cuts frames (no compiler here)"


class Server(NamedTuple):
    """A process that listens."""

    port: int
    pid: int
    log: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def work_folder(parent: Path | None) -> Iterator[Path]:
    """Where a benchmark puts its files; removed at the end. (Tens of thousands take long on a busy
    disk: nobody waits.)"""
    folder = Path(tempfile.mkdtemp(prefix="aiorocketmq-bench-", dir=parent)).absolute()
    try:
        yield folder
    finally:
        remover = subprocess.Popen(["rm", "-rf", str(folder)], start_new_session=True)
        try:
            remover.wait(_REMOVED_WITHIN_S)
        except subprocess.TimeoutExpired:
            pass


@contextmanager
def running(
    command: list[str], log: Path, folder: Path, *, leave_s: float = _LEAVE_S
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is asked to end, and made to when it does not within a time; with 0 it is not
    asked."""
    environment = {**os.environ, "ROCKETMQ_HOME": str(folder), "NAMESRV_ADDR": ""}
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
        )
    try:
        yield child
    finally:
        try:
            if leave_s:
                child.terminate()
                child.wait(leave_s)
        except subprocess.TimeoutExpired:
            pass  # many queues are many files to be synced, and nobody wants them any more
        finally:
            child.kill()
            child.wait()


@contextmanager
def broker(
    folder: Path,
    name: str = "broker",
    python: str = sys.executable,
    leave_s: float = 3.0,
    /,
    **settings: object,
) -> Iterator[Server]:
    """A broker on the store below ``folder``, with defaults except for ``settings`` (properties by
    their names)."""
    home = folder / name
    home.mkdir(exist_ok=True)
    port = int(str(settings.pop("listenPort", 0))) or free_port(-2, 1)
    given = {
        "listenPort": port, "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "storePathRootDir": home / "store", **settings,
    }  # fmt: skip
    command = [
        python,
        "-m",
        "aiorocketmq.broker",
        *(f"--{key}={value}" for key, value in given.items()),
    ]
    with running(command, home / "log", home, leave_s=leave_s) as child:
        until_ready(child, home / "log")
        yield Server(port, child.pid, home / "log")


@contextmanager
def pure_broker(folder: Path, name: str = "pure", /, **settings: object) -> Iterator[Server | None]:
    """One without the compiled leaves; ``None`` where there are none anyway."""
    if KIND != "compiled":
        yield None
        return
    with (
        mock.patch.dict(os.environ, {PURE_VARIABLE: "1"}),
        broker(folder, name, **settings) as server,
    ):
        yield server


@contextmanager
def name_server(
    folder: Path, name: str = "namesrv", python: str = sys.executable
) -> Iterator[Server]:
    """A name server."""
    home = folder / name
    home.mkdir(exist_ok=True)
    port = free_port()
    command = [
        python,
        "-m",
        "aiorocketmq.namesrv",
        f"--listenPort={port}",
        f"--kvConfigPath={home / 'kv.json'}",
    ]
    with running(command, home / "log", home) as child:
        until_listening(port)
        yield Server(port, child.pid, home / "log")


@contextmanager
def floor(folder: Path, *options: str, port: int = 0) -> Iterator[Server]:
    """The floor in C (``benchmarks/c/floor.c``), or one in Python where there is no compiler."""
    port = port or free_port()
    home = Path(tempfile.mkdtemp(prefix="floor-", dir=folder))
    program = native_floor()
    command = (
        [str(program), str(port), *options]
        if program
        else [sys.executable, "-m", "benchmarks.echo_server", str(port)]
    )
    with running(command, home / "log", home if program else Path.cwd(), leave_s=0) as child:
        until_listening(port)
        yield Server(port, child.pid, home / "log")


def has_floor() -> bool:
    """Whether the floor can do what is more than to send: pull, transactions, replication."""
    return native_floor() is not None


def floor_is() -> str:
    return C_FLOOR if has_floor() else PYTHON_FLOOR


def until_ready(child: subprocess.Popen[bytes], log: Path) -> None:
    """Return when a daemon serves. Raises ``BenchmarkError`` with the end of its log."""
    deadline = time.monotonic() + _PATIENCE_S
    while not _READY.search(log.read_text(errors="replace")):
        if child.poll() is not None or time.monotonic() > deadline:
            raise BenchmarkError(
                f"the daemon does not start: {log.read_text(errors='replace')[-1500:]}"
            )
        time.sleep(0.01)


def create_topic(server: Server, *names: str, queues: int = 4) -> None:
    """On a broker."""
    with Peer(server.port) as peer:
        for name in names or ("Benchmark",):
            peer.create_topic(name, queues)
