"""Recovery of queues and index of a member: only what is committed goes into them, and where the
log ends was decided before (``entry_recovery``).

Records lie behind the heads of entries, or in an old log without such in front of them. What the
log has lost comes again from the leader with the numbers that it had, so no number is kept for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...remoting.protocol.record import BLANK_SIZE, Records
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.protocol.record.entry import (
    ENTRY_BLANK_MAGIC,
    ENTRY_HEAD,
    ENTRY_MAGIC,
    entry_start,
)
from ..log.log_scanner import LogScanner
from ..queues.queue_ends import QueueEnd, QueueKey
from ..recovery.recovery import Recovery


class MemberRecovery(Recovery):
    """See the module."""

    _may_be_torn = False

    stop: int = 0
    """What lies behind is not committed, as far as this member knows."""

    def _clean_end(self) -> int:
        return min(super()._clean_end(), self.stop)

    def _safe_position(self) -> int:
        return min(super()._safe_position(), self.stop)

    def _pieces(self, scanner: LogScanner, start: int) -> Iterator[Records]:
        return scanner.pieces(start, self.stop)

    def _end_log(self, end: int) -> None:
        """It was done before."""

    def _kept_numbers(self, end: int) -> Mapping[QueueKey, QueueEnd]:
        known = super()._kept_numbers(end)
        return {key: queue for key, queue in known.items() if queue.phy_end <= end}

    def _begin_of(self, phy_offset: int) -> int:
        return phy_offset - self._head_of(phy_offset)

    def _first_record(self, file_start: int) -> MessageExt | None:
        return self._record_at(file_start + self._head_of(file_start))

    def _head_of(self, phy_offset: int) -> int:
        return ENTRY_HEAD.size if phy_offset >= self._log.divided else 0

    def _can_start_at(self, offset: int) -> bool:
        if offset < self._log.divided:
            return super()._can_start_at(offset)
        file = self._log.files.find(offset)
        if file is None:
            return offset == self._log.files.end
        start = file.read_unmapped(offset - file.start, BLANK_SIZE)
        if len(start) < BLANK_SIZE or not any(start):
            return True
        return entry_start(start, 0)[0] in (ENTRY_MAGIC, ENTRY_BLANK_MAGIC)
