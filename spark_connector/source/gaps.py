"""Offsets at which a replica brought no message, although nothing was filtered. Pure.

Such a gap is legal: a message may be damaged, or never have been stored. But a broker deletes a
file of its log first and looks through its queues then, one after the other (class
DefaultMessageStore.CleanConsumeQueueService of the original). Meanwhile it goes on behind what is
gone as if that were a gap, and still says that the queue begins before it. (Brokers of ours look
through their queues first.) What it says later tells the two apart, and a message in front of the
gap that is kept.
"""

from __future__ import annotations

from typing import Final

from ...remoting.protocol.record import MIN_RECORD_SIZE
from ...remoting.protocol.record.layout import glance
from ..access.frame_buffer import Stretch

__all__ = ["Gaps", "first_offset"]

_QUEUE_OFFSET: Final = glance("queue_offset")


class Gaps:
    """Of one range, by the replica that had them."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, broker_id: int, begin: int, end: int) -> None:
        """Nothing came of ``begin`` to before ``end``."""
        if begin < end:
            self._ends[broker_id, begin] = end

    def owners(self) -> list[int]:
        """The replicas that had some."""
        return sorted({own for own, _begin in self._ends})

    def count(self, broker_id: int) -> int:
        """How many offsets lie in those of a replica."""
        return sum(end - begin for (own, begin), end in self._ends.items() if own == broker_id)

    def first(self, broker_id: int) -> int | None:
        """Where the first one begins."""
        return min((begin for own, begin in self._ends if own == broker_id), default=None)

    def deleted(self, broker_id: int, oldest: int) -> int:
        """How many of these offsets the replica has deleted, which says now that ``oldest`` is the
        first that is kept. They are told once."""
        count = 0
        for own, begin in list(self._ends):
            if own == broker_id and begin < oldest:
                count += min(oldest, self._ends.pop((own, begin))) - begin
        return count


def first_offset(body: Stretch) -> int | None:
    """The queue offset of the first record; ``None`` where there is none."""
    if body.size < MIN_RECORD_SIZE:
        return None
    return int(_QUEUE_OFFSET.unpack_from(body.buffer, body.begin)[0])
