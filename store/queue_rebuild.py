"""Consume queues from the records of the commit log (classes CommitLogDispatcherBuildConsumeQueue, ConsumeQueue)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ..remoting.protocol.properties import find_property, tags_code_of
from ..remoting.protocol.record import MIN_RECORD_SIZE
from ..remoting.protocol.topic_names import TopicName
from .consume_queue import CQ_UNIT, ConsumeQueue
from .consume_queues import ConsumeQueues, topic_problem
from .delay_levels import UNKNOWN_LEVEL_DELAY_MS
from .log_scanner import DispatchRequest, LogScanner

__all__ = ["QueueRebuild", "QueuesContradictError"]

log = logging.getLogger(__name__)

_PREPARED_BIT: Final = 0x4


class QueuesContradictError(Exception):
    """The consume queues below the start of the scan are not what the log says: it has to be read from its start."""


class QueueRebuild:
    """Gives every record its unit.

    The CRC covers the body only, so the number in a record may be wrong. It must be the next one of its queue, or there must
    be a reason why not; a record without one is left out, its place becomes a filler unit when its successor comes.

    ``known`` tells for each queue that was there before: the physical offset of its first unit, -1 when it had none. Records
    in front of it belong to a topic of the same name that was deleted.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        scanner: LogScanner,
        delay_levels: tuple[int, ...],
        known: Mapping[ConsumeQueue, int],
        *,
        whole: bool,
    ) -> None:
        self._queues: Final = queues
        self._scanner: Final = scanner
        self._delay_levels: Final = delay_levels
        self._known: Final = known
        self._whole: Final = whole
        self._left_out = 0

    def dispatch(self, request: DispatchRequest) -> None:
        """Write the unit of one record; records come in the order of the log. Raises QueuesContradictError."""
        if request.sys_flag & _PREPARED_BIT:  # prepared and rolled back messages are in no queue
            return
        queue = self._queues.get(request.topic, request.queue_id)
        if queue is None:
            problem = topic_problem(request.topic, request.queue_id)
            if problem is not None:
                self._leave_out(request, problem)
                return
            queue = self._queues.get_or_create(request.topic, request.queue_id)
        first = self._known.get(queue, -1)
        if request.phy_offset < first:
            return
        if request.queue_offset != queue.max_offset and not self._can_follow(queue, request, is_new=first < 0):
            self._leave_out(request, f"message {request.queue_offset} cannot follow {queue}")
            return
        queue.append(CQ_UNIT.pack(request.phy_offset, request.size, self._tags_code(request)))
        queue.last_store_timestamp = request.store_timestamp

    def _can_follow(self, queue: ConsumeQueue, request: DispatchRequest, *, is_new: bool) -> bool:
        """Prepare the queue for a record that is not its next one, if there is a reason for that."""
        wanted = request.queue_offset
        if wanted < 0:
            return False
        if is_new and (wanted == 0 or queue.max_offset == queue.min_offset):
            # What came before was deleted: the topic (then it starts at 0 again) or the oldest files of the log.
            queue.begin_at(wanted)
            return True
        if not self._whole:
            raise QueuesContradictError(f"message {wanted} cannot follow {queue}")
        missing = wanted - queue.max_offset
        if not 0 < missing <= self._messages_lost():
            return False
        log.error("%s lost the messages %d..%d", queue, queue.max_offset, wanted - 1)
        queue.fill_to(wanted, request.phy_offset)
        return True

    def _messages_lost(self) -> int:
        """How many messages at most were in damaged places, or are left out."""
        damaged = sum(stop - begin for begin, stop in self._scanner.damaged)
        return damaged // MIN_RECORD_SIZE + self._left_out

    def _leave_out(self, request: DispatchRequest, problem: str) -> None:
        self._left_out += 1
        log.error("the record at %d is left out of the queues: %s", request.phy_offset, problem)

    def is_torn(self, last: DispatchRequest) -> bool:
        """The last record may have been cut inside of its properties, which no CRC covers: then it ends with zeros, and its
        unit, which is written after it, is missing. Nobody was told that it is stored."""
        if not last.properties.endswith(b"\0"):
            return False
        queue = self._queues.get(last.topic, last.queue_id)
        return queue is None or not queue.has_unit(last.queue_offset, last.phy_offset, last.size)

    def _tags_code(self, request: DispatchRequest) -> int:
        """The tags code of a record; in the schedule topic the time of delivery (consumequeue-index.md §1.2)."""
        if request.topic == TopicName.SCHEDULE:
            level = find_property(request.properties, b"DELAY") or b""
            if level.isdigit() and int(level) > 0:
                return request.store_timestamp + self._delay_ms(int(level))
        return tags_code_of(request.properties)

    def _delay_ms(self, level: int) -> int:
        levels = self._delay_levels
        return levels[min(level, len(levels)) - 1] if levels else UNKNOWN_LEVEL_DELAY_MS
