"""How far a group has been behind, as its chart shows it: all queues together, and a line for each
of those furthest behind."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from ...remoting.protocol.bodies.stats import ConsumeStats

MOST_POINTS: Final = 300
"""A quarter of an hour while somebody looks; nobody is asked for more."""
MOST_SERIES: Final = 8
"""Queues with a line of their own at one time."""
MOST_LINES: Final = 16
"""In a chart: others may have been furthest behind before."""


class LagPoint(NamedTuple):
    """Messages behind, at one time."""

    at_ms: int
    total: int
    series: Mapping[str, int]
    """By the name of a line."""


class LagHistory:
    """The newest points of one group."""

    def __init__(self) -> None:
        self._points: Final[deque[LagPoint]] = deque(maxlen=MOST_POINTS)

    def add(self, stats: ConsumeStats, at_ms: int) -> None:
        lags = {
            queue: max(0, each.broker_offset - each.consumer_offset)
            for queue, each in stats.offset_table.items()
        }
        furthest = sorted(lags, key=lambda queue: (-lags[queue], queue))[:MOST_SERIES]
        series = {
            f"{queue.topic} {queue.broker_name} {queue.queue_id}": lags[queue]
            for queue in sorted(furthest)
        }
        self._points.append(LagPoint(at_ms, sum(lags.values()), series))

    @property
    def names(self) -> list[str]:
        """Of the lines, those first that the newest points have."""
        names = dict.fromkeys(name for point in reversed(self._points) for name in point.series)
        return list(names)[:MOST_LINES]

    def columns(self) -> str:
        """JSON of all points: times in seconds, and for each line its messages or ``null``."""
        names = self.names
        return json.dumps(
            {
                "names": names,
                "at": [point.at_ms / 1000 for point in self._points],
                "total": [point.total for point in self._points],
                "lines": [[point.series.get(name) for point in self._points] for name in names],
            }
        )

    def newest(self) -> str:
        """JSON of the last point."""
        last = self._points[-1]
        return json.dumps({"at": last.at_ms / 1000, "total": last.total, "series": last.series})
