"""Work that waits for a worker, in order. An ``asyncio.Queue`` without what is not needed, and with an end."""

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
        self.closed = False

    def __len__(self) -> int:
        return len(self._items)

    def extend(self, items: Iterable[T]) -> None:
        """Add work and wake as many workers as it takes."""
        before = len(self._items)
        self._items.extend(items)
        for _ in range(min(len(self._items) - before, len(self._idle))):
            self._wake_one()

    async def take(self) -> T | None:
        """The next piece of work; ``None`` once the backlog is closed."""
        while not self.closed:
            if self._items:
                return self._items.popleft()
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            try:
                await idle
            except asyncio.CancelledError:
                if idle.done() and not idle.cancelled() and self._items:
                    self._wake_one()  # the call was meant for somebody who goes on
                raise
        return None

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    def close(self) -> None:
        """Drop what waits and let every worker end."""
        self.closed = True
        self._items.clear()
        while self._idle:
            self._wake_one()
