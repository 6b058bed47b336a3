"""How long a benchmark may take before it is ended."""

from __future__ import annotations

import pytest

from benchmarks.catalog import USUAL_ROUNDS, Entry


@pytest.mark.parametrize(
    ("rounds", "busy", "limit_s"),
    [
        (USUAL_ROUNDS, 0.2, 90),
        (1, 1, 90),
        (2 * USUAL_ROUNDS, 1, 120),
        (USUAL_ROUNDS, 7, 270),
        (2 * USUAL_ROUNDS, 7, 480),
    ],
)
def test_more_rounds_and_other_work_take_longer(rounds: int, busy: float, limit_s: float) -> None:
    assert Entry("send:run", "Broker", 10).limit_s(rounds, busy) == limit_s
