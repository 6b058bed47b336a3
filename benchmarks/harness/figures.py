"""Rows of figures: what a benchmark found, next to the floor of the same run, the mark to reach and
the original's figure.

Pure: values go in, best, median and JSON come out. A figure keeps all its values, one for each
round, so that a comparison of two runs (``benchmarks/compare.py``) knows how far they scatter.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

Sample = dict[str, float]
"""What one round found, by the name of the figure."""


class BenchmarkError(Exception):
    """A benchmark, or one row of it, has no result; says why."""


class Unit(NamedTuple):
    """How a figure is printed."""

    unit: str
    more_is_better: bool = False


UNITS = {
    "cpu": Unit("µs/message"),
    "user": Unit("µs/message"),
    "rate": Unit("messages/s", more_is_better=True),
    "p50": Unit("µs"),
    "p99": Unit("µs"),
    "p999": Unit("µs"),
}
"""Of the figures that most rows have; ``cpu`` is CPU time of the measured process, ``user`` the
user time among it."""


class Figure(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One quantity in several rounds. ``mark``: what it has to reach; ``mark_ratio``: how many
    times the floor at most; ``pure_mark``: what ``pure`` has to reach."""

    unit: str
    ours: list[float]
    floor: list[float] = []
    more_is_better: bool = False
    mark: float | None = None
    mark_ratio: float | None = None
    original: float | None = None
    pure: list[float] = []
    """The same without the compiled leaves."""
    pure_mark: float | None = None

    @property
    def best(self) -> float:
        return max(self.ours) if self.more_is_better else min(self.ours)

    @property
    def median(self) -> float:
        return statistics.median(self.ours)

    @property
    def floor_best(self) -> float | None:
        if not self.floor:
            return None
        return max(self.floor) if self.more_is_better else min(self.floor)

    @property
    def ratio(self) -> float | None:
        """How many times the floor; for rates, how many times less."""
        floor = self.floor_best
        if not floor or not self.best:
            return None
        return floor / self.best if self.more_is_better else self.best / floor

    @property
    def is_reached(self) -> bool | None:
        """Whether the best value reaches the mark (or the mark of the ratio); ``None`` without
        one."""
        found: list[bool] = []
        if self.mark is not None:
            found.append(self.best >= self.mark if self.more_is_better else self.best <= self.mark)
        if self.mark_ratio is not None and self.ratio is not None:
            found.append(self.ratio <= self.mark_ratio)
        return all(found) if found else None

    @property
    def pure_best(self) -> float | None:
        if not self.pure:
            return None
        return max(self.pure) if self.more_is_better else min(self.pure)

    @property
    def is_reached_pure(self) -> bool | None:
        """The same for the Python twins."""
        if self.pure_best is None or self.pure_mark is None:
            return None
        return (
            self.pure_best >= self.pure_mark
            if self.more_is_better
            else self.pure_best <= self.pure_mark
        )


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of a table. ``failed``: why there are no figures; ``note``: what else is to be
    known."""

    benchmark: str
    name: str
    figures: dict[str, Figure] = {}
    floor_is: str = ""
    failed: str = ""
    note: str = ""


class Report(msgspec.Struct, kw_only=True):
    """A whole run."""

    machine: dict[str, str]
    rows: list[Row]
    seconds: float


class Goal(NamedTuple):
    """What a figure is held against."""

    mark: float | None = None
    mark_ratio: float | None = None
    original: float | None = None
    pure_mark: float | None = None


Goals = Mapping[str, Goal]
"""By the name of the figure."""
NO_GOALS: Final[Goals] = MappingProxyType({})


def figures_of(
    ours: list[Sample],
    floor: list[Sample],
    goals: Goals = NO_GOALS,
    pure: list[Sample] | None = None,
) -> dict[str, Figure]:
    """The figures of several rounds; their units stand in ``UNITS``."""
    return {
        name: Figure(
            unit=UNITS[name].unit,
            more_is_better=UNITS[name].more_is_better,
            ours=[sample[name] for sample in ours],
            floor=[sample[name] for sample in floor if name in sample],
            pure=[sample[name] for sample in pure or ()],
            **goals.get(name, Goal())._asdict(),
        )
        for name in ours[0]
    }


def figure(unit: str, ours: list[float], floor: list[float] | None = None, **more: Any) -> Figure:
    """One in a unit of its own."""
    return Figure(unit=unit, ours=ours, floor=floor or [], **more)
