"""Benchmarks in small: rows come out, with the C parts and without. How fast anything is is not
looked at."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def run(tmp_path: Path, *words: str, **environment: str) -> dict[str, dict[str, object]]:
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        *words,
        "--small",
        "--rounds",
        "1",
        "--seconds",
        "0.05",
    ]
    done = subprocess.run(
        [*command, "--directory", str(tmp_path), "--json"],
        cwd=REPOSITORY, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return {row["name"]: row for row in json.loads(done.stdout)["rows"]}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="without gcc there are no C parts")
def test_rows_have_figures_and_a_floor(tmp_path: Path) -> None:
    only = ("--only", "mixed", "--only", "half and commit", "--only", "wake")
    rows = run(tmp_path, "pull", "transaction", "wake_up", *only)
    assert {
        "pull 32 x 128 B, mixed queues",
        "half and commit, 32x1",
        "wake-up of a held pull",
    } <= set(rows)
    for name, row in rows.items():
        cpu = row["figures"]["cpu"]  # type: ignore[index]
        assert cpu["ours"][0] > 0, name
        assert cpu["floor"][0] > 0, name
        assert row["floor_is"] == "a server in C, the same exchange"
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_python_does_it(tmp_path: Path) -> None:
    only = ("--only", "of 32", "--only", "half and commit", "--only", "wake")
    rows = run(tmp_path, "batch", "transaction", "wake_up", *only, AIOROCKETMQ_BENCH_NO_GCC="1")
    assert set(rows) == {"batches of 32, 8x4", "half and commit, 32x1", "wake-up of a held pull"}
    for name, row in rows.items():
        assert row["figures"]["cpu"]["ours"][0] > 0, name  # type: ignore[index]
    assert (
        rows["batches of 32, 8x4"]["floor_is"]
        == "a Python server that only cuts frames (no compiler here)"
    )


def test_what_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    """Standard output stays a report; the exit code says that something is missing."""
    program = (
        "import sys, benchmarks.route, benchmarks.harness.one as one\n"
        "def broken(*_): raise OSError('no name server today')\n"
        "benchmarks.route.name_server = broken\n"
        "one.main()\n"
    )
    target = tmp_path / "rows.json"
    options = json.dumps(
        {"rounds": 1, "seconds": 0.05, "directory": str(tmp_path), "only": [], "small": True}
    )
    command = [sys.executable, "-c", program, "route", str(target), options]
    subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=60, check=True)
    [row] = json.loads(target.read_text())
    assert row["failed"] == "OSError: no name server today"
