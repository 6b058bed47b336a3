"""Answers to senders that wait until their messages are committed. Pure.

No future and no task per message: a commit completes a group of them in one go. They wait in the
order of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ...store.model.status import PutStatus

Together = Callable[[list[Any], PutStatus], None]
"""Told of a group of those who wait, in their order."""
_EVERYWHERE: Final = 1 << 64


class CommitWaiters:
    """Nobody looks at the clock for each message: those of a turn of the loop have one deadline."""

    def __init__(self, timeout_ms: int) -> None:
        """``timeout_ms``: how long one may wait."""
        self._timeout_ms: Final = timeout_ms
        self._waiters: deque[tuple[int, Together, Any]] = deque()
        self.add: Final[Callable[[tuple[int, Together, Any]], None]] = self._waiters.append
        """Of ``(phy_offset, tell, who)``: when all that ends at or before ``phy_offset`` is
        committed, ``tell`` is called with those who were added with it one behind the other, and
        with PUT_OK, else with what ``expire`` or ``fail`` was told."""
        self._turns: deque[tuple[int, int]] = deque()
        """Where the last one of a turn ends, and when those of it have waited too long."""

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def deadline_ms(self) -> int | None:
        """When the first of them has waited too long."""
        return self._turns[0][1] if self._turns else None

    def begin(self, now_ms: int) -> None:
        """Those who were added since the last call wait from now on."""
        waiters, turns = self._waiters, self._turns
        if waiters and (not turns or turns[-1][0] < waiters[-1][0]):
            turns.append((waiters[-1][0], now_ms + self._timeout_ms))

    def oldest_wait_ms(self, now_ms: int) -> int:
        """How long the first of them has waited."""
        return now_ms - self._turns[0][1] + self._timeout_ms if self._turns else 0

    def committed(self, phy_offset: int) -> None:
        """All that ends there is committed."""
        self._tell(phy_offset, PutStatus.PUT_OK)

    def expire(self, now_ms: int, status: PutStatus) -> None:
        """Tell those who have waited too long. Their messages may be committed later."""
        turns = self._turns
        while turns and turns[0][1] <= now_ms:
            self._tell(turns[0][0], status)

    def fail(self, status: PutStatus) -> None:
        """Tell all of them."""
        self._tell(_EVERYWHERE, status)

    def _tell(self, phy_offset: int, status: PutStatus) -> None:
        waiters, turns = self._waiters, self._turns
        while turns and turns[0][0] <= phy_offset:
            turns.popleft()
        while waiters and waiters[0][0] <= phy_offset:
            _, tell, who = waiters.popleft()
            together = [who]
            while waiters and waiters[0][1] is tell and waiters[0][0] <= phy_offset:
                together.append(waiters.popleft()[2])
            tell(together, status)
