"""Work that waits for a worker, in order. An ``asyncio.Queue`` without what is not needed, and with
an end.

Idle workers are woken one after the other: whoever has been woken wakes the next one when it finds
more than it takes. So work that is done in one go is done by one worker, and the others sleep on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """Unbounded: who puts work in looks at limits of its own."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._waking = False
        """A worker is on its way."""
        self.closed: bool = False

    def __len__(self) -> int:
        return len(self._items)

    def extend(self, items: Iterable[T]) -> None:
        """Add work, and wake a worker."""
        self._items.extend(items)
        self._wake_one()

    def take_now(self) -> T | None:
        """The next piece of work if there is one, without waiting. For a worker that has been
        busy."""
        return self._items.popleft() if self._items else None

    async def take(self) -> T | None:
        """The next piece of work; ``None`` once the backlog is closed."""
        while not self.closed:
            if self._items:
                item = self._items.popleft()
                self._wake_one()
                return item
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            try:
                await idle
            except asyncio.CancelledError:
                if idle.done() and not idle.cancelled():
                    self._waking = False
                    self._wake_one()  # the call was meant for somebody who goes on
                raise
            self._waking = False
        return None

    def _wake_one(self) -> None:
        while self._items and self._idle and not self._waking:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                self._waking = True

    def close(self) -> None:
        """Drop what waits and let every worker end."""
        self.closed = True
        self._items.clear()
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
