"""How far each delay level has been delivered: ``config/delayOffset.json`` (``commitlog.md`` §15;
class ScheduleMessageService).

``DelayOffsets`` is the table, pure. What is delivered is an ordinary message that may not be on the
disk yet; the file must never say more than the disk has, or a power failure would lose what it
passes over. So it gets a ``safe`` copy, taken before a sync of the store and written after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ...remoting.clock import Clock
from ...remoting.protocol.bodies.consumer_offsets import DelayOffsetTable

log: Final = logging.getLogger(__name__)

_SHORTEST_INTERVAL_S = 0.1


class DelayOffsets:
    """Level (from 1) to the number of the next message in its queue of the schedule topic; a level
    without one is at 0."""

    def __init__(self) -> None:
        self._table: dict[int, int] = {}
        self._safe: dict[int, int] = {}

    def get(self, level: int) -> int:
        return self._table.get(level, 0)

    def set(self, level: int, offset: int) -> None:
        self._table[level] = offset

    def table(self) -> dict[int, int]:
        """A copy."""
        return dict(self._table)

    def record(self) -> DelayOffsetTable:
        """As GET_ALL_DELAY_OFFSET answers."""
        return DelayOffsetTable(offset_table=dict(self._table))

    def safe_record(self) -> DelayOffsetTable:
        """As it may be written to the file."""
        return DelayOffsetTable(offset_table=dict(self._safe))

    def load(self, table: DelayOffsetTable) -> None:
        """Replace everything by a persisted table, or by that of the master."""
        self._table = dict(table.offset_table)
        self._safe = dict(table.offset_table)

    def make_safe(self, table: dict[int, int]) -> bool:
        """All that was delivered according to this copy is on the disk; whether that is news for
        the file."""
        news = table != self._safe
        self._safe = table
        return news

    def revert(self) -> None:
        """What was delivered since the last ``make_safe`` may be gone."""
        self._table = dict(self._safe)

    def correct(self, bounds: Callable[[int], tuple[int, int]]) -> None:
        """Take every offset into the ``(min, max)`` of its level's queue: messages may have
        expired, and a crash may have cost the end of the queue."""
        for level, offset in self._table.items():
            low, high = bounds(level)
            if not low <= offset <= high:
                self._table[level] = max(low, min(offset, high))
                log.error(
                    "delay offset corrected level=%d from=%d to=%d",
                    level,
                    offset,
                    self._table[level],
                )


WhenSafe = Callable[[Callable[[bool], None]], None]
"""Calls back when everything that is stored by now stays, on the disk or in the logs of a majority,
or cannot be made to."""


class DelayOffsetPersistence:
    """Service: every ``interval_ms`` the progress so far becomes safe and is written."""

    def __init__(
        self,
        offsets: DelayOffsets,
        when_safe: WhenSafe,
        changed: Callable[[], None],
        interval_ms: Callable[[], int],
        clock: Clock,
    ) -> None:
        self._offsets = offsets
        self._when_safe = when_safe
        self._changed = changed
        self._interval_ms = interval_ms
        self._clock = clock
        self._seen = offsets.table()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(max(_SHORTEST_INTERVAL_S, self._interval_ms() / 1000))
            self.check()

    def check(self) -> None:
        """Progress since the last time is written as soon as what was delivered is safe."""
        if self._offsets.table() != self._seen:
            self._make_safe_later(lambda _good: None)

    async def settle(self) -> bool:
        """Make all progress so far safe, now; whether that worked. For a member of a group, whose
        followers must not pass over what only this log has."""
        if self._offsets.table() == self._seen:
            return True
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._make_safe_later(lambda good: None if done.done() else done.set_result(good))
        return await done

    def _make_safe_later(self, done: Callable[[bool], None]) -> None:
        table = self._offsets.table()

        def safe(good: bool) -> None:
            if good:
                self._seen = table
                self.make_safe(table)
            done(good)

        self._when_safe(safe)

    def revert(self) -> None:
        """This broker has lost its leadership: see ``DelayOffsets.revert``."""
        self._offsets.revert()
        self._seen = self._offsets.table()

    def make_safe(self, table: dict[int, int]) -> None:
        """Have it written."""
        if self._offsets.make_safe(table):
            self._changed()

    def replace(self, table: DelayOffsetTable) -> None:
        """On a slave: go on with the progress of the master, and have it written."""
        if table != self._offsets.record():
            self._offsets.load(table)
            self._changed()
