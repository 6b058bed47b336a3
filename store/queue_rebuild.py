"""Consume queues from the records of the commit log (classes CommitLogDispatcherBuildConsumeQueue, ConsumeQueue)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ..remoting.protocol.properties import find_property, tags_code_of
from ..remoting.protocol.topic_names import TopicName
from .config import CQ_UNIT_SIZE
from .consume_queue import CQ_UNIT, ConsumeQueue
from .consume_queue_ext_writer import ConsumeQueueExtWriter
from .consume_queues import ConsumeQueues, topic_problem
from .delay_levels import UNKNOWN_LEVEL_DELAY_MS
from .log_stretch import DispatchRequest, Stretch
from .multi_dispatch import DispatchRules, dispatched_numbers, is_dispatched

__all__ = ["QueueRebuild", "QueuesContradictError"]

log: Final = logging.getLogger(__name__)

_PREPARED_BIT: Final = 0x4
_BELIEVED_LOSS: Final = 4096
_FEW_PER_QUEUE: Final = 8
"""With fewer records of each queue in a stretch, one by one is faster."""


class QueuesContradictError(Exception):
    """The consume queues below the start of the scan are not what the log says: it has to be read from its start."""


class QueueRebuild:
    """Gives every record its unit.

    The CRC covers the body only, so the number in a record may be wrong. A record that is not the next one of its queue is
    held back as a suspect until its successor tells: if that comes after it too, messages between were lost; if that carries
    on from the queue, it is the suspect that is wrong. Lost messages keep their numbers as filler units.

    ``known`` tells for each queue that was there before: the physical offset of its first unit, -1 when it had none. Records
    in front of it belong to a topic of the same name that was deleted. ``older`` tells the same of queues whose first unit
    is not certain: what lies in front of it is left out, and nothing else follows from it. ``second`` is for queues whose
    first unit is torn: number and physical offset of the message behind it; in front of that only the first one is theirs.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        delay_levels: tuple[int, ...],
        known: Mapping[ConsumeQueue, int],
        *,
        whole: bool,
        older: Mapping[ConsumeQueue, int] | None = None,
        second: Mapping[ConsumeQueue, tuple[int, int]] | None = None,
        ext: ConsumeQueueExtWriter | None = None,
        dispatch: DispatchRules | None = None,
    ) -> None:
        self._queues: Final = queues
        self._table: Final = queues.table
        self._delay_levels: Final = delay_levels
        self._known: Final = known
        self._older: Final = older or {}
        self._second: Final = dict(second or {})
        self._first: Final[dict[ConsumeQueue, DispatchRequest]] = {}
        self._ext: Final = ext
        self._rules: Final = dispatch
        self.headless: Final[set[ConsumeQueue]] = set()
        """Queues whose first files are lost, while the records are there."""
        self._whole: Final = whole
        self._suspects: dict[ConsumeQueue, DispatchRequest] = {}

    def dispatch(self, request: DispatchRequest) -> None:
        """Write the unit of one record; records come in the order of the log. Raises QueuesContradictError."""
        if request.sys_flag & _PREPARED_BIT:  # prepared and rolled back messages are in no queue
            return
        if self._rules is not None and is_dispatched(request.topic):
            self._dispatch_to_named(request, self._rules)
        queue = self._table.get((request.topic, request.queue_id))
        if queue is None:
            problem = topic_problem(request.topic, request.queue_id)
            if problem is not None:
                _leave_out(request, problem)
                return
            queue = self._queues.get_or_create(request.topic, request.queue_id)
        if (self._older or self._second) and self._is_older(queue, request):
            return
        first = self._known.get(queue, -1)
        if request.phy_offset < first:
            if 0 <= request.queue_offset == queue.min_offset - 1:
                self.headless.add(queue)
            return
        if self._suspects and queue in self._suspects:
            self._judge(queue, self._suspects.pop(queue), request)
        if request.queue_offset != queue.max_offset:
            if not self._whole and (first >= 0 or request.queue_offset != 0):
                raise QueuesContradictError(f"message {request.queue_offset} cannot follow {queue}")
            if first >= 0 or request.queue_offset != 0:
                self._suspects[queue] = request
                return
            queue.begin_at(0)  # the topic was deleted and made again
        self._append(queue, request)

    def _is_older(self, queue: ConsumeQueue, request: DispatchRequest) -> bool:
        """The record lies in front of the queue. In front of a second message the last one that can be the first is kept,
        and written when that one comes."""
        if request.phy_offset < self._older.get(queue, -1):
            return True
        if queue not in self._second:
            return False
        number, phy_offset = self._second[queue]
        if request.phy_offset < phy_offset:
            if request.queue_offset == number - 1:
                self._first[queue] = request
            elif request.queue_offset >= number:  # all so far belongs to a topic of the same name that was deleted
                self._first.pop(queue, None)
            return True
        del self._second[queue]
        if queue in self._first:
            self.dispatch(self._first.pop(queue))
        return False

    def dispatch_stretch(self, stretch: Stretch) -> None:
        """The same for many records: what simply carries on its queue is written at once, the rest one by one."""
        unusual = (
            self._suspects
            or self._older
            or self._second
            or TopicName.SCHEDULE in stretch.names
            or stretch.all_flags & _PREPARED_BIT
        )
        runs = [] if unusual else stretch.by_queue
        if unusual or len(runs) > len(stretch) // _FEW_PER_QUEUE:
            self._dispatch_all(stretch.requests())
            return
        units = stretch.units()
        for run in runs:
            first = int(run.numbers[0])
            queue = self._queue_of(run.topic, run.queue_id)
            if (
                queue is not None
                and run.without_gap
                and int(stretch.queue_offsets[first]) == queue.max_offset
                and int(stretch.phy_offsets[first]) >= self._known.get(queue, -1)
            ):
                queue.extend_much(units[run.begin * CQ_UNIT_SIZE : (run.begin + len(run.numbers)) * CQ_UNIT_SIZE])
            else:
                self._dispatch_all(map(stretch.request, run.numbers.tolist()))

    def _queue_of(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Where many records of a queue may go at once; None: look at each."""
        return self._table.get((topic, queue_id))

    def _dispatch_to_named(self, request: DispatchRequest, rules: DispatchRules) -> None:
        """The queues that the record names too, each with the number it says (``multi_dispatch``)."""
        for name, number in dispatched_numbers(request.properties):
            queue_id = rules.queue_id(name, request.queue_id)
            if (name, queue_id) == (request.topic, request.queue_id) or topic_problem(name, queue_id) is not None:
                continue
            queue = self._queues.get_or_create(name, queue_id)
            first = self._known.get(queue, -1)
            if request.phy_offset < first or number < queue.max_offset:
                continue
            if number > queue.max_offset:
                if first >= 0 and not self._whole:
                    raise QueuesContradictError(f"message {number} cannot follow {queue}")
                if _is_empty(queue):
                    queue.begin_at(number)
                elif number - queue.max_offset > _BELIEVED_LOSS:
                    _leave_out(request, f"message {number} cannot follow {queue}")
                    continue
                else:
                    queue.fill_to(number, request.phy_offset)
            queue.append(CQ_UNIT.pack(request.phy_offset, request.size, tags_code_of(request.properties)))

    def _dispatch_all(self, requests: Iterable[DispatchRequest]) -> None:
        for request in requests:
            self.dispatch(request)

    def finish(self) -> None:
        """The end of the log: suspects without a successor are believed, unless they are far off."""
        for queue, suspect in self._suspects.items():
            lost = suspect.queue_offset - queue.max_offset
            if lost >= 0 and (_is_empty(queue) or lost <= _BELIEVED_LOSS):
                self._jump(queue, suspect)
            else:
                _leave_out(suspect, f"message {suspect.queue_offset} cannot follow {queue}")

    def _judge(self, queue: ConsumeQueue, suspect: DispatchRequest, successor: DispatchRequest) -> None:
        lost = suspect.queue_offset - queue.max_offset
        follows = successor.queue_offset - suspect.queue_offset
        # One that follows at a distance has lost messages before it itself; so far a wrong number does not get by chance.
        if lost >= 0 and (follows == 1 or (follows > 1 and lost <= _BELIEVED_LOSS)):
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
        if self._ext is not None:
            code = self._ext.code_of(queue, request.topic, request.properties, code, request.store_timestamp)
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
