"""Queues of which the log has nothing left: only other replicas know where their numbers go on.

A log that begins anew, with the first entry or file that its leader or master still has, brings no
message of them. Were it to lead their numbers would begin at 0 again, and the offsets of consumers
be set back to that. So a replica asks (``GET_QUEUE_ENDS``) for the ends of all queues whose last
message lies in front of its log; what its log has a message of, it knows itself. Whatever comes
of such a queue later has that number or a higher one, so it does not matter how much the log has
brought meanwhile. Should it be lower nevertheless, its topic was deleted and made again, and the
log is right (``ReplicaQueues``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from ...remoting.slices import Steps, slices
from ..model.errors import StoreFileError
from .consume_queue import MOST_NUMBER, ConsumeQueue
from .consume_queues import ConsumeQueues, topic_problem

_AT_ONCE: Final = 128
"""Queues that are looked at in one turn: each may be a read of 20 bytes."""

QueueEndsByTopic = dict[str, dict[int, int]]


class GoneQueues:
    """Of one store. One thread calls it."""

    def __init__(self, queues: ConsumeQueues) -> None:
        self._queues: Final = queues
        self.wanted: bool = True
        """Nobody has told since the start, or since the log began anew. Also a store that was told
        before asks: not all that it heard need have come to the disk."""
        self.may_take: Callable[[], bool] = lambda: True
        """Nothing is put into queues here: another replica leads, or none does yet."""

    def ends_before(self, phy_offset: int) -> Steps[QueueEndsByTopic]:
        """The numbers that the next messages get, of queues that have no message at or behind a
        place of the log. A queue that cannot be read just now is left out."""
        found: QueueEndsByTopic = {}
        for some in slices(self._queues.all(), _AT_ONCE):
            for queue in some:
                with contextlib.suppress(StoreFileError):
                    if queue.max_offset and queue.known_end() <= phy_offset:
                        found.setdefault(queue.topic, {})[queue.queue_id] = queue.max_offset
            yield
        return found

    def take(self, topic: str, queue_id: int, end: int) -> bool:
        """A queue that has no messages begins at ``end``, unless it is that far; whether that is
        new. Its file gets as many filler units as that of the other replica has units. Raises
        StoreFileError, OutOfSpaceError."""
        known = self._queues.get(topic, queue_id)
        if known is not None and known.files.files and not _lies_before(known, end):
            return False
        if not 0 < end < MOST_NUMBER or topic_problem(topic, queue_id) is not None:
            return False
        queue = self._queues.get_or_create(topic, queue_id)
        if _lies_before(queue, end):
            queue.begin_at(end)
        if not queue.files.files:  # there was no space for it the last time
            queue.make_room()  # the name of its first file tells the next start
        return True


def _lies_before(queue: ConsumeQueue, end: int) -> bool:
    return queue.min_offset == queue.max_offset < end
