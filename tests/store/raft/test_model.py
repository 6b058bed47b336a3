"""Members of a group keep Raft's promises whatever happens (``model.py``); ``make raft`` runs a
hundred thousand schedules."""

from __future__ import annotations

import pytest

from .model import run

SCHEDULES = 200


@pytest.mark.parametrize("part", range(4))
def test_promises_hold_in_any_schedule(part: int) -> None:
    """Half of them with three members, half with five; half end in peace, where all must agree."""
    for seed in range(part * SCHEDULES // 4, (part + 1) * SCHEDULES // 4):
        run(seed, 3 if seed % 2 else 5, heal=seed % 4 < 2)
