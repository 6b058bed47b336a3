"""Processes that need not import what they run: each is forked from one that has imported it
already.

Python and the imports of a broker take 0.3 s of CPU, its start after that 0.05 s; the tests start
some hundred daemons. What is forked runs ``python -m <module>`` in every other respect: a process
of its own with its own arguments, environment, directory, output, signals and exit code. That the
imports of a fresh interpreter work is seen by the tests which start one: ``e2e/test_broker.py``,
``test_namesrv.py``, ``test_compose.py``, ``test_deploy.py``, ``test_demo.py``.

Forked only on Linux: the system libraries of macOS do not take it, there every process is a new
interpreter.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, Final

_context: Final[Any] = multiprocessing.get_context(
    "forkserver" if sys.platform == "linux" else "spawn"
)
_context.set_forkserver_preload(["tests.preloaded"])


class Forked:
    """The part of ``subprocess.Popen`` that the tests of daemons use. ``program``: a module, or the
    path of a file."""

    def __init__(
        self,
        program: str | Path,
        *arguments: str,
        stdout: IO[Any],
        stderr: IO[Any],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.args = [sys.executable, "-m", str(program), *arguments]
        environment = dict(os.environ if env is None else env)
        outputs = [Connection(os.dup(file.fileno()), readable=False) for file in (stdout, stderr)]
        self._process = _context.Process(
            target=_run,
            args=(program, arguments, environment, str(cwd or Path.cwd()), *outputs),
            daemon=True,
        )
        self._process.start()
        for output in outputs:
            output.close()
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Raises ``subprocess.TimeoutExpired``."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and nobody has told us yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedOfLoop:
    """The part of ``asyncio.subprocess.Process`` that campaigns of ``benchmarks`` use."""

    def __init__(self, process: Forked) -> None:
        self._process = process
        self.pid = process.pid
        self.send_signal = process.send_signal
        self.kill = process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    async def wait(self) -> int:
        return await asyncio.to_thread(self._process.wait)


async def create_subprocess_exec(
    python: str, minus_m: str, module: str, *arguments: str, **options: Any
) -> ForkedOfLoop:
    """Instead of asyncio's, for a test that runs a campaign: ``python -m`` anything."""
    assert (python, minus_m, options.pop("stdin", subprocess.DEVNULL)) == (
        sys.executable,
        "-m",
        subprocess.DEVNULL,
    )
    return ForkedOfLoop(Forked(module, *arguments, **options))


def run(
    program: str | Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run``, with everything that it printed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = Forked(program, *arguments, stdout=out, stderr=errors, env=env, cwd=cwd)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read(), errors.read())


def _run(
    program: str | Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    cwd: str,
    out: Connection,
    err: Connection,
) -> None:
    """In the new process: be what ``python -m program arguments`` would be."""
    for output, number in ((out, 1), (err, 2)):
        os.dup2(output.fileno(), number)
        output.close()
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = [str(program), *arguments]
    if isinstance(program, Path):
        sys.path.insert(0, str(program.parent))
        runpy.run_path(str(program), run_name="__main__")
    else:
        sys.path.insert(0, cwd)
        runpy.run_module(program, run_name="__main__", alter_sys=True)
