"""The process of the job, and what it tells of itself in ``progress.jsonl``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

PATIENCE_S = 300.0
_LOOK_EVERY_S = 0.02
_LAST_LINES = 20
_REPOSITORY = Path(__file__).resolve().parents[2]

Progress = dict[str, Any]
"""What Spark tells of a micro-batch (StreamingQueryProgress)."""


class PipelineError(Exception):
    """The pipeline cannot go on; the text says why."""


def progress_of(folder: Path) -> list[Progress]:
    """Of all micro-batches so far, of all lives of the driver. A line that is being written, or
    that a kill has left half, is none."""
    path = folder / "progress.jsonl"
    found: list[Progress] = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def offsets(source: Progress, which: str) -> Counter[str]:
    """Messages of each topic before ``startOffset``, ``endOffset`` or ``latestOffset``."""
    value = source[which]
    table = json.loads(value) if isinstance(value, str) else value
    return Counter(
        {
            topic: sum(offset for queues in brokers.values() for offset in queues.values())
            for topic, brokers in (table or {}).items()
            if not topic.startswith("#")  # what else the connector keeps in a checkpoint
        }
    )


def last_of(progress: Sequence[Progress], query: str) -> Progress | None:
    """The newest micro-batch of a query."""
    return next((each for each in reversed(progress) if each["name"] == query), None)


def taken_by(progress: Sequence[Progress], query: str) -> Counter[str]:
    """How many messages of each topic a query has worked off."""
    newest = last_of(progress, query)
    sources = newest["sources"] if newest else ()
    return sum((offsets(source, "endOffset") for source in sources), Counter())


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Raises ``PipelineError`` when it does not come to that."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise PipelineError(f"{what}: not within {PATIENCE_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)


_LIVES = 3


class Driver:
    """The job, as one who supervises it runs it: a driver that ends by itself is started again, and
    goes on from its checkpoints. Whatever happens, nothing of it is left behind."""

    def __init__(self, namesrv: str, prefix: str, folder: Path) -> None:
        self._lives = _LIVES
        self._log = folder / "driver.log"
        self._command = [sys.executable, "-m", f"{__package__}.job", namesrv, prefix, str(folder)]

    def __enter__(self) -> Self:
        # Spark and Java would leave files in /tmp when they are killed; a folder in ours could have
        # too long a name for the sockets that they make.
        self._temporary = tempfile.TemporaryDirectory(prefix="aiorocketmq-")
        self._start()
        return self

    def _start(self) -> None:
        self._lives -= 1
        place = self._temporary.name
        own = {
            "TMPDIR": place,
            "SPARK_LOCAL_DIRS": place,
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={place}",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=_REPOSITORY,
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a group of its own: Python, Java and Python's workers
            )

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._temporary.cleanup()

    def kill(self) -> None:
        """SIGKILL for all of its processes at once, as when a machine is gone."""
        with contextlib.suppress(ProcessLookupError):  # all of them have ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM. Raises ``PipelineError`` when it does not end well."""
        self._process.terminate()
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise PipelineError("the driver does not stop") from None
        if code:
            raise PipelineError(f"the driver ended with exit code {code}:\n{self._last_lines()}")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """As the function; also raises ``PipelineError`` when the driver has ended too often."""

        def is_so() -> bool:
            if self._process.poll() is not None:
                if not self._lives:
                    raise PipelineError(f"{what}: the driver has ended\n{self._last_lines()}")
                print("The driver has ended by itself, and is started again.")
                self.kill()  # what it has left
                self._start()
            return condition()

        wait_until(is_so, what)

    def _last_lines(self) -> str:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-_LAST_LINES:])
