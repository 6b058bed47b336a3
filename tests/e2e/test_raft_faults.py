"""A few of the faults of ``make soak ONLY=raft_faults``: nothing that a group has acknowledged is
lost."""

from __future__ import annotations

import pytest

from .campaign import figures_of, run_campaign

FAULTS = ("one killed", "partition of one", "deaf", "disk lost")


@pytest.mark.parametrize("seed", [1])
def test_nothing_that_was_acknowledged_is_lost(seed: int) -> None:
    options = ["--short", "--load=0.5", f"--rounds={len(FAULTS)}", f"--seed={seed}"]
    options += [word for fault in FAULTS for word in ("--only", fault)]
    figures = figures_of(run_campaign("raft_faults", *options))
    assert figures["acknowledged"] > 50
    assert figures["stored"] > 50
    assert figures["faults"] == len(FAULTS)
