"""What the degradation benchmark calls good, and who makes its trouble."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, FrameError
from benchmarks.degradation.__main__ import Row, _write
from benchmarks.degradation.load import Phase, number_of
from benchmarks.degradation.peers import _nonsense
from benchmarks.degradation.steps import STEPS


def phase(per_second: float) -> Phase:
    return Phase(per_second, 1.0, 2.0, 0, 25)


def row(before: float, after: float, lost: int = 0) -> Row:
    return Row(STEPS[0], phase(before), phase(1.0), phase(after), 10, lost, {})


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (row(100, 90), None),
        (row(100, 40), "has not come back"),
        (row(100, 100, lost=1), "1 acknowledged messages are lost"),
        (row(0, 0), "nothing was acknowledged"),
    ],
)
def test_what_is_not_good(found: Row, problem: str | None) -> None:
    assert problem in " ".join(found.problems) if problem else not found.problems


def test_rows_that_were_not_run_stay(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    _write(path, [row(1, 1)])
    other = row(2, 2)._replace(step=STEPS[1])
    _write(path, [other])
    text = path.read_text()
    assert f'"{STEPS[0].name}"' in text
    assert f'"{STEPS[1].name}"' in text


def test_messages_of_the_load_have_numbers() -> None:
    assert [number_of(body) for body in (b"17:xxx", b"poison-3", b"")] == [17, -1, -1]


def test_nonsense_is_no_answer_that_a_name_server_gives() -> None:
    chance, frames, broken = random.Random(3), 0, 0
    for number in range(200):
        try:
            frames += len(FrameDecoder().feed(_nonsense(number, chance)))
        except FrameError:
            broken += 1
    assert frames
    assert broken
    assert frames + broken < 200, "sometimes there is no answer at all"
