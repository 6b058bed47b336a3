"""What the answers of a SYNC_MASTER wait for: that slaves have acknowledged the message (class
GroupTransferService; ha.md §5). Pure: the time (seconds) goes in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from ..model.status import PutStatus


class ReplicaAcks:
    """Sends that wait until slaves have them: no future and no task, a group completes in one go.

    ``confirmed`` is what ``in_sync_replicas`` slaves have; it never shrinks, for what a slave has
    had it keeps.
    """

    def __init__(self, in_sync_replicas: int, fall_behind_max: int, timeout_s: float) -> None:
        self.confirmed: int = 0
        self._wanted: Final = max(1, in_sync_replicas)
        self._fall_behind_max: Final = fall_behind_max
        self._timeout_s: Final = timeout_s
        self._replicas = 0
        self._waiters: deque[tuple[int, float, Callable[[PutStatus], None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return len(self._waiters)

    def oldest_wait_s(self, now: float) -> float:
        """How long the oldest of them has waited."""
        return now - self._waiters[0][1] + self._timeout_s if self._waiters else 0.0

    def when_acked(self, phy_offset: int, now: float, done: Callable[[PutStatus], None]) -> None:
        """Call ``done`` with PUT_OK once slaves have everything below ``phy_offset``, with
        FLUSH_SLAVE_TIMEOUT when that takes too long, and at once with SLAVE_NOT_AVAILABLE when
        there are not enough slaves or they are too far behind.
        """
        if phy_offset <= self.confirmed:
            done(PutStatus.PUT_OK)
        elif self._replicas < self._wanted or phy_offset - self.confirmed >= self._fall_behind_max:
            done(PutStatus.SLAVE_NOT_AVAILABLE)
        else:
            self._waiters.append((phy_offset, now + self._timeout_s, done))

    def update(self, acked: Iterable[int]) -> None:
        """What the slaves that are connected now have acknowledged; -1 for those that have not said
        anything yet."""
        known = sorted((offset for offset in acked if offset >= 0), reverse=True)
        self._replicas = len(known)
        if self._replicas < self._wanted:
            return
        self.confirmed = max(self.confirmed, known[self._wanted - 1])
        while self._waiters and self._waiters[0][0] <= self.confirmed:
            self._tell_first(PutStatus.PUT_OK)

    def expire(self, now: float) -> None:
        """Tell those who have waited for too long."""
        while self._waiters and self._waiters[0][1] <= now:
            self._tell_first(PutStatus.FLUSH_SLAVE_TIMEOUT)

    def end(self) -> None:
        """The same at the end: nobody would tell them later."""
        while self._waiters:
            self._tell_first(PutStatus.FLUSH_SLAVE_TIMEOUT)

    def _tell_first(self, status: PutStatus) -> None:
        _, _, done = self._waiters.popleft()
        done(status)
