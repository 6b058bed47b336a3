"""How fast a consumer is, by topic (client.md §4.12; class ConsumerStatsManager).

Counters only grow; every ten seconds their state is noted. A rate is the difference between the
newest note and that of a minute ago; where nothing happened in that minute the hour counts for how
long handlers take, as in the original.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from ...remoting.clock import Clock
from ...remoting.protocol.bodies.running_info import ConsumeStatus

SAMPLE_INTERVAL: Final = 10.0
_MINUTE: Final = 6
_HOUR: Final = 360


class TopicStats:
    """What was done for one topic since the start."""

    __slots__ = ("calls", "consumed", "failed", "pull_seconds", "pulled", "pulls", "seconds")

    def __init__(self) -> None:
        self.pulls: int = 0
        """Those that brought something."""
        self.pulled: int = 0
        """Messages."""
        self.pull_seconds: float = 0.0
        self.calls: int = 0
        """Of the handler."""
        self.seconds: float = 0.0
        """In the handler."""
        self.consumed: int = 0
        self.failed: int = 0

    def handled(self, messages: int, seconds: float, failure: BaseException | None) -> None:
        """A call of the handler has ended."""
        self.calls += 1
        self.seconds += seconds
        if failure is None:
            self.consumed += messages
        else:
            self.failed += messages


class _Note(NamedTuple):
    """The counters at a time (monotonic seconds)."""

    now: float
    pulls: int = 0
    pulled: int = 0
    pull_seconds: float = 0.0
    calls: int = 0
    seconds: float = 0.0
    consumed: int = 0
    failed: int = 0


class ConsumeStats:
    """The topics of one consumer, and their last hour."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicStats] = {}
        self._notes: dict[str, deque[_Note]] = {}

    def of(self, topic: str) -> TopicStats:
        return self._topics.setdefault(topic, TopicStats())

    async def run(self, clock: Clock) -> None:
        """Service."""
        while True:
            self.note(clock.monotonic())
            await clock.sleep(SAMPLE_INTERVAL)

    def note(self, now: float) -> None:
        """``now``: monotonic seconds."""
        for topic, t in self._topics.items():
            notes = self._notes.setdefault(topic, deque((_Note(now),), maxlen=_HOUR + 1))
            notes.append(
                _Note(
                    now, t.pulls, t.pulled, t.pull_seconds, t.calls, t.seconds, t.consumed, t.failed
                )
            )

    def status(self) -> dict[str, ConsumeStatus]:
        """Rates by topic."""
        return {topic: _status(notes) for topic, notes in self._notes.items()}


def _status(notes: deque[_Note]) -> ConsumeStatus:
    last, first, hour = notes[-1], notes[max(0, len(notes) - 1 - _MINUTE)], notes[0]
    seconds = last.now - first.now
    calls, spent = last.calls - first.calls, last.seconds - first.seconds
    if not calls:
        calls, spent = last.calls - hour.calls, last.seconds - hour.seconds
    return ConsumeStatus(
        pull_rt=_ratio(1000 * (last.pull_seconds - first.pull_seconds), last.pulls - first.pulls),
        pull_tps=_ratio(last.pulled - first.pulled, seconds),
        consume_rt=_ratio(1000 * spent, calls),
        consume_ok_tps=_ratio(last.consumed - first.consumed, seconds),
        consume_failed_tps=_ratio(last.failed - first.failed, seconds),
        consume_failed_msgs=last.failed - hour.failed,
    )


def _ratio(total: float, count: float) -> float:
    return round(total / count, 3) if count else 0.0
