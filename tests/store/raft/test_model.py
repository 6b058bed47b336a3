"""Members of a group keep Raft's promises whatever happens (``model.py``); ``make raft`` runs a
hundred thousand schedules. Members that break a rule do not."""

from __future__ import annotations

import pytest

from .model import Violation
from .mutations import MUTATIONS, mutated
from .schedules import run

SCHEDULES = 200
FOUND_WITHIN = 1000


def violates(seed: int) -> bool:
    try:
        run(seed)
    except Violation:
        return True
    return False


@pytest.mark.parametrize("part", range(4))
def test_promises_hold_in_any_schedule(part: int) -> None:
    """Half of them with three members, half with five; half end in peace, where all must agree."""
    for seed in range(part * SCHEDULES // 4, (part + 1) * SCHEDULES // 4):
        run(seed)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_found(name: str) -> None:
    with mutated(name):
        found = next((seed for seed in range(FOUND_WITHIN) if violates(seed)), None)
    assert found is not None
