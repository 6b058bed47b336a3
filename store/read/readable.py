"""What may leave the broker: with SYNC_FLUSH only what is on the disk.

The original hands messages to consumers and slaves as soon as they are written. When its power
fails then, groups have read, and are done with, messages that are gone; their numbers are given
again, to messages that such a group never gets.

A master with SYNC_FLUSH has one of these, every other store none: a member of a group hands out
what is committed, a slave what its master had on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..log.commit_log import CommitLog
from ..queues.consume_queue import ConsumeQueue


class Readable:
    """How far the log and its queues may be read."""

    def __init__(
        self,
        log: CommitLog,
        sync_soon: Callable[[], None],
        when: Callable[[Callable[[], None]], None],
    ) -> None:
        """``sync_soon``: have the log synced; ``when`` as ``FlushService.when_synced``."""
        self._log: Final = log
        self._sync_soon: Final = sync_soon
        self.when: Final = when

    @property
    def end(self) -> int:
        """Of the commit log: what lies below may be read."""
        return self._log.flushed_offset

    def end_of(self, queue: ConsumeQueue) -> int:
        """The number behind the last message of a queue that may be read. Somebody asks: where
        there are others, they are synced soon."""
        flushed = self._log.flushed_offset
        if flushed >= self._log.max_phy_offset:
            return queue.max_offset
        end = queue.count_until(flushed)
        if end < queue.max_offset:
            self._sync_soon()
        return end

    def hides(self, queue: ConsumeQueue) -> bool:
        """It has messages that may not be read yet."""
        flushed = self._log.flushed_offset
        return flushed < self._log.max_phy_offset and queue.end_phy_offset() > flushed
