"""The store of a slave: records of the master's commit log as they are, and their queues and index
(class HAClient, ``DefaultMessageStore.appendToCommitLog``; ha.md §4).

The order differs from ``put``: space in the log first, then the units of the queues, then the
bytes, all in one turn of the loop. So the queues are never behind the log (the checkpoint claims
both together), and when the disk is full in between, the units are taken back and nothing has
happened.
After a kill in between recovery drops the units behind the end of the log.

One file, though over 400 lines: queues and log are written in one step, or neither is.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from ...remoting.outages import Outages
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC,
    Reason,
    Records,
    Verdict,
    scan,
    size_and_magic,
)
from ...remoting.protocol.record.decode import whole_record
from ...remoting.protocol.record.layout import QUEUE_UNIT
from ...remoting.protocol.record.search import next_record
from ...remoting.protocol.record.units import QueueRun, queue_runs
from ..index.indexing import Indexing
from ..log.commit_log import CommitLog
from ..log.damage import DamagedRecords, lies_in
from ..model.config import CQ_UNIT_SIZE
from ..model.dispatch_request import DispatchRequest, request_of, requests_of
from ..model.errors import StoreFileError
from ..put.arrivals import Arrivals
from ..put.multi_dispatch import named_requests
from ..put.unit_rules import UnitRules
from ..queues.consume_queue import CQ_UNIT, FILLER_SIZE, MOST_NUMBER, ConsumeQueue
from ..queues.consume_queues import ConsumeQueues, topic_problem
from ..queues.fillers import MOST_LOST, fill_in
from ..recovery.queue_rebuild import QueueRebuild

log: Final = logging.getLogger(__name__)


BegunAnew = Callable[[str, Collection[int]], None]
"""Called with a topic and queues."""
_MANY_UNITS: Final = 4096
"""Bytes; more are better written without the mapping (``ConsumeQueue.extend_much``)."""


class ReplicaQueues(QueueRebuild):
    """Units for records that are known to be what the master has: nothing is held back, the record
    is believed."""

    def __init__(
        self, queues: ConsumeQueues, rules: UnitRules, damage: DamagedRecords, outages: Outages
    ) -> None:
        super().__init__(queues, rules, {}, whole=True)
        self._damage: Final = damage
        self._outages: Final = outages
        self.listeners: Final[list[Callable[[str], None]]] = []
        self.on_begun_anew: Final[list[BegunAnew]] = []

    def dispatch_records(self, records: Records) -> list[QueueRun]:
        """As that of any rebuild. Hot: what carries on its queue, where there is space for it, is
        written here."""
        runs, order, units = queue_runs(records)
        table, names, numbers = self._table, records.names, records.queue_offsets
        for topic_number, queue_id, begin, end, without_gap in runs:
            topic = names[topic_number]
            queue = table.get((topic, queue_id)) or self._queue_of(topic, queue_id)
            if (
                queue is not None
                and without_gap
                and numbers[order[begin]] == queue.max_offset
                and topic != TopicName.SCHEDULE
            ):
                data = units[begin * QUEUE_UNIT.size : end * QUEUE_UNIT.size]
                stop = queue.position + len(data)
                if stop <= queue.limit and len(data) < _MANY_UNITS:
                    queue.buffer[queue.position : stop] = data
                    queue.position = stop
                    queue.max_offset += end - begin
                else:
                    queue.extend_much(data)
            else:
                for number in order[begin:end]:
                    self.dispatch(request_of(records, number))
        return runs

    def _dispatch_one(self, request: DispatchRequest) -> None:
        queue = self._table.get((request.topic, request.queue_id))
        if queue is None:
            if (problem := topic_problem(request.topic, request.queue_id)) is not None:
                self._tell_left_out(request, f" of the queues: {problem}")
                return
            queue = self._made(request.topic, request.queue_id)
        if request.queue_offset != queue.max_offset:
            fitting = self._fitting(queue, request)
            if fitting is None:
                return
            queue = fitting
        self._append(queue, request)

    def fill_in(self, request: DispatchRequest) -> None:
        """Write the units of a record that has fillers, or is the next one of its queues; nothing
        where a queue has anything else.
        """
        if not request.is_queued:
            return
        for each in (request, *named_requests(request, self._rules)):
            queue = self._queue_of(each.topic, each.queue_id)
            if queue is None or not 0 <= each.queue_offset < MOST_NUMBER:
                continue
            if queue.max_offset < each.queue_offset and queue.known_end() < 0:
                queue.begin_at(each.queue_offset)
            if each.queue_offset < queue.max_offset:
                self._fill_in(queue, each)
            elif (
                queue.known_end() <= each.phy_offset
                and each.queue_offset <= queue.max_offset + MOST_LOST
            ):
                queue.fill_to(each.queue_offset, each.phy_offset)
                self._append(queue, each)

    def lacks(self, request: DispatchRequest) -> bool:
        """Whether there is something to ``fill_in``."""
        return request.is_queued and any(
            self._has_no_unit(self._table.get((each.topic, each.queue_id)), each.queue_offset)
            for each in (request, *named_requests(request, self._rules))
        )

    def _has_no_unit(self, queue: ConsumeQueue | None, number: int) -> bool:
        if queue is None or number >= queue.max_offset:
            return True
        begin = queue.files.start // CQ_UNIT_SIZE
        return number >= begin and _is_filler(queue.raw_unit(number))

    def _fill_in(self, queue: ConsumeQueue, request: DispatchRequest) -> None:
        unit = CQ_UNIT.pack(request.phy_offset, request.size, self._plain_code(request))
        fill_in(queue, request.queue_offset, unit)

    def _queue_of(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queue = self._table.get((topic, queue_id))
        if queue is None and topic_problem(topic, queue_id) is None:
            queue = self._made(topic, queue_id)
        return queue

    def _made(self, topic: str, queue_id: int) -> ConsumeQueue:
        self._tell(topic)
        return self._queues.get_or_create(topic, queue_id)

    def _tell_left_out(self, request: DispatchRequest, why: str) -> None:
        """Where one message cannot follow, those behind it cannot either."""
        self._outages.occurs(
            log,
            ("left out", request.topic, request.queue_id),
            "the record at %d is left out%s",
            request.phy_offset,
            why,
            level=logging.ERROR,
        )

    def _tell(self, topic: str) -> None:
        if self._rules is not None and self._rules.is_light(topic):
            return  # it has no configuration
        for listener in self.listeners:
            listener(topic)

    def _tell_begun_anew(self, request: DispatchRequest) -> None:
        for listener in self.on_begun_anew:
            listener(request.topic, (request.queue_id,))

    def _fitting(self, queue: ConsumeQueue, request: DispatchRequest) -> ConsumeQueue | None:
        """The queue, ready for a record that is not its next one; None when the record does not go
        there."""
        number, following = request.queue_offset, queue.max_offset
        unit = queue.unit(number)
        if unit is not None and unit[:2] == (request.phy_offset, request.size):
            return None  # it could not be taken back when others of its batch had no space
        if not 0 <= number < MOST_NUMBER:
            self._tell_left_out(request, f": {number} is no number of a message")
            return None
        if following == queue.min_offset:
            self._tell(request.topic)  # its topic may be a new one with an old name
            if number < following:
                self._queues.on_delete([(request.topic, request.queue_id)])
                self._tell_begun_anew(request)
            queue.begin_at(number)
        elif number == 0:  # the topic was deleted and made again
            log.warning("%s begins anew: its topic was deleted and made again at the master", queue)
            watched = queue.watched
            self._queues.delete(queue)
            queue = self._made(request.topic, request.queue_id)
            queue.watched = watched
            self._tell_begun_anew(request)
        elif following < number <= following + MOST_LOST:
            log.error("%s: the messages %d..%d are not there", queue, following, number - 1)
            queue.fill_to(number, request.phy_offset)
        elif _is_filler(unit):  # a start found the end of the log damaged: it comes again
            self._fill_in(queue, request)
            return None
        elif unit is not None and lies_in(self._damage.places)(unit[0]):
            queue.cut(unit[0])  # the master lost it before its queue had it: its number was free
        else:
            self._tell_left_out(request, f": message {number} cannot follow {queue}")
            return None
        return queue


def _is_filler(unit: tuple[int, int, int] | None) -> bool:
    return unit is not None and unit[1] == FILLER_SIZE


class ReplicaLog:
    """The write half of a slave's store. One thread calls it."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        arrivals: Arrivals,
        indexing: Indexing | None,
        rules: UnitRules,
        damage: DamagedRecords,
        outages: Outages,
    ) -> None:
        self._log: Final = commit_log
        self._damage: Final = damage
        self._queues: Final = queues
        self._arrivals: Final = arrivals
        self._indexing: Final = indexing
        self._rebuild: Final = ReplicaQueues(queues, rules, damage, outages)
        self.on_new_queue: Final = self._rebuild.listeners
        """Called with the topic of a queue that a record makes, or begins anew."""
        self.on_begun_anew: Final = self._rebuild.on_begun_anew
        """Called with queues that had messages of a topic that was deleted: what anybody knows of
        their numbers counts no more."""
        self._one_by_one: Final = rules.ext is not None or rules.dispatch is not None
        self._noted: list[Records | DispatchRequest] = []
        self._found = 0
        self._newest: int | None = None
        """Where the last record begins that is known; what lies behind it is no record, or came
        with it."""
        self.records: int = 0
        self.size_bytes: int = 0
        """Taken since the store was opened, for the statistics."""

    @property
    def waiting(self) -> int:
        """Messages that the index does not have yet: who writes much faster than it is built has to
        wait."""
        return 0 if self._indexing is None else self._indexing.waiting

    def append(
        self,
        phy_offset: int,
        data: bytes | memoryview,
        records: Records | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        """Write bytes of one file at the end of the log (an empty log may begin with any file), and
        have the records in them in their queues. ``records``: they are ``data``, whole;
        ``verdict``: why it is one that is not intact; without them it is looked up what is. Raises
        OutOfSpaceError, StoreFileError; then nothing was written.
        """
        self._log.make_room_at(phy_offset, len(data))
        self._noted, self._found = [], 0
        try:
            timestamp = (
                self._look_up(bytes(data), phy_offset, verdict)
                if records is None
                else self._dispatch(records)
            )
            self._log.append(data)
        except StoreFileError:
            self._take_back(phy_offset)
            raise
        self._log.last_store_timestamp = timestamp or self._log.last_store_timestamp
        self._have_indexed(len(data))

    def take_in(self, records: Records) -> None:
        """Records that lie in the log already get their units. Raises StoreFileError; then they
        have none."""
        self._noted, self._found = [], 0
        try:
            self._dispatch(records)
        except StoreFileError:
            self._take_back(records.phy_offsets[0])
            raise
        self._have_indexed(records.end - records.at[0])

    def _take_back(self, phy_offset: int) -> None:
        """The units of records there and behind. A queue that cannot be read just now has none of
        them: what was written to is mapped."""
        self._newest = None
        for queue in self._queues.all():
            with contextlib.suppress(StoreFileError):
                queue.cut(phy_offset)

    def _have_indexed(self, size: int) -> None:
        """What was dispatched goes to the index, and is counted."""
        self.records += self._found
        self.size_bytes += size
        if self._indexing is not None:
            for noted in self._noted:
                self._indexing.note_records(noted) if isinstance(
                    noted, Records
                ) else self._indexing.note(noted)
        self._noted = []  # it may be a view of a file

    def _look_up(self, data: bytes, base: int, verdict: Verdict | None = None) -> int:
        """The same as ``_dispatch`` for bytes that may be damaged, or are (``verdict``)."""
        at = timestamp = 0
        if verdict is not None:
            at = self._dispatch_unusual(data, 0, base, verdict)
        while at < len(data):
            records, at, verdict = scan(data, base, at=at)
            if len(records):
                timestamp = self._dispatch(records)
            if at < len(data):
                at += self._dispatch_unusual(data, at, base, verdict)
        return timestamp

    def _dispatch(self, records: Records) -> int:
        """Units for all records; the time when the last one was stored."""
        if self._one_by_one:
            for request in requests_of(records):
                self._dispatch_one(request)
        else:
            table, names = self._queues.table, records.names
            for topic, queue_id, *_ in self._rebuild.dispatch_records(records):
                queue = table.get((names[topic], queue_id))
                if queue is not None and queue.watched:
                    self._arrivals.note(queue, 0, records.store_timestamps[-1])
            self._found += len(records)
            self._newest = records.phy_offsets[-1]
            if self._indexing is not None:
                self._noted.append(records)
        return records.store_timestamps[-1]

    def _dispatch_one(self, request: DispatchRequest) -> None:
        self._rebuild.dispatch(request)
        self._found += 1
        self._newest = request.phy_offset
        self._note(request)

    def _dispatch_unusual(self, data: bytes, at: int, base: int, verdict: Verdict) -> int:
        """A blank, or something damaged, which is kept as it came; a record that is whole has its
        unit nevertheless. Returns its size.
        """
        phy_offset, left, seen = base + at, len(data) - at, "as it came from the master"
        if verdict.reason is Reason.BLANK:
            if verdict.size != left:
                self._damage.note(phy_offset, left, verdict.problem, seen)
            return left
        if not verdict.size:
            size = (next_record(data, at + 1, base) or len(data)) - at
            self._damage.note(phy_offset, size, verdict.problem, f"{seen}; in no queue")
            return size
        message = whole_record(data, at)
        place = f"queue={message.topic}/{message.queue_id} offset={message.queue_offset}"
        self._damage.note(phy_offset, verdict.size, verdict.problem, f"{seen} {place}")
        self._dispatch_one(
            DispatchRequest(
                message.topic, message.queue_id, phy_offset, verdict.size, message.queue_offset,
                message.sys_flag,
                message.store_timestamp, message.raw_properties,
            )
        )  # fmt: skip
        return verdict.size

    def fill_in(self, data: bytes, phy_offset: int) -> None:
        """Records that were damaged when they came, and are intact now: their queues have fillers
        in the place of units."""
        for request in requests_of(scan(data, phy_offset).records):
            self._rebuild.fill_in(request)

    def lacking(self, records: Records) -> list[DispatchRequest]:
        """Those of them that ``fill_in`` would put into queues."""
        return [request for request in requests_of(records) if self._rebuild.lacks(request)]

    # -- who waits for them

    def _note(self, request: DispatchRequest) -> None:
        self._arrived(request.topic, request.queue_id, request.store_timestamp)
        if self._indexing is not None:
            self._noted.append(request)

    def _arrived(self, topic: str, queue_id: int, store_timestamp: int) -> None:
        queue = self._queues.table.get((topic, queue_id))
        if queue is not None and queue.watched:
            self._arrivals.note(queue, 0, store_timestamp)

    # -- what it ends with

    def last_record(self) -> tuple[int, bytes] | None:
        """Offset and bytes of the last record of the log, None when there is none."""
        commit_log = self._log
        for start in self._places_before_end():
            last, at = -1, start
            while at < commit_log.max_phy_offset:
                head = commit_log.read(at, BLANK_SIZE)
                size, magic = size_and_magic(head, 0) if head is not None else (0, 0)
                if size < BLANK_SIZE or magic not in (MAGIC, BLANK_MAGIC):
                    break
                last = at if magic == MAGIC else last
                at += size
            if last >= 0 and (record := commit_log.record(last)) is not None:
                self._newest = last
                return last, record
        return None

    def _places_before_end(self) -> Iterable[int]:
        """Where records begin that are not far from the end: the last that came; else the last of
        any queue (a look at all of them, once after a start), then the starts of the last files."""
        if self._newest is not None:
            yield self._newest
        units = (queue.unit(queue.max_offset - 1) for queue in self._queues.all())
        yield max(
            (unit[0] for unit in units if unit is not None and unit[1] != FILLER_SIZE), default=0
        )
        for file in reversed(self._log.files.files[-2:]):
            yield file.start
