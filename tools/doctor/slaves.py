"""Whether a slave gets to where its master was: without a threshold, it is given time instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ...remoting.clock import Clock
from .seen import Broker, whole

END: Final = "commitLogMaxOffset"
"""Of the runtime information."""
_AGAIN_S: Final = 0.2

EndOf = Callable[[str], Awaitable[int | None]]
"""The end of the log of the broker at an address; ``None``: it does not tell."""


async def bytes_behind(
    slave: Broker, brokers: Sequence[Broker], end_of: EndOf, clock: Clock, patience_s: float
) -> int:
    """What it still lacks, after so many seconds at most, of the log that its master had when it
    was looked at first; below zero: what it has more than its master has by now.

    0 for a master, for a slave without one, and where one of them does not tell.
    """
    family = (slave.cluster, slave.name)
    masters = [each for each in brokers if each.is_master and (each.cluster, each.name) == family]
    end = whole(slave.figure(END))
    goal = whole(masters[0].figure(END)) if masters else None
    if slave.is_master or end is None or goal is None:
        return 0
    if end > goal:
        later = await end_of(masters[0].server.address)
        return 0 if later is None else min(0, later - end)
    deadline = clock.monotonic() + patience_s
    while end < goal and clock.monotonic() < deadline:
        await clock.sleep(_AGAIN_S)
        end = await end_of(slave.server.address) or end
    return max(0, goal - end)
