"""User time: of the CPU time of a process what it did not spend in the system."""

from __future__ import annotations

import pytest

from benchmarks.harness import play
from benchmarks.harness.figures import figures_of
from benchmarks.harness.play import Played, measured
from benchmarks.send import SHAPES


def test_user_time_is_that_of_the_measured_window(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {"cpu_ns": 1_000_000, "user_ns": 900_000}
    for name in used:
        monkeypatch.setattr(play, name, lambda _pid, name=name: used[name])

    def run(_seconds: float) -> Played:
        used["cpu_ns"] += 3_000_000
        used["user_ns"] += 2_000_000
        return Played(1000, 1000, 0, 0.5, 1, 2, 3)

    sample = measured(run, 1, 0.5)
    assert (sample["cpu"], sample["user"]) == (3.0, 2.0)
    assert figures_of([sample], [])["user"].unit == "µs/message"


def test_sends_have_marks_for_it() -> None:
    marks = {shape.name: shape.goals["user"].mark for shape in SHAPES if "user" in shape.goals}
    assert marks == {
        "send 8x16": 1.3,
        "send 8x64": 1.1,
        "send 8x16, binary header": 1.3,
        "send 8x64, binary header": 1.1,
    }
