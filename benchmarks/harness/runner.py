"""Runs benchmarks one after the other, each in a process of its own, within a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from ..catalog import USUAL_ROUNDS, Entry, catalog
from .figures import Report, Row
from .machine import describe
from .rows import Options

_LEAVE_S = 60.0
_LEAST_ROUNDS = 2


def run_all(names: list[str], options: Options, minutes: float) -> Report:
    """What there was no time for is in the report as failed."""
    begin, known = time.monotonic(), catalog()
    machine = {**describe(), "seed": f"seed {options.seed}"}
    rows: list[Row] = []
    for name in names:
        left = minutes * 60 - (time.monotonic() - begin)
        if left < 1:
            rows.append(
                Row(benchmark=name, name=name, failed=f"not run: the {minutes:g} minutes were over")
            )
            continue
        started = time.monotonic()
        rest = sum(known[each].takes_s for each in names[names.index(name) :])
        rows += run_one(name, known[name], _within(options, rest, left), left)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return Report(machine=machine, rows=rows, seconds=time.monotonic() - begin)


def _within(options: Options, takes_s: float, left_s: float) -> Options:
    """Fewer rounds when what is to come takes longer than there is time."""
    rounds = int(USUAL_ROUNDS * left_s / takes_s) if takes_s else options.rounds
    return options._replace(rounds=min(options.rounds, max(_LEAST_ROUNDS, rounds)))


def run_one(name: str, entry: Entry, options: Options, left_s: float) -> list[Row]:
    """The rows of one benchmark; what ends it too early is a row more."""
    with tempfile.TemporaryDirectory(prefix="aiorocketmq-bench-") as folder:
        target = Path(folder) / "rows.json"
        values = json.dumps({**options._asdict(), "directory": str(options.directory or "")})
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.harness.one", name, str(target), values]
        )
        limit = min(entry.limit_s(options.rounds, _busy()), left_s)
        try:
            code = child.wait(limit)
            problem = f"ended with exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"ended after {limit:.0f} s"
        finally:
            _end(child)
        rows = msgspec.json.decode(target.read_bytes(), type=list[Row]) if target.exists() else []
        return [*rows, Row(benchmark=name, name=name, failed=problem)] if problem else rows


def _busy() -> float:
    """How many processes there are for a processor."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
