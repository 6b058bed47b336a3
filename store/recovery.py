"""Recovery: bring commit log and consume queues together after a stop of any kind (commitlog.md §11).

The commit log is the truth, the consume queues are derived from it. In short::

    safe      position such that every record below, and its consume queue unit, is certainly there
    1. every queue forgets its units of records at or behind ``safe``
    2. the log is read from ``safe`` on; every intact record gets its unit (none for prepared and rolled back
    ones) 3. the log ends behind the last intact record; what lies behind is cleared, in the queues too

``safe`` is where the queues end after a clean stop (so nothing depends on the size of the store), else what
the checkpoint says, else the start of the log. Before it is believed the queues are held against the log; a
contradiction means: from the start.

Kinder than the original in three ways. A damaged record in front of intact ones is skipped (the original
cuts the log there and loses what follows); it keeps its number in the queue as a filler unit. A queue whose
records are missing below ``safe`` is noticed and rebuilt. Stale bytes behind the end are cleared, so that
they can never be taken for records later.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import msgspec

from ..remoting.protocol.message import MessageExt
from ..remoting.protocol.properties import find_property, tags_code_of
from ..remoting.protocol.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC,
    MIN_RECORD_SIZE,
    RecordError,
    body_crc,
    decode_record,
    head_struct,
    size_and_magic,
)
from ..remoting.protocol.topic_names import TopicName
from .checkpoint import Checkpoint
from .commit_log import CommitLog
from .consume_queue import CQ_UNIT, FILLER_SIZE, ConsumeQueue
from .delay_levels import UNKNOWN_LEVEL_DELAY_MS
from .mapped_file import MappedFile

__all__ = ["DispatchRequest", "LogScanner", "Recovery", "RecoveryReport"]

log = logging.getLogger(__name__)

_PREPARED_BIT: Final = 0x4
_MAGIC_BYTES: Final = struct.pack(">I", MAGIC)
_PHY_OFFSET: Final = struct.Struct(">q")


class DispatchRequest(msgspec.Struct, frozen=True, gc=False):
    """What consume queues and (later) the index want to know of a record (class DispatchRequest)."""

    topic: str
    queue_id: int
    phy_offset: int
    size: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes


class Queues(Protocol):
    """The consume queues, found or made."""

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue: ...

    def all(self) -> list[ConsumeQueue]: ...


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


class _QueuesContradict(Exception):
    """The consume queues below ``safe`` are not what the log says."""


class LogScanner:
    """Reads records of the commit log in order and tells where the intact ones end."""

    def __init__(self, commit_log: CommitLog, *, check_crc: bool = True) -> None:
        self._files: Final = commit_log.files
        self._check_crc: Final = check_crc
        self.end = commit_log.files.start
        """Behind the last intact record, after the scan."""
        self.damaged: list[tuple[int, int]] = []
        self._last_timestamp = 0

    def scan(self, start: int) -> Iterator[DispatchRequest]:
        """Every intact record from ``start`` on."""
        self.end = offset = start
        while (file := self._files.find(offset)) is not None:
            yield from self._scan_file(file, offset - file.start)
            following = file.end
            if self.end < following and self._blank_size(file, self.end - file.start) is None:
                intact = self._next_intact(self.end)
                if intact is None:
                    return
                self.damaged.append((self.end, intact))
                following = intact
            self.end = offset = following

    def _scan_file(self, file: MappedFile, position: int) -> Iterator[DispatchRequest]:
        """Records up to the first thing that is none; ``end`` tells where that is."""
        data, base, check_crc = file.map, file.start, self._check_crc
        topics: dict[bytes, str] = {}
        last = file.size - MIN_RECORD_SIZE
        while position <= last:
            head = head_struct(data[position + 39])
            if position + head.size > file.size:
                break
            (
                size, magic, crc, queue_id, _flag, queue_offset, phy_offset, sys_flag, _born, _born_host, store_timestamp,
                _store_host, _reconsume, _prepared, body_size,
            ) = head.unpack_from(data, position)  # fmt: skip
            if magic != MAGIC or phy_offset != base + position or body_size < 0 or position + size > file.size:
                break
            topic_at = position + head.size + body_size + 1
            end = position + size
            if topic_at >= end:
                break
            topic_end = topic_at + data[topic_at - 1]
            if topic_end + 2 > end or topic_end + 2 + (data[topic_end] << 8 | data[topic_end + 1]) != end:
                break
            if check_crc and body_crc(data[position + head.size : topic_at - 1]) != crc:
                break
            topic_bytes = data[topic_at:topic_end]
            topic = topics.get(topic_bytes) or topics.setdefault(topic_bytes, topic_bytes.decode("utf-8", "replace"))
            self.end = base + end
            self._last_timestamp = store_timestamp
            yield DispatchRequest(
                topic, queue_id, phy_offset, size, queue_offset, sys_flag, store_timestamp, data[topic_end + 2 : end]
            )
            position = end
        self.end = base + position

    def _blank_size(self, file: MappedFile, position: int) -> int | None:
        """How much the blank record at a position skips; None when there is none."""
        if position + BLANK_SIZE > file.size:
            return None
        size, magic = size_and_magic(file.map, position)
        return size if magic == BLANK_MAGIC else None

    def _next_intact(self, offset: int) -> int | None:
        """Where the next intact record begins: found by its magic, proved by its own offset, sizes and CRC.

        A record older than the last one is a leftover of a log that was cut here once, and not of this log.
        """
        for file in self._files.files:
            if file.end <= offset:
                continue
            for start, stop in file.data_ranges(max(0, offset - file.start)):
                found = self._find_record(file, max(start, offset - file.start), stop)
                if found is not None:
                    return found
        return None

    def _find_record(self, file: MappedFile, position: int, stop: int) -> int | None:
        data: Any = file.map
        while (magic_at := data.find(_MAGIC_BYTES, position, min(stop + 4, file.size))) >= 0:
            start = magic_at - 4
            position = magic_at + 1
            if start < 0 or start + MIN_RECORD_SIZE > file.size:
                continue
            if _PHY_OFFSET.unpack_from(data, start + 28)[0] != file.start + start:
                continue
            size = size_and_magic(data, start)[0]
            try:
                message = decode_record(data[start : start + max(0, size)], check_crc=True)
            except RecordError:
                continue
            if message.store_timestamp >= self._last_timestamp:
                return int(file.start + start)
        return None


class Recovery:
    """One recovery of a store directory."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: Queues,
        checkpoint: Checkpoint,
        *,
        check_crc: bool = True,
        delay_levels: tuple[int, ...] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._log: Final = commit_log
        self._queues: Final = queues
        self._checkpoint: Final = checkpoint
        self._check_crc: Final = check_crc
        self._delay_levels: Final = delay_levels
        self._progress: Final = progress

    def run(self, *, clean: bool) -> RecoveryReport:
        """Recover. ``clean``: the last stop was an orderly one. Raises OutOfSpaceError or StoreFileError."""
        report = RecoveryReport(clean)
        start = self._clean_start() if clean else None
        if start is None:
            start = self._safe_start()
        try:
            self._replay(start, report)
        except _QueuesContradict as contradiction:
            if start == self._log.files.start:
                raise AssertionError("nothing lies below the start of the log") from contradiction
            log.warning("consume queues do not agree with the commit log (%s): rebuilding all of them", contradiction)
            self._replay(self._log.files.start, report)
            report.full = True
        self._take_back_claims(report.end)
        self._log.set_end(report.end)
        for queue in self._queues.all():
            if queue.finish():
                log.info("removed stale entries behind the end of %s", queue)
            queue.correct_min_offset(self._log.min_phy_offset)
            queue.close()
        return report

    def _take_back_claims(self, end: int) -> None:
        """Before the log gets shorter than the checkpoint says, the checkpoint must say less."""
        if self._checkpoint.safe_phy_offset is not None and self._checkpoint.safe_phy_offset > end:
            self._checkpoint.safe_phy_offset = None
            self._checkpoint.save()

    # -- where to start

    def _clean_start(self) -> int | None:
        """The end of the queues, if the log agrees; None when it does not."""
        last = max(self._queues.all(), key=ConsumeQueue.end_phy_offset, default=None)
        end = -1 if last is None else last.end_phy_offset()
        if last is None or end <= self._log.files.start:
            return self._log.files.start
        return end if self._agrees(last) else None

    def _safe_start(self) -> int:
        first = self._log.files.start
        safe = self._checkpoint.safe_phy_offset
        if safe is None or not self._can_start_at(safe):
            safe = self._file_start_by_time()
        for queue in self._queues.all():
            queue_end = queue.first_where(lambda phy, _size: phy >= safe)
            if queue_end > queue.min_offset and not self._agrees(queue, queue_end - 1):
                log.warning("the end of %s does not agree with the commit log: everything is read", queue)
                return first
        return safe

    def _can_start_at(self, offset: int) -> bool:
        """A position of the checkpoint is only believed when a record, a blank, or nothing at all begins
        there.
        """
        file = self._log.files.find(offset)
        if file is None:
            return offset == self._log.files.end
        start = file.read(offset - file.start, BLANK_SIZE)
        magic = size_and_magic(start, 0)[1] if len(start) == BLANK_SIZE else None
        return magic in (MAGIC, BLANK_MAGIC) or start == bytes(len(start))

    def _file_start_by_time(self) -> int:
        """The start of the last file whose first record was stored safely before the checkpoint (§11.B2)."""
        limit = self._checkpoint.min_timestamp
        for file in reversed(self._log.files.files):
            first = self._record_at(file.start)
            if first is not None and 0 < first.store_timestamp <= limit:
                return file.start
        return self._log.files.start

    def _agrees(self, queue: ConsumeQueue, offset: int | None = None) -> bool:
        """The record that a unit points to is there and says the same about itself."""
        if offset is None:
            offset = queue.max_offset - 1
        unit = queue.unit(offset)
        if unit is None:
            return False
        phy_offset, size, _ = unit
        if phy_offset < self._log.files.start or size == FILLER_SIZE:
            return True  # expired or lost: nothing to hold it against
        message = self._record_at(phy_offset)
        return message is not None and (
            (message.store_size, message.topic, message.queue_id, message.queue_offset)
            == (size, queue.topic, queue.queue_id, offset)
        )

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

    # -- the work

    def _replay(self, start: int, report: RecoveryReport) -> None:
        for queue in self._queues.all():
            queue.cut(start)
        scanner = LogScanner(self._log, check_crc=self._check_crc)
        whole = start == self._log.files.start
        report.start, report.records = start, 0
        for request in scanner.scan(start):
            self._dispatch(request, whole=whole)
            self._log.last_store_timestamp = request.store_timestamp
            report.records += 1
            if self._progress is not None and report.records & 0xFFF == 0:
                self._progress(request.phy_offset, self._log.files.end)
        report.end, report.damaged = scanner.end, scanner.damaged
        for begin, stop in scanner.damaged:
            log.error("commit log is damaged from %d to %d: %d bytes are skipped", begin, stop, stop - begin)

    def _dispatch(self, request: DispatchRequest, *, whole: bool) -> None:
        if request.sys_flag & _PREPARED_BIT:  # prepared and rolled back messages are in no queue
            return
        queue = self._queues.get_or_create(request.topic, request.queue_id)
        if request.queue_offset != queue.max_offset:
            self._renumber(queue, request, whole=whole)
        queue.append(CQ_UNIT.pack(request.phy_offset, request.size, self.tags_code(request)))
        queue.last_store_timestamp = request.store_timestamp

    @staticmethod
    def _renumber(queue: ConsumeQueue, request: DispatchRequest, *, whole: bool) -> None:
        """The record is not the next one of its queue."""
        wanted = request.queue_offset
        if queue.max_offset == queue.min_offset or wanted < queue.max_offset:
            # A new queue; or one that was deleted and made again, because numbers never go back otherwise.
            queue.begin_at(wanted)
        elif whole:
            log.error("%s lacks the messages %d..%d", queue, queue.max_offset, wanted - 1)
            queue.fill_to(wanted, request.phy_offset)
        else:
            raise _QueuesContradict(f"{queue} ends before message {wanted}")

    def tags_code(self, request: DispatchRequest) -> int:
        """The tags code of a record; in the schedule topic the time of delivery (consumequeue-index.md
        §1.2).
        """
        if request.topic == TopicName.SCHEDULE and (level := find_property(request.properties, b"DELAY")):
            number = min(int(level), len(self._delay_levels)) if level.isdigit() else 0
            if number > 0:
                return request.store_timestamp + self._delay_levels[number - 1]
            if level.isdigit() and int(level) > 0:
                return request.store_timestamp + UNKNOWN_LEVEL_DELAY_MS
        return tags_code_of(request.properties)
