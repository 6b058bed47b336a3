"""Growing holds no event loop for long, in small: ``python -m benchmarks.growth`` measures it in
full, against 50 ms."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cost_world import World, timed_handles
from benchmarks.growth import EMPTY, connected, grow, growth

from .test_cost import BOUND_S


def test_daemons_that_grow_serve_meanwhile(tmp_path: Path) -> None:
    with timed_handles(), World(tmp_path, EMPTY) as world, connected(world) as peers:
        found = [
            (step.what, grow(world, peers[step.daemon], step, services_s=0))
            for step in growth(topics=1000, queues=400, groups=1000)
        ]
    assert len(found) == 9
    assert [each for each in found if each[1] > BOUND_S] == []
