"""Answers to senders that wait until their messages are committed. Pure.

No future and no task per message: a commit completes a group of them in one go. They wait in the
order of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from ...store.model.status import PutStatus

Done = Callable[[PutStatus], None]


class CommitWaiters:
    def __init__(self, timeout_ms: int) -> None:
        """``timeout_ms``: how long one may wait."""
        self._timeout_ms: Final = timeout_ms
        self._waiters: deque[tuple[int, int, Done]] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def deadline_ms(self) -> int | None:
        """When the first of them has waited too long."""
        return self._waiters[0][1] if self._waiters else None

    def add(self, phy_offset: int, now_ms: int, done: Done) -> None:
        """``done`` is called with PUT_OK when all that ends at or before ``phy_offset`` is
        committed, else with what ``expire`` or ``fail`` was told."""
        self._waiters.append((phy_offset, now_ms + self._timeout_ms, done))

    def oldest_wait_ms(self, now_ms: int) -> int:
        """How long the first of them has waited."""
        return now_ms - self._waiters[0][1] + self._timeout_ms if self._waiters else 0

    def committed(self, phy_offset: int) -> None:
        """All that ends there is committed."""
        waiters = self._waiters
        while waiters and waiters[0][0] <= phy_offset:
            waiters.popleft()[2](PutStatus.PUT_OK)

    def expire(self, now_ms: int, status: PutStatus) -> None:
        """Tell those who have waited too long. Their messages may be committed later."""
        waiters = self._waiters
        while waiters and waiters[0][1] <= now_ms:
            waiters.popleft()[2](status)

    def fail(self, status: PutStatus) -> None:
        """Tell all of them."""
        waiters = self._waiters
        while waiters:
            waiters.popleft()[2](status)
