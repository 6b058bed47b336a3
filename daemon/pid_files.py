"""Which daemons run on this machine: one small file per daemon, for ``mqshutdown`` and for people.

``<home>/run/<role>-<port>.pid``, home being ROCKETMQ_HOME or ``~/.aiorocketmq``::

    4711
    /usr/bin/python3 -m aiorocketmq.namesrv -c namesrv.properties

The first line is the process id, the second the command line of that process. A file whose process
is gone, or is another one by now (its command line differs), is stale: it is passed over and
removed.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

log: Final = logging.getLogger(__name__)

FALLBACK_HOME = Path("~/.aiorocketmq")


class RunningDaemon(NamedTuple):
    """A daemon that has a PID file and is alive."""

    role: str
    """``namesrv`` or ``broker``."""
    port: int
    pid: int
    path: Path


def rocketmq_home() -> Path:
    """ROCKETMQ_HOME, or ``~/.aiorocketmq`` where the original would refuse to start."""
    return Path(os.environ.get("ROCKETMQ_HOME") or FALLBACK_HOME).expanduser()


def run_folders(home: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where PID files can be: the folder of this home, and the one that is used when that cannot be
    written to."""
    folders = [Path(home or rocketmq_home()) / "run", FALLBACK_HOME.expanduser() / "run"]
    return list(dict.fromkeys(folders))


@contextmanager
def pid_file(
    role: str, port: int, home: str | os.PathLike[str] | None = None
) -> Iterator[Path | None]:
    """While inside, this process is listed as the daemon of that role on that port.

    Gives the path of the file, or ``None`` when no folder can be written to: that is logged and no
    reason to stop.
    """
    path = _write(role, port, home)
    try:
        yield path
    finally:
        if path is not None:
            _remove_own(path)


def running_daemons(
    role: str | None = None, home: str | os.PathLike[str] | None = None
) -> list[RunningDaemon]:
    """All daemons with a PID file (of one role) that are alive. Stale files are removed."""
    found = []
    for folder in run_folders(home):
        for path in sorted(folder.glob(f"{role or '*'}-*.pid")):
            name, _, port = path.stem.rpartition("-")
            if not port.isdecimal():
                continue
            pid = _alive_pid(path)
            if pid is not None:
                found.append(RunningDaemon(name, int(port), pid, path))
    return found


def command_line(pid: int) -> str | None:
    """The command line of a process, ``None`` when there is no such process."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None if Path("/proc/self/cmdline").exists() else _command_line_from_ps(pid)
    return raw.replace(b"\0", b" ").decode(errors="replace").strip() or None


def _command_line_from_ps(pid: int) -> str | None:
    try:
        done = subprocess.run(
            ["ps", "-o", "command=", "-p", str(pid)],  # noqa: S607 - where it lies differs
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _write(role: str, port: int, home: str | os.PathLike[str] | None) -> Path | None:
    own = _single_line(command_line(os.getpid()))
    problem: object = None if own else "command lines of processes cannot be read here"
    for folder in run_folders(home) if own else []:
        path = folder / f"{role}-{port}.pid"
        fresh = path.with_suffix(".new")  # so that nobody reads half a file and finds it stale
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fresh.write_text(f"{os.getpid()}\n{own}\n", encoding="utf-8")
            fresh.replace(path)
        except OSError as error:
            problem = error
        else:
            return path
    log.warning(
        "no PID file, mqshutdown will not find this process role=%s port=%d error=%s",
        role,
        port,
        problem,
    )
    return None


def _single_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _read(path: Path) -> tuple[int, str] | None:
    try:
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
        return int(first), rest.strip()
    except (OSError, ValueError):
        return None


def _alive_pid(path: Path) -> int | None:
    content = _read(path)
    if content is not None:
        pid, wanted = content
        if _single_line(command_line(pid)) == wanted and wanted:
            return pid
    try:
        path.unlink()
    except OSError as error:
        log.warning("stale PID file cannot be removed path=%s error=%s", path, error)
    else:
        log.info("stale PID file removed path=%s", path)
    return None


def _remove_own(path: Path) -> None:
    """Only a file that still names this process: the next daemon on this port may have come
    already."""
    content = _read(path)
    if content is not None and content[0] == os.getpid():
        path.unlink(missing_ok=True)
