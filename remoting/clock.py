"""Time as an argument: whoever needs the time is given a ``Clock``, so that a test can own it.
Pure; ``system_clock.py`` has the machine's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

_MOST_S: Final = 5.0
_TICK_S: Final = 1e-6
"""Sleepers may be woken so much too early."""


class Timer(Protocol):
    """A call that has not come yet."""

    def cancel(self) -> object:
        """It does not come."""
        ...


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for what is measured, and waiting."""

    def time_ms(self) -> int:
        """Milliseconds since 1970, as stamped into messages and tables."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of this clock."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call after that many seconds of this clock, on the running loop. For what waits often:
        a task that sleeps takes several turns of the loop."""
        ...


def steady_ms(clock: Clock) -> int:
    """Milliseconds that never jump: for how long ago something is, when the clock on the wall may
    be put forward meanwhile."""
    return round(clock.monotonic() * 1000)


async def pause(clock: Clock, seconds: Callable[[], float]) -> None:
    """Return when so many seconds have passed. They may change meanwhile: when they become fewer
    that is noticed within five."""
    began = clock.monotonic()
    while (left := seconds() - (clock.monotonic() - began)) > _TICK_S:
        await clock.sleep(min(left, _MOST_S))
