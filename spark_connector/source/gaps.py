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
    """Of one range, by the address of the replica that had them: its number may be another one's
    later."""

    def __init__(self) -> None:
        self._ends: dict[str, dict[int, int]] = {}

    def __bool__(self) -> bool:
        return any(self._ends.values())

    def __contains__(self, address: str) -> bool:
        """The replica had some."""
        return address in self._ends

    def add(self, address: str, begin: int, end: int) -> None:
        """Nothing came of ``begin`` to before ``end``."""
        if begin < end:
            self._ends.setdefault(address, {})[begin] = end

    def owners(self) -> list[str]:
        """The replicas that have some which were not told."""
        return sorted(address for address, ends in self._ends.items() if ends)

    def count(self, address: str) -> int:
        """How many offsets lie in those of a replica."""
        return sum(end - begin for begin, end in self._ends.get(address, {}).items())

    def first(self, address: str) -> int | None:
        """Where the first one begins."""
        return min(self._ends.get(address, {}), default=None)

    def deleted(self, address: str, oldest: int) -> int:
        """How many of these offsets the replica has deleted, which says now that ``oldest`` is the
        first that is kept. They are told once."""
        its, count = self._ends.get(address, {}), 0
        for begin in list(its):
            if begin < oldest:
                count += min(oldest, its.pop(begin)) - begin
        return count


def first_offset(body: Stretch) -> int | None:
    """The queue offset of the first record; ``None`` where there is none."""
    if body.size < MIN_RECORD_SIZE:
        return None
    return int(_QUEUE_OFFSET.unpack_from(body.buffer, body.begin)[0])
