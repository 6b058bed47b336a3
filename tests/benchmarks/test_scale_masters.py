"""Masters side by side: all take their share, and the table says what each number of them came
to."""

import re

import pytest

from benchmarks.scale_masters import Figures, main, table


def test_one_and_two_are_measured_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--masters", "1", "2", "--seconds", "0.05", "--rounds", "1"])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    one, two = (row for row in rows if re.fullmatch(r"\d+", row[0]))
    assert (one[0], two[0]) == ("1", "2")
    assert [len(row[2].split(", ")) for row in (one, two)] == [1, 2]
    for row in (one, two):
        of_each = [float(text.replace(",", "")) for text in row[2].split(", ")]
        assert min(of_each) > 0
        assert float(row[1].replace(",", "")) == pytest.approx(sum(of_each), abs=2)


def test_the_best_round_counts() -> None:
    rounds = [
        Figures(1, (100.0,), 4.0, 1.0),
        Figures(2, (90.0, 90.0), 4.0, 1.0),
        Figures(1, (200_000.0,), 3.5, 0.5),
        Figures(2, (80.0, 70.0), 4.0, 1.0),
    ]
    assert table(rounds)[-2:] == [
        "| 1 | 200,000 | 200,000 | 3.50 | 0.50 | 0.80 |",
        "| 2 | 180 | 90, 90 | 4.00 | 1.00 | 0.00 |",
    ]
    assert "best of 2 rounds in turn" in table(rounds)[0]
