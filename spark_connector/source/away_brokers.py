"""Brokers of a stream that are away: their queues wait, others do not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ...remoting.system_clock import BlockingClock
from ..access.errors import RangeTimeoutError
from ..access.options import SourceOptions

__all__ = ["AwayBrokers"]

log: Final = logging.getLogger(__name__)


class AwayBrokers:
    """Since when."""

    def __init__(self, options: SourceOptions, clock: BlockingClock) -> None:
        self._options = options
        self._clock = clock
        self._since: dict[str, float] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._since)

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
            if (now - since) * 1000 >= self._options.poll_timeout_ms:
                raise RangeTimeoutError(
                    f"the broker {name} is away for {now - since:.0f} s now "
                    f"(rocketmqConsumer.pollTimeoutMs): {away[name]}"
                )
