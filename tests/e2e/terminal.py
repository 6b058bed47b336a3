"""What a reader pastes from a page, in a shell whose programs come from a wheel."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from aiorocketmq.broker.config.addresses import free_ports

from ..installed import Environment
from .cluster import HOST, PATIENCE_S

_SMALL: Final = (
    "--mappedFileSizeCommitLog=16777216 --mappedFileSizeConsumeQueue=400000 "
    "--diskSpaceWarningLevelRatio=99 --waitTimeMillsInSendQueue=60000"
)
_DAEMON: Final = r"^mq(?:namesrv|broker|cluster|console)\b(?!.* -p\b)"
_IN_FRONT: Final = re.compile(rf"({_DAEMON}[^&#\n]*?)( *(?:#.*)?)$", re.MULTILINE)


def starts_daemons(text: str) -> bool:
    """What goes on until it is told to end."""
    return re.search(_DAEMON, text, re.MULTILINE) is not None


@dataclass(frozen=True)
class Places:
    """Where things are here that have usual addresses and folders on a page."""

    namesrv: int
    broker: int
    second: int
    folder: Path

    @classmethod
    def free(cls, folder: Path) -> Places:
        namesrv, broker, second = free_ports(HOST, 3)
        return cls(namesrv, broker, second, folder)

    def of(self, text: str) -> str:
        """The same text for here. A daemon in the foreground is one in a terminal of its own."""
        text = re.sub(r"[\w.-]+:9876\b", f"{HOST}:{self.namesrv}", text)
        text = re.sub(r"[\w.-]+:10911\b", f"{HOST}:{self.broker}", text)
        text = text.replace("=11911", f"={self.second}").replace("/data/", f"{self.folder}/")
        return _IN_FRONT.sub(r"\1 &\2", text)

    @property
    def prelude(self) -> str:
        """The daemons listen where nobody else does, and take little room."""
        here = f"--bindAddress={HOST} --listenPort"
        return (
            f'mqnamesrv() {{ command mqnamesrv {here}={self.namesrv} "$@"; }}\n'
            f"mqbroker() {{ command mqbroker {here}={self.broker} --brokerIP1={HOST} "
            f'{_SMALL} "$@"; }}\n'
            f"mqcluster() {{ command mqcluster --namesrvPort={self.namesrv} "
            f'--brokerPort={self.broker} "$@"; }}\n'
            f'mqconsole() {{ command mqconsole --port={self.second} "$@"; }}\n'
        )


class Terminal:
    """A shell in an empty folder, its home. What was started in it is ended with it."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self._environment = environment
        self.places: Final = Places.free(folder)
        self._shells: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for shell in self._shells:
            _tell(shell, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while left := [shell for shell in self._shells if _tell(shell, 0)]:
            if time.monotonic() > deadline:
                for shell in left:
                    _tell(shell, signal.SIGKILL)
                    shell.wait()
                raise AssertionError("what a page starts did not end within a minute of SIGTERM")
            time.sleep(0.02)

    def paste(self, text: str) -> str:
        """What was printed; fails where a command of it did."""
        folder = self.places.folder
        variables = {
            **self._environment.variables,
            "HOME": str(folder),
            "ROCKETMQ_HOME": str(folder),
            "MQADMIN_WAIT": str(PATIENCE_S),
        }
        with (folder / f"printed-{len(self._shells)}").open("w+") as printed:
            shell = subprocess.Popen(
                ["bash", "-e", "-c", f"{self.places.prelude}{self.places.of(text)}"],
                cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=printed,
                stderr=printed, start_new_session=True,
            )  # fmt: skip
            self._shells.append(shell)
            code = shell.wait(PATIENCE_S)
            printed.seek(0)
            output = printed.read()
        assert code == 0, f"{text}\n{output}"
        return output


def _tell(shell: subprocess.Popen[bytes], number: int) -> bool:
    """Whether somebody of its group is left: the shell itself, where a paste was interrupted, or
    what it started."""
    shell.poll()
    try:
        os.killpg(shell.pid, number)
    except ProcessLookupError:
        return False
    return True
