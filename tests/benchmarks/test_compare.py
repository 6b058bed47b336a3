"""What counts as a change between two runs, and what does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare import changed, compare, lines

COMPARE = Path(__file__).resolve().parents[2] / "benchmarks" / "compare.py"


def figure(*ours: float, floor: tuple[float, ...] = (), more: bool = False) -> dict[str, Any]:
    return {"unit": "µs", "ours": list(ours), "floor": list(floor), "more_is_better": more}


def report(**figures: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {"benchmark": "send", "name": name, "figures": {"cpu": each}}
        for name, each in figures.items()
    ]
    return {"machine": {}, "rows": rows, "seconds": 1.0}


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [
        (figure(10, 11, 12), figure(5, 5.5, 6), 1.0),
        (figure(10, 11, 12), figure(20, 21, 22), -0.5),
        (figure(100, 90, more=True), figure(200, 190, more=True), 1.0),
        (figure(100, 90, more=True), figure(50, 45, more=True), -0.5),
    ],
    ids=["faster", "slower", "more", "less"],
)
def test_what_lies_apart_has_changed(
    old: dict[str, Any], new: dict[str, Any], share: float
) -> None:
    change = changed("send", old, new)
    assert change is not None
    assert change.share == pytest.approx(share)
    assert not change.machine


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (figure(10, 12, 14), figure(11, 13, 15)),  # the better halves overlap
        (figure(10, 10.1), figure(9.8, 9.85)),  # apart, but by 2 %
        (figure(10, 10, 10), figure(10, 10, 10)),
        (figure(), figure(10)),
        (figure(0.0, 0.0), figure(1.0, 2.0)),
    ],
    ids=["noise", "little", "same", "nothing before", "zero"],
)
def test_what_may_be_noise_has_not(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert changed("send", old, new) is None


def test_one_disturbed_round_changes_nothing() -> None:
    """Only the better half of the rounds counts."""
    assert changed("send", figure(10, 10.2, 10.3), figure(10.1, 10.2, 90)) is None
    assert changed("send", figure(10, 10.2, 10.3), figure(5, 5.1, 90)) is not None


def test_a_floor_that_changed_alike_means_the_machine() -> None:
    old, new = figure(10, 10.1, floor=(5, 5.1)), figure(15, 15.1, floor=(7.5, 7.6))
    change = changed("send", old, new)
    assert change is not None
    assert change.machine


def test_a_floor_that_stayed_means_us() -> None:
    change = changed("send", figure(10, 10.1, floor=(5, 5.1)), figure(15, 15.1, floor=(5, 5.1)))
    assert change is not None
    assert not change.machine


def test_the_worst_change_stands_first_and_the_machine_last() -> None:
    old = report(
        a=figure(10, 10), b=figure(10, 10), c=figure(10, 10, floor=(1, 1)), d=figure(10, 10)
    )
    new = report(a=figure(5, 5), b=figure(30, 30), c=figure(20, 20, floor=(2, 2)), d=figure(10, 10))
    found = compare(old, new)
    assert [change.name for change in found.changes] == [
        "send: b, cpu",
        "send: a, cpu",
        "send: c, cpu",
    ]
    assert found.same == 1


def test_rows_that_only_one_run_has_are_named() -> None:
    failed = {"benchmark": "send", "name": "b", "failed": "refused"}
    old, new = report(a=figure(1)), report(a=figure(1))
    old["rows"].append({"benchmark": "send", "name": "b", "figures": {"cpu": figure(1)}})
    new["rows"].append(failed)
    found = compare(old, new)
    assert found.missing == ["send: b"]
    assert "only in one of them: send: b" in list(lines(found))


@pytest.mark.parametrize(
    ("factor", "code"), [(1.0, 0), (2.0, 1), (0.5, 0)], ids=["same", "worse", "better"]
)
def test_the_command_ends_with_one_when_something_is_worse(
    tmp_path: Path, factor: float, code: int
) -> None:
    for name, by in (("old", 1.0), ("new", factor)):
        (tmp_path / name).write_text(json.dumps(report(a=figure(10 * by, 10.1 * by))))
    command = [sys.executable, str(COMPARE), "old", "new"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
