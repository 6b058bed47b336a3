"""Consume queues from the records of the commit log (classes CommitLogDispatcherBuildConsumeQueue, ConsumeQueue)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ..remoting.protocol.properties import find_property, tags_code_of
from ..remoting.protocol.topic_names import TopicName
from .consume_queue import CQ_UNIT, ConsumeQueue
from .consume_queues import ConsumeQueues, topic_problem
from .delay_levels import UNKNOWN_LEVEL_DELAY_MS
from .log_scanner import DispatchRequest

__all__ = ["QueueRebuild", "QueuesContradictError"]

log = logging.getLogger(__name__)

_PREPARED_BIT: Final = 0x4
_BELIEVED_LOSS: Final = 4096


class QueuesContradictError(Exception):
    """The consume queues below the start of the scan are not what the log says: it has to be read from its start."""


class QueueRebuild:
    """Gives every record its unit.

    The CRC covers the body only, so the number in a record may be wrong. A record that is not the next one of its queue is
    held back as a suspect until its successor tells: if that carries on from it, messages between were lost; if that carries
    on from the queue, it is the suspect that is wrong. Lost messages keep their numbers as filler units.

    ``known`` tells for each queue that was there before: the physical offset of its first unit, -1 when it had none. Records
    in front of it belong to a topic of the same name that was deleted.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        delay_levels: tuple[int, ...],
        known: Mapping[ConsumeQueue, int],
        *,
        whole: bool,
    ) -> None:
        self._queues: Final = queues
        self._table: Final = queues.table
        self._delay_levels: Final = delay_levels
        self._known: Final = known
        self._whole: Final = whole
        self._suspects: dict[ConsumeQueue, DispatchRequest] = {}

    def dispatch(self, request: DispatchRequest) -> None:
        """Write the unit of one record; records come in the order of the log. Raises QueuesContradictError."""
        if request.sys_flag & _PREPARED_BIT:  # prepared and rolled back messages are in no queue
            return
        queue = self._table.get((request.topic, request.queue_id))
        if queue is None:
            problem = topic_problem(request.topic, request.queue_id)
            if problem is not None:
                _leave_out(request, problem)
                return
            queue = self._queues.get_or_create(request.topic, request.queue_id)
        first = self._known.get(queue, -1)
        if request.phy_offset < first:
            return
        if self._suspects and queue in self._suspects:
            self._judge(queue, self._suspects.pop(queue), request)
        if request.queue_offset != queue.max_offset:
            if first >= 0 and not self._whole:
                raise QueuesContradictError(f"message {request.queue_offset} cannot follow {queue}")
            if first >= 0 or request.queue_offset != 0:
                self._suspects[queue] = request
                return
            queue.begin_at(0)  # the topic was deleted and made again
        self._append(queue, request)

    def finish(self) -> None:
        """The end of the log: suspects without a successor are believed, unless they are far off."""
        for queue, suspect in self._suspects.items():
            lost = suspect.queue_offset - queue.max_offset
            if lost >= 0 and (_is_empty(queue) or lost <= _BELIEVED_LOSS):
                self._jump(queue, suspect)
            else:
                _leave_out(suspect, f"message {suspect.queue_offset} cannot follow {queue}")

    def _judge(self, queue: ConsumeQueue, suspect: DispatchRequest, successor: DispatchRequest) -> None:
        if successor.queue_offset == suspect.queue_offset + 1 and suspect.queue_offset >= queue.max_offset:
            self._jump(queue, suspect)
            return
        _leave_out(suspect, f"message {suspect.queue_offset} cannot follow {queue}")

    def _jump(self, queue: ConsumeQueue, request: DispatchRequest) -> None:
        """Go on with a record that is not the next one."""
        if _is_empty(queue):  # the oldest files of the log are gone
            queue.begin_at(request.queue_offset)
        else:
            log.error("%s lost the messages %d..%d", queue, queue.max_offset, request.queue_offset - 1)
            queue.fill_to(request.queue_offset, request.phy_offset)
        self._append(queue, request)

    def _append(self, queue: ConsumeQueue, request: DispatchRequest) -> None:
        code = self._delivery_time(request) if request.topic == TopicName.SCHEDULE else None
        if code is None:
            code = tags_code_of(request.properties)
        queue.append(CQ_UNIT.pack(request.phy_offset, request.size, code))

    def is_torn(self, last: DispatchRequest) -> bool:
        """The last record may have been cut inside of its properties, which no CRC covers: then it ends with zeros, and its
        unit, which is written after it, is missing. Nobody was told that it is stored."""
        if not last.properties.endswith(b"\0"):
            return False
        queue = self._queues.get(last.topic, last.queue_id)
        return queue is None or not queue.has_unit(last.queue_offset, last.phy_offset, last.size)

    def _delivery_time(self, request: DispatchRequest) -> int | None:
        """What the queues of the schedule topic have in the place of a tags code (consumequeue-index.md §1.2)."""
        level = find_property(request.properties, b"DELAY") or b""
        if level.isdigit() and int(level) > 0:
            return request.store_timestamp + self._delay_ms(int(level))
        return None

    def _delay_ms(self, level: int) -> int:
        levels = self._delay_levels
        return levels[min(level, len(levels)) - 1] if levels else UNKNOWN_LEVEL_DELAY_MS


def _is_empty(queue: ConsumeQueue) -> bool:
    return queue.max_offset == queue.min_offset


def _leave_out(request: DispatchRequest, problem: str) -> None:
    log.error("the record at %d is left out of the queues: %s", request.phy_offset, problem)
