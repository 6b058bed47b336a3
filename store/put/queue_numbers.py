"""The numbers that messages get before their units are in the consume queues: for the leader of a
DLedger group, whose queues hold committed messages only.

A number is where the queue ends once all that lies in the log is committed. It is lost with the
leadership: the next leader counts from what is in the log then. The writer writes units as ever,
into a buffer that nobody reads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ...remoting.protocol.record import QueueEnd, topic_field
from ..queues.consume_queue import CQ_UNIT, ConsumeQueue

log: Final = logging.getLogger(__name__)

_SCRATCH: Final = bytearray(CQ_UNIT.size << 10)
"""All of them write into it."""


class QueueNumber(QueueEnd):
    """As far as a put is concerned, a consume queue."""

    __slots__ = ("topic", "watched")

    def __init__(self, topic: str, queue_id: int, number: int) -> None:
        super().__init__()
        self.topic: Final = topic
        self.queue_id = queue_id
        self.topic_field = topic_field(topic)
        self.max_offset = number
        self.watched: Final = False
        """Who waits for messages waits for committed ones."""
        self.make_room()

    def has_room(self, count: int) -> bool:
        return self.position + count * CQ_UNIT.size <= self.limit

    def make_room(self, count: int = 1) -> None:
        """Nobody reads it: the next unit goes over the first one again."""
        wanted = count * CQ_UNIT.size
        self.buffer = _SCRATCH if wanted <= len(_SCRATCH) else bytearray(wanted)
        self.position, self.limit = 0, len(self.buffer)

    def append(self, _unit: bytes) -> None:
        self.max_offset += 1

    def extend_bytes(self, units: bytes) -> None:
        self.max_offset += len(units) // CQ_UNIT.size
        self.make_room()


class QueueNumbers:
    """The numbers of all queues, each made when it is needed first. The same shape as
    ``ConsumeQueues``."""

    def __init__(self, queues: Mapping[tuple[str, int], ConsumeQueue]) -> None:
        self.table: Final[dict[tuple[str, int], QueueNumber]] = {}
        self.by_topic: Final[dict[str, dict[int, QueueNumber]]] = {}
        self._queues: Final = queues
        self._begun_anew: Final[set[str]] = set()
        """Topics that were deleted in this term: of what their consume queues have still nothing
        counts."""

    def get(self, topic: str, queue_id: int) -> QueueNumber | None:
        return self.table.get((topic, queue_id))

    def get_or_create(self, topic: str, queue_id: int) -> QueueNumber:
        """A queue that nothing was put into in this term ends where its consume queue does."""
        number = self.table.get((topic, queue_id))
        if number is None:
            queue = None if topic in self._begun_anew else self._queues.get((topic, queue_id))
            number = self.set(topic, queue_id, 0 if queue is None else queue.max_offset)
        return number

    def set(self, topic: str, queue_id: int, number: int) -> QueueNumber:
        """The next message of a queue gets this one."""
        made = QueueNumber(topic, queue_id, number)
        self.table[topic, queue_id] = self.by_topic.setdefault(topic, {})[queue_id] = made
        return made

    def count(self, topic: str, queue_id: int, number: int) -> None:
        """A message with this number lies in the log: the next one gets a higher one. A queue that
        was deleted begins at 0 again."""
        known = self.get_or_create(topic, queue_id).max_offset
        if number and number < known:
            log.error(
                "a message of %s/%d has the number %d though %d was given before: the next one "
                "gets %d", topic, queue_id, number, known - 1, known,
            )  # fmt: skip
        else:
            self.set(topic, queue_id, number + 1)

    def has_none_ahead(self, queue: ConsumeQueue) -> bool:
        """Everything that was put into a queue is in it."""
        number = self.table.get((queue.topic, queue.queue_id))
        return number is None or number.max_offset == queue.max_offset

    def forget(self, topic: str, queue_id: int) -> None:
        """The queue is deleted: it begins at 0 when it is made again."""
        if self.table.pop((topic, queue_id), None) is not None:
            del self.by_topic[topic][queue_id]

    def begin_anew(self, topic: str) -> None:
        """A topic is deleted by what the log ends with, committed or not: all of its queues begin
        at 0 behind that."""
        self._forget_topic(topic)
        self._begun_anew.add(topic)

    def deleted(self, topic: str) -> None:
        """Such a deletion is committed. Behind one of an earlier leader nothing has been put yet in
        this term, and the consume queues tell."""
        if topic not in self._begun_anew:
            self._forget_topic(topic)

    def _forget_topic(self, topic: str) -> None:
        for queue_id in list(self.by_topic.get(topic, ())):
            self.forget(topic, queue_id)

    def clear(self) -> None:
        """The leadership is over."""
        self._begun_anew.clear()
        self.table.clear()
        self.by_topic.clear()
