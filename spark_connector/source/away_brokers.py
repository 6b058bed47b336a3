"""Brokers of a stream that are away: their queues wait, others do not."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ...remoting.system_clock import BlockingClock
from ..access.errors import RangeTimeoutError
from ..access.options import SourceOptions

__all__ = ["WATCH_PAUSE_S", "AwayBrokers"]

log: Final = logging.getLogger(__name__)

WATCH_PAUSE_S: Final = 1.0
"""Before one that is away is asked again within a trigger."""


class AwayBrokers:
    """Since when. Triggers may be hours apart: who is away at two of them may have been back in
    between, and is asked for as long as it may be away before it is given up."""

    def __init__(self, options: SourceOptions, clock: BlockingClock) -> None:
        self._options = options
        self._clock = clock
        self._longest_s = options.poll_timeout_ms / 1000
        self._since: dict[str, float] = {}
        self._looked_at = float("-inf")
        self._watched: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._since)

    def begin(self, away: Iterable[str]) -> None:
        """A trigger has looked for the first time; ``away`` did not answer. Whoever did has been
        back, if nobody has looked for as long as brokers may be away."""
        now = self._clock.now()
        self._watched = set()
        if now - self._looked_at >= self._longest_s:
            self._watched = self._since.keys() & set(away)
            self._since = dict.fromkeys(self._watched, now)
        self._looked_at = now

    def are_watched(self, away: Iterable[str]) -> bool:
        """Whether brokers are to be asked again in this trigger, as ``away`` are."""
        now = self._looked_at = self._clock.now()
        self._watched &= set(away)
        return self._options.fail_on_data_loss and any(
            now - self._since[name] < self._longest_s for name in self._watched
        )

    def check(self, away: Mapping[str, str]) -> None:
        """``away``: all that are away now, with the reason. Raises ``RangeTimeoutError`` for one
        that stays away for too long (not with ``failOnDataLoss=false``)."""
        now = self._clock.now()
        for name in away.keys() - self._since.keys():
            log.warning("the broker %s is away, its queues wait: %s", name, away[name])
        self._since = {name: self._since.get(name, now) for name in away}
        if not self._options.fail_on_data_loss:
            return
        for name, since in self._since.items():
            if now - since >= self._longest_s:
                raise RangeTimeoutError(
                    f"the broker {name} is away for {now - since:.0f} s now "
                    f"(rocketmqConsumer.pollTimeoutMs): {away[name]}"
                )
