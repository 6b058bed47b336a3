"""What a pause of a campaign consisted of: what was done to whom, and what the daemons logged in
the meantime.

Times are those of the system's clock, seconds: the daemons' logs have no other. So a line of any
log finds its place between two events here, to the millisecond.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Pause", "Pauses", "Timeline"]

_STEPS: Final = re.compile(
    r"^(\S+) \S+ +\S+ ((?:store opened|broker ready|name server ready|not "
    r"registered|registered|slave connected|slave gone|"
    r"following the master|not following|member is|this broker is).*)",
    re.MULTILINE,
)
"""Of a daemon's log: what it has to do before it serves, with the time."""
_WIDTH: Final = 110
_MOST: Final = 3
_MOST_STEPS: Final = 40


class Pause(NamedTuple):
    """No event of its kind between ``begin`` and ``end``."""

    begin: float
    end: float
    failures: Counter[str]
    """What was tried meanwhile, by how it failed."""

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class Pauses:
    """The longest times between two events of a kind."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.longest: list[Pause] = []
        """At most three, the longest first."""
        self._clock = clock
        self._last: float | None = None
        self._failures: Counter[str] = Counter()

    @property
    def longest_s(self) -> float:
        return self.longest[0].seconds if self.longest else 0.0

    def event(self) -> None:
        """It has happened."""
        now = self._clock()
        if self._last is not None and (
            len(self.longest) < _MOST or now - self._last > self.longest[-1].seconds
        ):
            pause = Pause(self._last, now, self._failures)
            self.longest = sorted([*self.longest, pause], key=lambda each: -each.seconds)[:_MOST]
        self._last = now
        if self._failures:
            self._failures = Counter()

    def failed(self, how: str) -> None:
        """It was tried in vain."""
        self._failures[how] += 1

    def begin(self) -> None:
        """It is waited for from now on: what came before was the campaign's own doing."""
        self._last, self._failures = self._clock(), Counter()


class Timeline:
    """What the campaign did, and with the logs of its daemons what came of it."""

    def __init__(self, logs: Mapping[str, Path], clock: Callable[[], float] = time.time) -> None:
        """``logs``: file by name of the daemon."""
        self._logs = logs
        self._clock = clock
        self._events: list[tuple[float, str]] = []

    def note(self, event: str) -> None:
        """It happens now."""
        self._events.append((self._clock(), event))

    def lines(self, pause: Pause, end: str) -> Iterator[str]:
        """To read: the pause, then each step with the seconds since its beginning, then its
        ``end``."""
        yield (
            f"{pause.seconds:>9.2f} s from "
            f"{datetime.fromtimestamp(pause.begin, UTC).isoformat(' ', 'milliseconds')}:"
        )
        steps = sorted(
            step for step in self._steps() if pause.begin - 0.001 <= step[0] <= pause.end
        )
        for at, text in steps[:_MOST_STEPS]:
            yield f"{at - pause.begin:+9.2f}   {text[:_WIDTH]}"
        if len(steps) > _MOST_STEPS:
            yield f"            ... and {len(steps) - _MOST_STEPS} steps more"
        failures = ", ".join(f"{count:,} {how}" for how, count in pause.failures.most_common())
        yield f"{pause.seconds:+9.2f}   {end}; in vain meanwhile: {failures or 'nothing was tried'}"

    def _steps(self) -> Iterator[tuple[float, str]]:
        yield from self._events
        for name, path in self._logs.items():
            for found in _STEPS.finditer(path.read_text(errors="replace") if path.exists() else ""):
                yield (
                    datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp(),
                    f"{name}: {found[2]}",
                )
