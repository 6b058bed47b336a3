"""Recovery: bring commit log and consume queues together after a stop of any kind (commitlog.md
§11).

The commit log is the truth, the consume queues are derived from it. In short::

    safe      a position such that every record below, and its consume queue unit, is surely there
    1. the queues below ``safe`` are checked; one that is not what it must be is in doubt
    2. every queue forgets its units of records at or behind ``safe``, one in doubt all that cannot
       be believed
    3. the log is read from where the first of them needs it; intact records get their units (none
       for prepared and rolled back ones): those below ``safe`` only in the queues that were in
       doubt
    4. the log ends behind the last intact record; what lies behind is cleared, in the queues too
    5. numbers that were given once are not given again: where the log has lost them there are
       filler units

``safe`` is the position of the checkpoint; without one (a broker of the original has worked here)
it is where the queues end after a clean stop, else what the timestamps say, else the start of the
log. What the queues must hold below it is known from ``queueends`` while that belongs to the
checkpoint (``queue_survey``): nothing of the log is read then. Else it comes from the log itself
(``log_coverage``). A contradiction that shows later means: everything again, from the start of the
log.

Kinder than the original in three ways. A damaged place in front of intact records is skipped (the
original cuts the log there and loses what follows); the lost messages keep their numbers as filler
units. Units missing below ``safe`` are noticed, as far as ``queue_survey`` looks, and made again.
Stale bytes behind the end are cleared, so that they can never be taken for records later.

One file, though over 400 lines: the steps share what is known and what is in doubt, and stand in
the order in which they are taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Final

import msgspec

from ...remoting.protocol.message.dispatched import dispatched_numbers
from ...remoting.protocol.message.index_keys import hash_keys, keys_of, topic_prefix
from ...remoting.protocol.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC,
    RecordError,
    Records,
    decode_record,
    size_and_magic,
)
from ...remoting.protocol.record.decode import MessageExt
from ..files import StoreFiles
from ..index.indexing import Indexing
from ..log.log_scanner import LogScanner
from ..model.config import CQ_UNIT_SIZE
from ..model.dispatch_request import request_of, requests_of
from ..put.unit_rules import UnitRules
from ..queues.consume_queue import FILLER_SIZE, ConsumeQueue
from ..queues.queue_ends import KnownEnds, QueueEnd, QueueKey
from ..queues.queue_survey import Doubt, QueueSurvey
from .log_coverage import LogCoverage
from .queue_rebuild import Begin, QueueRebuild, QueuesContradictError, keep_numbers

log: Final = logging.getLogger(__name__)

_NAMED: Final = 8
"""Queues of a topic that one log line tells about."""


class RecoveryReport(msgspec.Struct):
    """What recovery found, for one log line and for tests."""

    clean: bool
    start: int = 0
    """Physical offset from which the log was read."""
    end: int = 0
    records: int = 0
    """Intact records read."""
    damaged: list[tuple[int, int]] = []
    """Ranges of the log that were skipped: from, to."""
    full: bool = False
    """The queues contradicted the log, everything was read."""
    repaired: dict[QueueKey, Doubt] = {}
    """The queues that were in doubt."""


class Recovery:
    """One recovery of a store directory."""

    _may_be_torn = True
    """The last record may have been cut off."""

    def __init__(
        self,
        files: StoreFiles,
        indexing: Indexing | None,
        rules: UnitRules,
        *,
        check_crc: bool = True,
        progress: Callable[[int, int, int], None] | None = None,
        known: KnownEnds | None = None,
        was_deleted: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        """``indexing``: None when messages are not indexed. ``known``: what the queues held at the
        checkpoint, if that is certain. ``was_deleted``: somebody else may have deleted a topic of
        which nothing is left.
        """
        self._log: Final = files.log
        self._queues: Final = files.queues
        self._checkpoint: Final = files.checkpoint
        self._index: Final = files.index
        self._indexing: Final = indexing
        self._check_crc: Final = check_crc
        self._progress: Final = progress
        self._unit_rules: Final = rules
        self._ext: Final = rules.ext
        self._rules: Final = rules.dispatch
        self._known: Final = known
        self._was_deleted: Final = was_deleted
        self._survey: Final = QueueSurvey(self._queues, self._log.files.start)
        self._begins: dict[ConsumeQueue, Begin] = {}
        self._certain: set[ConsumeQueue] = set()
        self._restarted: Set[ConsumeQueue] = frozenset()

    def look(self) -> None:
        """Find out what the queues hold; nothing is changed. Comes before ``run``. Raises
        StoreFileError."""
        if self._known is not None:
            self._survey.compare(self._known)
        else:
            self._survey.derive(self._log.files.file_size)

    def run(self, *, clean: bool) -> RecoveryReport:
        """Recover. ``clean``: the last stop was an orderly one. Raises OutOfSpaceError or
        StoreFileError."""
        report = RecoveryReport(clean)
        safe = self._clean_end() if clean and self._known is None else self._safe_position()
        report.repaired = doubts = self._doubts(safe)
        start = safe if clean else self._index_start(safe)
        if doubts:
            self._claim_nothing()
        repairs = {key: min(safe, self._let_go(key, doubt)) for key, doubt in doubts.items()}
        for queue in self._queues.all():
            queue.files.drop_behind_hole()  # newer than the checkpoint, or in doubt anyway
            self._find_begin(queue, certain=clean or self._known is not None)
        start = min([start, *repairs.values()])
        if start < (self._checkpoint.safe_phy_offset or 0):
            # units are written again, and not synced before the next checkpoint
            self._claim_nothing()
        if doubts:
            log.warning(
                "%d consume queues are made again: the commit log is read from %d on",
                len(doubts),
                start,
            )
        try:
            self._replay(start, safe, repairs, report)
        except QueuesContradictError as contradiction:
            if safe == self._log.files.start:
                raise AssertionError("nothing lies below the start of the log") from contradiction
            log.warning(
                "consume queues do not agree with the commit log (%s): rebuilding all of them",
                contradiction,
            )
            self._claim_nothing()
            self._replay(self._log.files.start, self._log.files.start, {}, report)
            report.full = True
        self._finish_index(report.end)
        self._take_back_claims(report.end)
        self._end_log(report.end)
        if self._known is not None:
            keep_numbers(self._queues, self._kept_numbers(report.end), self._restarted, report.end)
        for queue in self._queues.all():
            self._finish_queue(queue, clean)
        self._log.files.new_files |= not clean  # after a crash nobody knows which names are durable
        self._tell_repaired(doubts)
        return report

    def _end_log(self, end: int) -> None:
        """Nothing lies behind the last record."""
        if self._log.set_end(end):
            log.warning(
                "the commit log ends at %d, what lay behind was no intact record and is cleared: "
                "half of one that a stop "
                "cut off, or damage; a slave that has it whole does not follow, and says so",
                end,
            )

    def _kept_numbers(self, _end: int) -> Mapping[QueueKey, QueueEnd]:
        """Where numbers go on that were given once, whatever the log has lost."""
        assert self._known is not None
        return self._known.queues

    def _finish_queue(self, queue: ConsumeQueue, clean: bool) -> None:
        if queue.finish():
            log.info("removed stale entries behind the end of %s", queue)
        if queue.ext is not None and self._ext is not None:
            queue.ext.finish()
            queue.ext.files.new_files |= not clean
        queue.correct_min_offset(self._log.min_phy_offset)
        queue.files.new_files |= not clean and not self._has_known_names(queue)
        queue.close()

    def _has_known_names(self, queue: ConsumeQueue) -> bool:
        """The names of all its files were durable at the checkpoint."""
        end = None if self._known is None else self._known.queues.get((queue.topic, queue.queue_id))
        files = queue.files.files
        return end is not None and bool(files) and files[-1].start < end.next_offset * CQ_UNIT_SIZE

    def _take_back_claims(self, end: int) -> None:
        """Before the log gets shorter than the checkpoint says, the checkpoint must say less."""
        if self._checkpoint.safe_phy_offset is not None and self._checkpoint.safe_phy_offset > end:
            self._checkpoint.safe_phy_offset = None
            self._checkpoint.save()

    def _claim_nothing(self) -> None:
        """Before something is deleted that the checkpoint may vouch for: should this be
        interrupted, everything is read."""
        checkpoint = self._checkpoint
        if (
            checkpoint.safe_phy_offset is not None
            or checkpoint.min_timestamp
            or checkpoint.index_msg_timestamp
        ):
            checkpoint.safe_phy_offset = None
            checkpoint.physic_msg_timestamp = checkpoint.logics_msg_timestamp = (
                checkpoint.index_msg_timestamp
            ) = 0
            checkpoint.save()

    # -- queues in doubt

    def _doubts(self, safe: int) -> dict[QueueKey, Doubt]:
        """The queues that are not what they must be below ``safe``."""
        doubts = self._survey.doubts
        if self._known is not None:
            self._leave_out_deleted(doubts)
        for queue in self._queues.all():
            key = queue.topic, queue.queue_id
            certain = self._known is not None and key in self._known.queues
            if (
                queue.ext is not None
                and self._ext is not None
                and not queue.ext.cut(queue.last_ext_address())
            ):
                doubts[key] = Doubt(0, "its extension has lost files")
            elif not certain and key not in doubts and not self._is_believed(queue, safe):
                doubts[key] = Doubt(0, "its last entry does not agree with the commit log")
        if self._known is None and safe > self._log.files.start:
            coverage = LogCoverage(
                self._log, self._queues, self._rules, safe, check_crc=self._check_crc
            )
            for key, doubt in coverage.missing(self._survey.accounts, self._was_deleted).items():
                if key not in doubts or doubt.kept < doubts[key].kept:
                    doubts[key] = doubt
        return doubts

    def _leave_out_deleted(self, doubts: dict[QueueKey, Doubt]) -> None:
        """A broker of the original that only deleted topics leaves no other trace."""
        left = self._queues.topics()
        gone = {topic for topic, _ in doubts if topic not in left and self._was_deleted(topic)}
        for key in [key for key in doubts if key[0] in gone]:
            del doubts[key]
        for topic in sorted(gone):
            log.warning(
                "the consume queues of %s are gone, and it is not in config/topics.json: it was "
                "deleted",
                topic,
            )
        if self._known is not None:
            for key in [key for key in self._known.queues if key[0] in gone]:
                del self._known.queues[key]

    def _is_believed(self, queue: ConsumeQueue, safe: int) -> bool:
        end = queue.count_below(safe)
        return end <= queue.min_offset or self._agrees(queue, end - 1)

    def _let_go(self, key: QueueKey, doubt: Doubt) -> int:
        """A queue forgets what cannot be believed; where the log is needed from for it."""
        queue, first = self._queues.get_or_create(*key), self._log.files.start
        ext = queue.ext if self._ext is not None else None
        if doubt.kept > queue.min_offset:
            queue.keep(doubt.kept)
            if (
                self._agrees(queue)
                and queue.end_phy_offset() >= first
                and (ext is None or ext.cut(queue.last_ext_address()))
            ):
                return queue.end_phy_offset()
        queue.clear()
        return first

    def _tell_repaired(self, doubts: dict[QueueKey, Doubt]) -> None:
        """One line for each topic."""
        by_topic: dict[str, list[str]] = {}
        for (topic, queue_id), doubt in sorted(doubts.items()):
            queue = self._queues.get_or_create(topic, queue_id)
            text = f"queue {queue_id}: {doubt.problem}; now {queue.min_offset}..{queue.max_offset}"
            by_topic.setdefault(topic, []).append(text)
        for topic, texts in by_topic.items():
            more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
            log.warning(
                "made again %d consume queues of %s: %s%s",
                len(texts),
                topic,
                "; ".join(texts[:_NAMED]),
                more,
            )

    # -- where to start

    def _clean_end(self) -> int:
        """After a clean stop nothing lies behind the end of the queues."""
        start = self._log.files.start
        ends = (
            queue.end_phy_offset()
            for queue in self._queues.all()
            if queue.end_phy_offset() > start and self._agrees(queue)
        )
        return max(ends, default=start)

    def _safe_position(self) -> int:
        first = self._log.files.start
        safe = self._checkpoint.safe_phy_offset
        if (
            safe is not None
            and self._known is not None
            and not self._ends_with_a_record(self._known.queues, safe)
        ):
            log.warning(
                "the commit log below %d is not what the checkpoint says: everything is read", safe
            )
            self._claim_nothing()
            return first
        if safe is None or not self._can_start_at(safe):
            safe = self._file_start_by_time()
        if self._known is None and all(queue.end_phy_offset() < 0 for queue in self._queues.all()):
            return first  # somebody has deleted them, to have them made again
        return max(safe, first)

    def _ends_with_a_record(self, known: Mapping[QueueKey, QueueEnd], safe: int) -> bool:
        """The last message in front of a position is still there."""
        ends = [
            (end.phy_end, key)
            for key, end in known.items()
            if self._log.files.start < end.phy_end <= safe
        ]
        key = max(ends)[1] if ends else None
        queue = None if key is None or key in self._survey.doubts else self._queues.get(*key)
        return queue is None or self._agrees(queue)

    def _can_start_at(self, offset: int) -> bool:
        """A position of the checkpoint is only believed when a record, a blank, or nothing at all
        begins there."""
        file = self._log.files.find(offset)
        if file is None:
            return offset == self._log.files.end
        start = file.read_unmapped(offset - file.start, BLANK_SIZE)
        magic = size_and_magic(start, 0)[1] if len(start) == BLANK_SIZE else None
        return magic in (MAGIC, BLANK_MAGIC) or start == bytes(len(start))

    def _file_start_by_time(self) -> int:
        """The start of the last file whose first record was stored safely before the checkpoint
        (§11.B2)."""
        limit = self._checkpoint.min_timestamp
        for file in reversed(self._log.files.files):
            first = self._first_record(file.start)
            if first is not None and 0 < first.store_timestamp <= limit:
                return file.start
        return self._log.files.start

    def _first_record(self, file_start: int) -> MessageExt | None:
        """Of a file."""
        return self._record_at(file_start)

    def _agrees(self, queue: ConsumeQueue, offset: int | None = None) -> bool:
        """The record that a unit points to is there and says the same about itself."""
        if offset is None:
            offset = queue.max_offset - 1
        unit = queue.unit(offset)
        if unit is None:
            return False
        phy_offset, size, _ = unit
        if size > 0 and (phy_offset < self._log.files.start or size == FILLER_SIZE):
            return True  # expired or lost: nothing to hold it against
        message = self._record_at(phy_offset)
        if message is None or message.store_size != size:
            return False
        if (message.topic, message.queue_id) == (queue.topic, queue.queue_id):
            return message.queue_offset == offset
        return (queue.topic, offset) in dispatched_numbers(message.raw_properties)

    def _find_begin(self, queue: ConsumeQueue, *, certain: bool) -> None:
        """The first message whose unit can be believed, if there is one."""
        first = queue.first_message()
        if first is None:
            return
        number, phy_offset, size = first
        if certain or self._agrees(queue, number):
            self._begins[queue] = Begin(number, phy_offset)
            self._certain.add(queue)
        elif self._is_damaged(phy_offset, size) and (
            self._agrees(queue, number + 1) or self._agrees(queue)
        ):
            self._begins[queue] = Begin(number, phy_offset)
        elif (second := self._believed_unit(queue, number + 1)) is not None:
            self._begins[queue] = Begin(number + 1, second)

    def _is_damaged(self, phy_offset: int, size: int) -> bool:
        """Something like the record that a unit points to is there."""
        start = self._log.files.read(phy_offset, BLANK_SIZE)
        found, magic = size_and_magic(start, 0) if len(start) == BLANK_SIZE else (0, 0)
        return found == size > 0 or (magic == MAGIC and self._record_at(phy_offset) is None)

    def _believed_unit(self, queue: ConsumeQueue, number: int) -> int | None:
        """The physical offset of a message that is there and says that it has this number."""
        unit = queue.unit(number)
        if unit is None or unit[1] == FILLER_SIZE or unit[0] < self._log.files.start:
            return None
        return unit[0] if self._agrees(queue, number) else None

    def _record_at(self, phy_offset: int) -> MessageExt | None:
        """The intact record that begins at an offset. The end of the log is not known yet."""
        files = self._log.files
        start = files.read(phy_offset, BLANK_SIZE)
        if len(start) < BLANK_SIZE:
            return None
        size, _ = size_and_magic(start, 0)
        try:
            message = decode_record(files.read(phy_offset, max(size, 0)))
        except RecordError:
            return None
        return message if message.commit_log_offset == phy_offset else None

    def _index_start(self, start: int) -> int:
        """After a crash the index forgets what is not certain. Where it needs the log from, at most
        ``start``."""
        checkpoint = self._checkpoint
        safe = checkpoint.safe_phy_offset
        if safe is not None:
            needed = self._index.cut(
                safe,
                self._fits,
                trusted_until=checkpoint.index_msg_timestamp,
                on_damage=self._claim_nothing,
            )
        else:
            needed = self._index.drop_newer(
                checkpoint.index_msg_timestamp, on_loss=self._claim_nothing
            )
        if needed is None or needed >= start or self._indexing is None:
            return start
        needed = self._begin_of(needed)
        return needed if self._can_start_at(needed) else self._log.files.start

    def _begin_of(self, phy_offset: int) -> int:
        """Where the log is read from to come upon a record first."""
        return phy_offset

    def _fits(self, hashed: int, phy_offset: int) -> bool:
        """An item of the index has its message, as far as the log still has it."""
        if phy_offset < self._log.files.start:
            return True
        message = self._record_at(phy_offset)
        if message is None:
            return False
        keys = keys_of(message.raw_properties)
        return hashed in hash_keys([topic_prefix(message.topic)] * len(keys), keys)

    # -- the work

    def _finish_index(self, end: int) -> None:
        if self._indexing is not None:
            self._indexing.build_all()
        if self._index.end_phy_offset >= end:
            self._index.cut(end, self._fits)
        claimed = self._checkpoint.index_msg_timestamp
        self._checkpoint.index_msg_timestamp = min(claimed, self._index.complete_until)

    def _replay(
        self, start: int, safe: int, repairs: dict[QueueKey, int], report: RecoveryReport
    ) -> None:
        scanner = LogScanner(self._log, check_crc=self._check_crc)
        rebuild = QueueRebuild(
            self._queues,
            self._unit_rules,
            self._begins,
            certain=self._certain,
            whole=safe == self._log.files.start,
            safe=safe,
            repairs=repairs,
        )
        if self._indexing is not None:
            self._indexing.go_on()
        for queue in self._queues.all():
            queue.cut(safe)
            if queue.ext is not None and self._ext is not None:
                queue.ext.cut(queue.last_ext_address())
        report.start, report.records = start, 0
        data_end = scanner.data_end() if self._progress is not None else 0
        held: Records | None = None  # one behind: the last record of all is special
        for records in self._pieces(scanner, start):
            if held is not None:
                self._dispatch(held, rebuild)
            held = records
            report.records += len(records)
            if self._progress is not None:
                self._progress(scanner.end, data_end, report.records)
        if held is not None:
            last = request_of(held, -1)
            if last.phy_offset >= safe and self._may_be_torn and rebuild.is_torn(last):
                scanner.end = last.phy_offset
                report.records -= 1
                held = held.first(len(held) - 1)
            else:
                self._log.last_store_timestamp = last.store_timestamp
            self._dispatch(held, rebuild)
        rebuild.finish()
        if scanner.gaps:
            rebuild.keep_damaged(scanner.damaged)
            rebuild.keep_claimed(scanner.claimed())
        self._restarted = rebuild.restarted
        report.end, report.damaged = scanner.end, scanner.damaged
        for begin, stop, verdict, _ in scanner.gaps:
            log.error(
                "commit log is damaged from %d to %d: %d bytes are skipped (%s)",
                begin,
                stop,
                stop - begin,
                verdict.problem,
            )

    def _pieces(self, scanner: LogScanner, start: int) -> Iterator[Records]:
        """What queues and index are made of."""
        return scanner.pieces(start)

    def _dispatch(self, records: Records, rebuild: QueueRebuild) -> None:
        if not len(records):
            return
        if self._ext is not None or self._rules is not None:
            for request in requests_of(records):
                rebuild.dispatch(request)
        else:
            rebuild.dispatch_records(records)
        if self._indexing is not None:
            self._indexing.dispatch_records(records)
