"""A million calls of every leaf, right and wrong ones, leave nothing behind."""

from __future__ import annotations

import gc
import random
import sys

import pytest

from .both import compiled_leaves, outcome

compiled_leaves()

from ....fuzzing.mutation import mutated  # noqa: E402 - as the next
from .fuzz import MILLION, Target, targets  # noqa: E402 - it needs them

_SPARE = 100
"""Blocks that a process may have more anyway. A leak in one of a thousand calls makes three times
as many in each third."""


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_a_million_calls(target: Target) -> None:
    chance = random.Random(7)
    inputs = [*target.seeds, *(mutated(seed, chance) for seed in target.seeds for _ in range(500))]
    leaf, rounds = target.leaf, MILLION // 3 // len(inputs) + 1
    for data in inputs:
        outcome(leaf, data)
    gc.collect()
    gc.freeze()  # else each look at the blocks begins with all that other tests have left: seconds
    grown = []
    for _ in range(
        3
    ):  # what else goes on in the process, left by other tests, ends; a leak does not
        before = _blocks()
        for _ in range(rounds):
            for data in inputs:
                leaf(data)
        grown.append(_blocks() - before)
    assert min(grown) < _SPARE, grown


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()
