"""Sums and rates over the last minute, hour and day (classes BrokerStatsManager, StatsItem;
``broker-services.md`` §10).

Nothing is added per message for this: every ten seconds a snapshot of each counter that ever
counted is taken, a few hundred per turn of the loop. A window is the difference between its newest
and its oldest snapshot:

======  ==================  =========
window  a snapshot every    keeps
======  ==================  =========
minute  10 s                7
hour    10 min              7
day     1 h                 25
======  ==================  =========
"""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from ...remoting.clock import Clock, steady_ms
from ...remoting.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from ...remoting.slices import Steps

TICK_S: Final = 10
_AT_ONCE: Final = 128

Count = tuple[str, str, int, int]
"""Name, key, what was counted since the start, and in how many calls."""
Source = Callable[[], Iterable[Count]]
"""May be a generator; other code runs, and changes tables, between its steps."""


class Window(NamedTuple):
    ticks: int
    keeps: int


MINUTE: Final = Window(1, 7)
HOUR: Final = Window(60, 7)
DAY: Final = Window(360, 25)
_WINDOWS: Final = (MINUTE, HOUR, DAY)


class Series(msgspec.Struct, eq=False):
    """The snapshots of one counter, per window one array of ``time_ms, value, calls`` over and
    over: there may be many. The time is one that never jumps (``steady_ms``): a rate is per second.

    ``seen`` is the tick at which the counter was there last.
    """

    seen: int = 0
    snapshots: tuple[array[int], array[int], array[int]] = msgspec.field(
        default_factory=lambda: (array("q"), array("q"), array("q"))
    )

    @property
    def counted(self) -> int:
        """At the last tick: the minute has a snapshot at each."""
        minute = self.snapshots[0]
        return minute[-2] if minute else 0

    def take(self, window: int, time_ms: int, value: int, calls: int) -> None:
        kept, (ticks, keeps) = self.snapshots[window], _WINDOWS[window]
        if not kept:
            kept.extend((time_ms - ticks * TICK_S * 1000, 0, 0))
        kept.extend((time_ms, value, calls))
        if len(kept) > 3 * keeps:
            del kept[:3]

    def data(self) -> BrokerStatsData:
        minute, hour, day = (item_of(kept) for kept in self.snapshots)
        return BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)


def item_of(snapshots: array[int]) -> BrokerStatsItem:
    """Between the oldest and the newest snapshot; zeros before there are two."""
    if len(snapshots) < 6:
        return BrokerStatsItem()
    span_ms, total, calls = (
        last - first for first, last in zip(snapshots[:3], snapshots[-3:], strict=True)
    )
    return BrokerStatsItem(
        sum=total,
        tps=total * 1000 / span_ms if span_ms > 0 else 0.0,
        avgpt=total / calls if calls > 0 else 0.0,
    )


class StatsWindows:
    """Service: takes the snapshots. ``sources`` say what is counted; a counter that none names any
    more is forgotten."""

    def __init__(self, clock: Clock, sources: Iterable[Source]) -> None:
        self._clock = clock
        self._sources = list(sources)
        self._series: dict[tuple[str, str], Series] = {}
        self._tick = 0

    def __len__(self) -> int:
        return len(self._series)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            await self.sample()

    async def sample(self) -> None:
        """One tick, with other work in between."""
        for index, _ in enumerate(self.steps(), 1):
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def steps(self) -> Iterator[None]:
        """One tick, a counter per step."""
        self._tick += 1
        tick, now_ms = self._tick, steady_ms(self._clock)
        due = [index for index, window in enumerate(_WINDOWS) if tick % window.ticks == 0]
        for source in self._sources:
            for name, key, value, calls in source():
                series = self._series.get((name, key))
                if series is None or value < series.counted:
                    # the second: its topic was deleted and made again since
                    if not value:
                        continue
                    series = self._series[name, key] = Series()
                series.seen = tick
                for index in due:
                    series.take(index, now_ms, value, calls)
                yield
        for each in list(self._series):
            if self._series[each].seen != tick:
                del self._series[each]
            yield

    def data(self, name: str, key: str) -> Steps[BrokerStatsData | None]:
        """``None`` for what was never counted; zeros for what was counted since the last tick
        only."""
        series = self._series.get((name, key))
        if series is not None:
            return series.data()
        counts = itertools.chain.from_iterable(source() for source in self._sources)
        for index, (counted_name, counted_key, value, _) in enumerate(counts, 1):
            if value and counted_key == key and counted_name == name:
                return Series().data()
            if index % _AT_ONCE == 0:
                yield
        return None

    def tps(self, name: str, key: str) -> float:
        """Per second over the last minute."""
        series = self._series.get((name, key))
        return 0.0 if series is None else item_of(series.snapshots[0]).tps
