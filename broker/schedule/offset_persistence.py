"""How far each delay level has been delivered is written when what was delivered is safe
(``schedule_offsets.py`` says why)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ...remoting.clock import Clock, pause
from ...remoting.protocol.bodies.consumer_offsets import DelayOffsetTable
from .schedule_offsets import DelayOffsets

_SHORTEST_INTERVAL_S: Final = 0.1
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
            await pause(self._clock, self._interval_s)
            self.check()

    def _interval_s(self) -> float:
        return max(_SHORTEST_INTERVAL_S, self._interval_ms() / 1000)

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

    @property
    def safe_text(self) -> str | None:
        """See ``DelayOffsets.safe_text``."""
        return self._offsets.safe_text

    def replace(self, table: DelayOffsetTable) -> None:
        """On a slave: go on with the progress of the master, and have it written."""
        if table != self._offsets.record():
            self._offsets.load(table)
            self._changed()
