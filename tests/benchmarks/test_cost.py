"""No request holds the event loop of a daemon for long: the dearest frames of every code, in small.

``python -m benchmarks.cost`` measures it in full, against 50 ms. Here the bound is wide, and it is
CPU time: it tells what is done at once from what is done in slices or refused.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.cost import costs
from benchmarks.cost_world import SMALL, World, timed_handles
from benchmarks.dear_frames import dear_frames

BOUND_S = 0.3


def test_no_frame_holds_the_loop(tmp_path: Path) -> None:
    """A packed registration of 200,000 topics took 0.5 s."""
    with timed_handles(), World(tmp_path, SMALL) as world:
        found = list(costs(world, dear_frames(max_body=1 << 20, values=False)))
    assert len({cost.frame.code for cost in found}) > 80
    assert [str(cost) for cost in found if cost.seconds > BOUND_S] == []
