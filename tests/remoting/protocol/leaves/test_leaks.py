"""A million calls of every leaf, right and wrong ones, leave nothing behind."""

from __future__ import annotations

import gc
import random
import sys

import pytest

from .both import compiled_leaves, outcome

compiled_leaves()

from .fuzz import MILLION, Target, mutated, targets  # noqa: E402 - it needs them

_SPARE = 200
"""Blocks that a process may have more or fewer anyway. A leak in one of a thousand calls makes five times as many."""


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_a_million_calls(target: Target) -> None:
    chance = random.Random(7)
    inputs = [*target.seeds, *(mutated(seed, chance) for seed in target.seeds for _ in range(500))]
    leaf, rounds = target.leaf, MILLION // len(inputs) + 1
    for data in inputs:
        outcome(leaf, data)
    before = _blocks()
    for _ in range(rounds):
        for data in inputs:
            leaf(data)
    assert abs(_blocks() - before) < _SPARE


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()
