"""How far each delay level has been delivered: ``config/delayOffset.json`` (``commitlog.md`` §15;
class ScheduleMessageService). Pure; ``offset_persistence.py`` has it written.

What is delivered is an ordinary message that may not be on the disk yet; the file must never say
more than the disk has, or a power failure would lose what it passes over. So it gets a ``safe``
copy, taken before a sync of the store and written after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...remoting.protocol.bodies.consumer_offsets import DelayOffsetTable

log: Final = logging.getLogger(__name__)


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

    @property
    def safe_text(self) -> str | None:
        """Another one for each other table; None while some of it is not safe."""
        return str(sorted(self._safe.items())) if self._table == self._safe else None

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

    def correct(self, end_of: Callable[[int], int]) -> bool:
        """Take every offset back to the end of its level's queue: a crash may have cost that. (What
        has expired is passed over when it is looked for: the first messages may be damaged, and
        come again.) Whether that is news for the file: by the time of the next start the queue may
        have come to the offset that was wrong."""
        ends = {level: end_of(level) for level in self._table.keys() | self._safe.keys()}
        for level, offset in self._table.items():
            corrected = _within(offset, ends[level])
            if offset != corrected:
                self._table[level] = corrected
                log.error("delay offset corrected level=%d from=%d to=%d", level, offset, corrected)
        safe = {level: _within(offset, ends[level]) for level, offset in self._safe.items()}
        return self.make_safe(safe)


def _within(offset: int, end: int) -> int:
    return max(0, min(offset, end))
