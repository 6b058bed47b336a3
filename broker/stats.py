"""What a broker counts (classes StoreStatsService, BrokerStats; ``broker-services.md`` §10).

Counters are plain slots that the processors add to; nothing is computed per message. Once a second ``StatsSampler`` takes
a ``Sample``, and rates are differences of samples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from ..remoting.clock import Clock

WINDOWS_S: Final = (10, 60, 600)
"""The three rates that every ``...Tps`` value shows."""

PUT_TIME_BOUNDS_MS: Final = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
_PUT_TIME_NAMES: Final = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]", "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip


class BrokerStats:
    """The counters since start.

    ``put_messages``, ``put_bytes``, ``put_failed``: messages stored, their bytes in the commit log, sends that were not.
    ``get_found``, ``get_miss``: pulls that found something and that did not. ``get_messages``: messages handed out.
    """

    __slots__ = (
        "get_bytes",
        "get_found",
        "get_messages",
        "get_miss",
        "put_bytes",
        "put_failed",
        "put_messages",
        "put_time_max_ms",
        "send_back_messages",
    )

    def __init__(self) -> None:
        self.put_messages = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.put_time_max_ms = 0
        self.get_found = 0
        self.get_miss = 0
        self.get_messages = 0
        self.get_bytes = 0
        self.send_back_messages = 0


class Sample(NamedTuple):
    """The counters at one moment."""

    monotonic: float
    put_messages: int
    get_found: int
    get_miss: int
    get_messages: int


class Rates(NamedTuple):
    """Per second over one window; ``None`` where the broker is younger than the window."""

    put: float
    get_found: float
    get_miss: float
    get_messages: float


class StatsSampler:
    """Service: takes a sample every second and keeps ten minutes of them."""

    def __init__(self, stats: BrokerStats, clock: Clock) -> None:
        self._stats = stats
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=WINDOWS_S[-1] + 1)

    async def run(self) -> None:
        while True:
            self.sample()
            await self._clock.sleep(1.0)

    def sample(self) -> None:
        """Remember the counters of now."""
        stats = self._stats
        self._samples.append(
            Sample(self._clock.monotonic(), stats.put_messages, stats.get_found, stats.get_miss, stats.get_messages)
        )

    def rates(self) -> list[Rates | None]:
        """One entry per window, between the newest sample and the one that many samples before."""
        return [rates_over(self._samples, seconds) for seconds in WINDOWS_S]


def rates_over(samples: Sequence[Sample], count: int) -> Rates | None:
    """The rates between the newest sample and the one ``count`` before it; ``None`` when there is none."""
    if len(samples) <= count:
        return None
    old, new = samples[-count - 1], samples[-1]
    seconds = new.monotonic - old.monotonic
    if seconds <= 0:
        return None
    return Rates(*((after - before) / seconds for before, after in zip(old[1:], new[1:], strict=True)))


def rates_text(rates: Sequence[Rates | None], field: str) -> str:
    """``1.2 0.9 `` as the tools show it: three numbers, nothing where a window is not full yet."""
    return " ".join("" if each is None else str(getattr(each, field)) for each in rates)
