"""Opening a store with 20,000 queues: how long it takes, how long of that they are held against
what they must have, and the memory of the process, in processes of their own.

The floor is the bare look at every queue: its folder is listed, its file opened and one page read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.queues.queue_ends import KnownEnds
from aiorocketmq.store.queues.queue_survey import QueueSurvey

from .harness.figures import Row
from .store_common import HOST, PROPERTIES, TAGS_CODE, open_store, rounds, row

QUEUES = 20_000
PER_TOPIC = 8
MESSAGES = 3
SMAPS = Path("/proc/self/smaps_rollup")


def run(folder: Path, count: int) -> list[Row]:
    """Seconds and MiB."""
    root = folder / "queues"
    _child("fill", root)
    opened = [_child("open", root) for _ in range(count)]
    floor = rounds(count, lambda: _looked_at(root))
    rows = [
        row(
            f"open, {QUEUES} queues",
            "s",
            _values(opened, "open_s"),
            floor,
            "list, open, read one page of each",
        )
    ]
    rows.append(row("of it comparing", "s", _values(opened, "compare_s")))
    crashed = []
    for _ in range(count):
        (root / "abort").touch()
        crashed.append(_child("open", root))
    rows.append(
        row(
            f"open after a crash, {QUEUES} queues",
            "s",
            _values(crashed, "open_s"),
            floor,
            "the same",
        )
    )
    rows.append(row(f"anonymous memory, {QUEUES} queues", "MiB", _values(opened, "anonymous_mib")))
    rows.append(row("mapped pages of files", "MiB", _values(opened, "mapped_mib")))
    rows.append(
        row(
            "anonymous memory after one put to each",
            "MiB",
            _values(opened, "anonymous_after_puts_mib"),
        )
    )
    rows.append(row("put to a queue that is not mapped", "µs/message", _values(opened, "put_us")))
    return rows


def _values(results: list[dict[str, float]], name: str) -> list[float]:
    return [result[name] for result in results]


def _child(what: str, root: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.store_queues", what, str(root)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _memory() -> tuple[float, float]:
    """Anonymous memory and resident pages of files, MiB."""
    fields: dict[str, int] = {}
    for line in SMAPS.read_text().splitlines()[1:]:
        name, value = line.split()[:2]
        fields[name] = int(value)
    return fields["Anonymous:"] / 1024, (fields["Rss:"] - fields["Anonymous:"]) / 1024


def _put_to_each(store: Any) -> None:
    now = time.time_ns() // 1_000_000
    for number in range(QUEUES):
        topic = f"Topic-{number // PER_TOPIC}"
        result = store.put_message(
            PutMessage(topic, number % PER_TOPIC, b"x" * 128, PROPERTIES, HOST, now, now, TAGS_CODE)
        )
        assert result.size, result


def _fill(root: Path) -> dict[str, float]:
    store = open_store(root)
    for _ in range(MESSAGES):
        _put_to_each(store)
    store.close()
    return {}


def _open(root: Path) -> dict[str, float]:
    comparing_s: list[float] = []
    with patch.object(QueueSurvey, "compare", _timed(QueueSurvey.compare, comparing_s)):
        begin = time.perf_counter()
        store = open_store(root)
        result = {"open_s": time.perf_counter() - begin, "compare_s": sum(comparing_s)}
    assert len(store._table) == QUEUES
    result["anonymous_mib"], result["mapped_mib"] = _memory()
    begin = time.perf_counter()
    _put_to_each(store)
    result["put_us"] = (time.perf_counter() - begin) * 1e6 / QUEUES
    result["anonymous_after_puts_mib"], _ = _memory()
    store.close()
    return result


def _timed(
    function: Callable[[QueueSurvey, KnownEnds], None], took_s: list[float]
) -> Callable[..., None]:
    def timed(survey: QueueSurvey, known: KnownEnds) -> None:
        begin = time.perf_counter()
        function(survey, known)
        took_s.append(time.perf_counter() - begin)

    return timed


def _looked_at(root: Path) -> float:
    begin = time.perf_counter()
    for folder, _, files in os.walk(root / "consumequeue"):
        for name in files:
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.pread(fd, 4096, 0)
            os.close(fd)
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps({"fill": _fill, "open": _open}[sys.argv[1]](Path(sys.argv[2]))))
