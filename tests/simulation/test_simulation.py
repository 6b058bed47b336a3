"""Clusters from seeds: what was promised holds, the same seed is the same to the byte, and what
breaks a promise is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .planted import DEFECTS
from .planted.__main__ import find
from .seeds import run_seed


@pytest.mark.parametrize("seed", range(1, 21))
def test_what_was_promised_holds(seed: int) -> None:
    verdict = run_seed(seed)
    assert verdict.broken == [], "\n".join(verdict.events)
    assert verdict.delivered > 0 or not verdict.acknowledged


def test_a_seed_is_the_same_in_another_process() -> None:
    """Whatever its hashes are. (Not in this one: numbers of messages go on from earlier tests.)"""
    command = "from tests.simulation.seeds import run_seed; print(run_seed(4).digest)"
    found = [
        subprocess.run(
            [sys.executable, "-c", command],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert found[0] == found[1] != ""


def test_what_a_planted_defect_takes_the_place_of_is_there() -> None:
    """The code goes on under it."""
    assert [each.what for each in DEFECTS if not hasattr(each.of, each.name)] == []


@pytest.mark.parametrize("seed", [11])
def test_a_planted_defect_is_found(seed: int) -> None:
    """Soon from the first seed that finds it (``python -m tests.simulation.planted`` has all). What
    other tests leave in a process may make another world of a seed."""
    [number] = [n for n, each in enumerate(DEFECTS) if each.what == "sends are answered at once"]
    assert "was acknowledged" in find(number, most=10, first=seed).broken
