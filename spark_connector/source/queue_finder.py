"""Which queues a stream reads at present, looked for from time to time."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, Protocol

from ...remoting.errors import RemotingError, SystemBusy
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.system_clock import BlockingClock
from ..access.options import SourceOptions
from .away_brokers import WATCH_PAUSE_S
from .positions import OffsetAccess, find_queues

__all__ = ["FinderAccess", "QueueFinder"]

log: Final = logging.getLogger(__name__)


class FinderAccess(OffsetAccess, Protocol):
    """What has to be asked (``BrokerAccess``)."""

    def registered_brokers(self) -> set[str]: ...


class QueueFinder:
    """Of one running query. A name server that is away for a while takes nothing away."""

    def __init__(self, options: SourceOptions, access: FinderAccess, clock: BlockingClock) -> None:
        self._options = options
        self._access = access
        self._clock = clock
        self._queues: list[MessageQueue] = []
        self._longest_s = options.poll_timeout_ms / 1000
        self._look_again_at = self._looked_at = float("-inf")
        self._away_since: float | None = None
        """When no name server answered for the first time, since one did."""

    def first(self) -> list[MessageQueue]:
        """Of a new query: raises ``ConfigError`` for what was named and is not there."""
        self._queues = find_queues(self._options, self._access, must_exist=True)
        return self._queues

    def find(self, *, now: bool = False) -> list[MessageQueue]:
        """The queues there are; asked for every ``newQueuePollInterval``, or now. Those that are
        known do while nobody can tell."""
        time_s = self._clock.now()
        if now or time_s >= self._look_again_at:
            is_watched = (
                self._away_since is not None and time_s - self._looked_at >= self._longest_s
            )
            if is_watched:  # one may have answered in between: two triggers are no outage
                self._away_since = time_s
            while not self._look() and is_watched:
                self._clock.sleep(WATCH_PAUSE_S)
            self._looked_at = self._clock.now()
            self._look_again_at = self._looked_at + self._options.route_interval_ms / 1000
        return self._queues

    def _look(self) -> bool:
        """Whether a name server answers. Raises when none has for too long."""
        try:
            self._queues = find_queues(self._options, self._access, must_exist=False)
        except (RemotingError, SystemBusy) as error:
            time_s = self._clock.now()
            self._away_since = since = time_s if self._away_since is None else self._away_since
            if not self._queues or time_s - since >= self._longest_s:
                raise
            log.warning("new queues were not looked for: %s", error)
            return False
        self._away_since = None
        return True

    @property
    def is_sure(self) -> bool:
        """A name server answered when queues were looked for the last time."""
        return self._away_since is None

    def brokers(self, queues: Iterable[MessageQueue] = ()) -> set[str]:
        """Those that are registered, and those of ``queues``. Only these while no name server
        answers: then nobody can tell that something is gone."""
        names = {queue.broker_name for queue in queues}
        try:
            return names | self._access.registered_brokers()
        except (RemotingError, SystemBusy) as error:
            log.warning("brokers were not asked for: %s", error)
            return names
