"""Consume queues from the records of the commit log (classes CommitLogDispatcherBuildConsumeQueue,
ConsumeQueue)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from ...remoting.protocol.message.properties import tags_code_of
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record import Records
from ...remoting.protocol.record.layout import QUEUE_UNIT
from ...remoting.protocol.record.units import QueueRun, queue_runs
from ...remoting.protocol.record.verdict import SECTOR
from ..model.delay_levels import delay_ms, level_of
from ..model.dispatch_request import DispatchRequest, request_of
from ..put.multi_dispatch import NamedRequest, named_requests
from ..put.unit_rules import UnitRules
from ..queues.consume_queue import CQ_UNIT, FILLER_SIZE, MOST_NUMBER, ConsumeQueue
from ..queues.consume_queues import ConsumeQueues, topic_problem
from ..queues.fillers import MOST_LOST
from ..queues.queue_ends import QueueEnd, QueueKey

log: Final = logging.getLogger(__name__)


class QueuesContradictError(Exception):
    """The consume queues below the start of the scan are not what the log says: it has to be read
    from its start."""


class Begin(NamedTuple):
    """The first message of a queue whose unit can be believed."""

    number: int
    phy_offset: int


class QueueRebuild:
    """Gives every record its unit.

    The CRC covers the body only, so the number in a record may be wrong. A record that is not the
    next one of its queue is held back as a suspect until its successor tells: if that comes after
    it too, messages between were lost; if that carries on from the queue, it is the suspect that is
    wrong. Lost messages keep their numbers as filler units. No successor is needed where the
    queue's file still has the record's unit, in another place than the number says.

    ``begins`` tells of each queue that was there before where it begins. Records in front of that
    with the same number or a higher one belong to a topic of the same name that was deleted; those
    with a lower number are the queue's, and the files that had their units are lost. Nothing else
    follows for queues whose begin is not ``certain``.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        rules: UnitRules,
        begins: Mapping[ConsumeQueue, Begin],
        *,
        certain: Set[ConsumeQueue] = frozenset(),
        whole: bool,
        safe: int = 0,
        repairs: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self.restarted: Final[set[ConsumeQueue]] = set()
        """Queues whose numbers began again: their topics were deleted and made again."""
        self._safe: Final = safe
        self._repairs: Final = repairs or {}
        self._queues: Final = queues
        self._table: Final = queues.table
        self._delay_levels: Final = rules.delay_levels
        self._begins: Final = begins
        self._certain: Final = certain
        self._ext: Final = rules.ext
        self._rules: Final = rules.dispatch
        self._whole: Final = whole
        self._suspects: dict[ConsumeQueue, DispatchRequest] = {}

    def dispatch(self, request: DispatchRequest) -> None:
        """Write the unit of one record; records come in the order of the log. Raises
        QueuesContradictError."""
        if not request.is_queued:
            return
        self._dispatch_one(request)
        for named in named_requests(request, self._rules):
            self._dispatch_one(named)

    def _dispatch_one(self, request: DispatchRequest) -> None:
        """Into one of the queues that it is in."""
        if request.phy_offset < self._safe and not self._is_lacking(
            request.topic, request.queue_id, request.phy_offset
        ):
            return
        queue = self._table.get((request.topic, request.queue_id))
        if queue is None:
            problem = topic_problem(request.topic, request.queue_id)
            if problem is not None:
                _leave_out(request, problem)
                return
            queue = self._queues.get_or_create(request.topic, request.queue_id)
        in_front = request.phy_offset < self._begin_phy_offset(queue)
        if in_front and not self._judge_in_front(queue, request.queue_offset):
            return
        if (
            request.queue_offset != queue.max_offset
            and queue not in self._suspects
            and _is_next_entry(queue, request)
        ):
            _leave_out(
                request,
                f"it says that it is message {request.queue_offset}, it is {queue.max_offset} of "
                f"{queue}",
            )
            queue.fill_to(queue.max_offset + 1, request.phy_offset + request.size)
            return
        if not 0 <= request.queue_offset < MOST_NUMBER:
            _leave_out(request, f"{request.queue_offset} is no number of a message")
            return
        if self._suspects and queue in self._suspects:
            self._judge(queue, self._suspects.pop(queue), request)
        if request.queue_offset != queue.max_offset:
            certain = queue in self._certain and not in_front
            if not self._is_free(queue) and (certain or request.queue_offset != 0):
                raise QueuesContradictError(f"message {request.queue_offset} cannot follow {queue}")
            if certain or request.queue_offset != 0:
                self._suspects[queue] = request
                return
            queue.begin_at(0)  # the topic was deleted and made again
            self.restarted.add(queue)
        self._append(queue, request)

    def _is_lacking(self, topic: str, queue_id: int, phy_offset: int) -> bool:
        """A queue has no unit for a record below ``safe``."""
        return phy_offset >= self._repairs.get((topic, queue_id), self._safe)

    def _is_free(self, queue: ConsumeQueue) -> bool:
        """Whatever a queue holds comes from this scan."""
        return self._whole or (queue.topic, queue.queue_id) in self._repairs

    def _begin_phy_offset(self, queue: ConsumeQueue) -> int:
        begin = self._begins.get(queue)
        return -1 if begin is None else begin.phy_offset

    def _judge_in_front(self, queue: ConsumeQueue, number: int) -> bool:
        """Whether a record in front of the begin is the queue's, as far as numbers tell. When those
        of a deleted topic reach the number of the begin, all so far was not, and is taken back.
        Files expire behind their records, and a topic that is made again begins at 0: so a number
        in front of the first file means that files are lost; it begins anew then.
        """
        if not 0 <= number < self._begins[queue].number:
            if number == queue.max_offset and not _is_empty(queue):
                self._suspects.pop(queue, None)
                queue.clear()
            return False
        if number < queue.min_offset:
            log.warning(
                "the first files of %s are lost: they are made again from the commit log", queue
            )
            queue.clear()
        return True

    def dispatch_records(self, records: Records) -> list[QueueRun]:
        """The same for many records: what simply carries on its queue is written at once, the rest
        one by one. Returns the queues in which they are.
        """
        runs, order, units = queue_runs(records)
        for topic_number, queue_id, begin, end, without_gap in runs:
            topic, first = records.names[topic_number], order[begin]
            begins, ends = records.phy_offsets[first], records.phy_offsets[order[end - 1]]
            needed = self._repairs.get((topic, queue_id), self._safe)
            if ends < needed:
                continue
            queue = self._queue_of(topic, queue_id)
            if (
                queue is not None
                and without_gap
                and records.queue_offsets[first] == queue.max_offset
                and begins >= max(needed, self._begin_phy_offset(queue))
                and queue not in self._suspects
                and topic != TopicName.SCHEDULE
            ):
                queue.extend_much(units[begin * QUEUE_UNIT.size : end * QUEUE_UNIT.size])
            else:
                for number in order[begin:end]:
                    self.dispatch(request_of(records, number))
        return runs

    def _queue_of(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Where many records of a queue may go at once; None: look at each."""
        return self._table.get((topic, queue_id))

    def finish(self) -> None:
        """The end of the log: suspects without a successor are believed, unless they are far
        off."""
        for queue, suspect in self._suspects.items():
            lost = suspect.queue_offset - queue.max_offset
            if lost >= 0 and (_is_empty(queue) or lost <= MOST_LOST):
                self._jump(queue, suspect)
            else:
                _leave_out(suspect, f"message {suspect.queue_offset} cannot follow {queue}")

    def keep_damaged(self, gaps: Sequence[tuple[int, int]]) -> None:
        """Behind ``finish``: a unit behind a queue's end that lies in what is damaged was a
        message's, whose number must not be given again; that of an earlier start, which kept it so,
        lies where its message ended. ``gaps``: from, to."""
        for queue in self._queues.all():
            while True:
                first, size = queue.unit_behind()
                first, end = (first - 1, first) if size == FILLER_SIZE else (first, first + size)
                if not size or not any(begin <= first and end <= stop for begin, stop in gaps):
                    break
                log.error("%s lost its last message: it is damaged", queue)
                queue.fill_to(queue.max_offset + 1, end)

    def keep_claimed(self, claims: Iterable[DispatchRequest]) -> None:
        """The same for those that never had a unit, by what they say of themselves
        (``LogScanner.claimed``): other replicas know them by these numbers, and may have handed
        them out. Only the very next one of its queue is believed."""
        for claim in claims:
            key = claim.topic, claim.queue_id
            if not claim.is_queued or topic_problem(*key) is not None:
                continue
            queue = self._table.get(key)
            number = 0 if queue is None else queue.max_offset
            if claim.queue_offset != number or (
                queue is not None
                and claim.phy_offset < max(queue.end_phy_offset(), self._begin_phy_offset(queue))
            ):
                continue
            queue = self._queues.get_or_create(*key)
            log.error("%s lost its last message: it is damaged", queue)
            queue.fill_to(number + 1, claim.phy_offset + claim.size)

    def _judge(
        self, queue: ConsumeQueue, suspect: DispatchRequest, successor: DispatchRequest
    ) -> None:
        lost = suspect.queue_offset - queue.max_offset
        follows = successor.queue_offset - suspect.queue_offset
        # One that follows at a distance has lost messages before it itself; so far a wrong number
        # does not get by chance.
        if lost >= 0 and (follows == 1 or (follows > 1 and lost <= MOST_LOST)):
            self._jump(queue, suspect)
            return
        _leave_out(suspect, f"message {suspect.queue_offset} cannot follow {queue}")

    def _jump(self, queue: ConsumeQueue, request: DispatchRequest) -> None:
        """Go on with a record that is not the next one."""
        if _is_empty(queue):  # the oldest files of the log are gone
            queue.begin_at(request.queue_offset)
        else:
            log.error(
                "%s lost the messages %d..%d", queue, queue.max_offset, request.queue_offset - 1
            )
            queue.fill_to(request.queue_offset, request.phy_offset)
        self._append(queue, request)

    def _append(self, queue: ConsumeQueue, request: DispatchRequest) -> None:
        queue.append(CQ_UNIT.pack(request.phy_offset, request.size, self._code(queue, request)))

    def _code(self, queue: ConsumeQueue, request: DispatchRequest) -> int:
        """The tags code of a record, or the address of its extension."""
        code = self._plain_code(request)
        if self._ext is not None and not isinstance(request, NamedRequest):
            # only a message's own queue knows more
            code = self._ext.code_of(
                queue, request.topic, request.properties, code, request.store_timestamp
            )
        return code

    def _plain_code(self, request: DispatchRequest) -> int:
        """The tags code of a record, or when it is to be delivered. All that a unit in front of the
        last one may get: a start finds by that one where extensions end, and gives what lies behind
        to the next message."""
        in_schedule = request.topic == TopicName.SCHEDULE and not isinstance(request, NamedRequest)
        code = self._delivery_time(request) if in_schedule else None
        return tags_code_of(request.properties) if code is None else code

    def is_torn(self, last: DispatchRequest) -> bool:
        """The last record may have been cut inside of its properties, which no CRC covers: then it
        ends with zeros. After a kill its unit, which is written after it, is missing; a power
        failure may keep the unit and lose the last sector of the log. Nobody was told that it is
        stored."""
        if not last.properties.endswith(b"\0"):
            return False
        in_sector = (last.phy_offset + last.size) % SECTOR
        if 0 < in_sector <= len(last.properties) and not any(last.properties[-in_sector:]):
            return True
        queue = self._queues.get(last.topic, last.queue_id)
        return queue is None or not queue.has_unit(last.queue_offset, last.phy_offset, last.size)

    def _delivery_time(self, request: DispatchRequest) -> int | None:
        """What the queues of the schedule topic have in the place of a tags code
        (consumequeue-index.md §1.2)."""
        level = level_of(request.properties)
        if level > 0:
            return request.store_timestamp + delay_ms(self._delay_levels, level)
        return None


def keep_numbers(
    queues: ConsumeQueues,
    known: Mapping[QueueKey, QueueEnd],
    restarted: Set[ConsumeQueue],
    log_end: int,
) -> None:
    """Messages of which nothing is left, not even in the log, keep their numbers: they must not be
    given again."""
    for key, end in known.items():
        queue = queues.get_or_create(*key)
        if queue.max_offset >= end.next_offset or queue in restarted:
            continue
        if not _is_empty(queue) and queue.end_phy_offset() > end.phy_end >= 0:
            # a smaller number behind its end: deleted and made again, and that it was deleted is
            # not on the disk
            continue
        log.error("%s lost its last messages: the next one gets number %d", queue, end.next_offset)
        if _is_empty(queue):
            queue.begin_at(end.next_offset)
        else:
            queue.fill_to(end.next_offset, log_end)


def _is_empty(queue: ConsumeQueue) -> bool:
    return queue.max_offset == queue.min_offset


def _is_next_entry(queue: ConsumeQueue, request: DispatchRequest) -> bool:
    """The files have this record as the next message of its queue, or a filler unit that an earlier
    recovery wrote for it, which lies where it ends: its place was given to it when it was stored,
    whatever number it says now."""
    number, end = queue.max_offset, request.phy_offset + request.size
    return queue.has_unit(number, request.phy_offset, request.size) or queue.has_unit(
        number, end, FILLER_SIZE
    )


def _leave_out(request: DispatchRequest, problem: str) -> None:
    log.error("the record at %d is left out of the queues: %s", request.phy_offset, problem)
