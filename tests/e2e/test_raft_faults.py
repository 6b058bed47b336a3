"""A few of the faults of ``make soak ONLY=raft_faults``: nothing that a group has acknowledged is
lost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .cluster import PATIENCE_S

FAULTS = ("one killed", "partition of one", "deaf", "disk lost")


@pytest.mark.parametrize("seed", [1])
def test_nothing_that_was_acknowledged_is_lost(seed: int) -> None:
    options = ["--short", "--load=0.5", f"--rounds={len(FAULTS)}", f"--seed={seed}"]
    options += [word for fault in FAULTS for word in ("--only", fault)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.raft_faults", *options],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = dict(re.findall(r"^(\w+) +([\d,]+)", done.stdout, re.MULTILINE))
    assert int(figures["acknowledged"].replace(",", "")) > 50
    assert int(figures["stored"].replace(",", "")) > 50
    assert int(figures["faults"]) == len(FAULTS)
