"""Records of the commit log that no consume queue knows, found without reading all of it.

The units that point into a file of the commit log account for all of it, up to the blank at its end
(``Account``): then every record in it has its unit. Only files that do not add up (half messages
are in no queue, nor is what was damaged, or belongs to a topic that was deleted) are read, and each
of their records is looked up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ...remoting.protocol.record import BLANK_MAGIC, BLANK_SIZE, Records, size_and_magic
from ...remoting.protocol.record.layout import QUEUE_UNIT
from ...remoting.protocol.record.units import queue_runs
from ..disk.mapped_file import MappedFile
from ..log.commit_log import CommitLog
from ..log.log_scanner import LogScanner
from ..model.dispatch_request import DispatchRequest, request_of, requests_of
from ..put.multi_dispatch import DispatchRules, named_requests
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queues import ConsumeQueues, topic_problem
from ..queues.queue_ends import QueueKey
from ..queues.queue_survey import Doubt
from ..queues.queue_units import Account

log: Final = logging.getLogger(__name__)


class LogCoverage:
    """One look at the log below ``stop``."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        rules: DispatchRules | None,
        stop: int,
        *,
        check_crc: bool,
    ) -> None:
        self._log: Final = commit_log
        self._queues: Final = queues
        self._rules: Final = rules
        self._stop: Final = stop
        self._check_crc: Final = check_crc
        self._missing: dict[QueueKey, tuple[int, int, int]] = {}
        """Of each queue that lacks units: how many, the smallest number, where the last record
        lies."""
        self._begins: dict[QueueKey, tuple[int, int] | None] = {}
        """Number and place of the first message."""
        self._made_again: dict[str, int] = {}
        """Topics that were deleted and made again: where, at the latest."""

    def missing(
        self, accounts: Mapping[int, Account], was_deleted: Callable[[str], bool]
    ) -> dict[QueueKey, Doubt]:
        """The queues that lack units. Raises StoreFileError."""
        odd = [
            file
            for file in self._log.files.files
            if file.start < self._stop and not self._adds_up(file, accounts)
        ]
        if odd:
            log.info(
                "looking up the records of %d commit log files that the consume queues do not "
                "account for",
                len(odd),
            )
        for begin, end in _ranges(odd):
            self._look_up(begin, min(end, self._stop))
        return {
            key: Doubt(first, f"{count} messages from {first} on have no entry")
            for key, (count, first, last) in self._missing.items()
            if last >= self._made_again.get(key[0], -1)
            and not (self._is_empty(key) and was_deleted(key[0]))
        }

    def _adds_up(self, file: MappedFile, accounts: Mapping[int, Account]) -> bool:
        account = accounts.get(file.start // file.size, Account())
        end = file.start + account.end
        if not account.has_no_gap:
            return False
        if file.end > self._stop:
            return end == self._stop
        if end + BLANK_SIZE > file.end:
            return end == file.end
        blank, magic = size_and_magic(file.read_unmapped(end - file.start, BLANK_SIZE), 0)
        return magic == BLANK_MAGIC and blank == file.end - end

    def _is_empty(self, key: QueueKey) -> bool:
        queue = self._queues.table.get(key)
        return queue is None or queue.max_offset == queue.min_offset

    # -- the files that do not add up

    def _look_up(self, begin: int, end: int) -> None:
        scanner = LogScanner(self._log, check_crc=self._check_crc)
        for records in scanner.pieces(begin):
            if records.phy_offsets[0] >= end:
                break
            self._records(records)

    def _records(self, records: Records) -> None:
        if self._rules is not None or records.phy_offsets[-1] >= self._stop:
            for request in requests_of(records):
                self._record(request)
            return
        runs, order, units = queue_runs(records)
        for topic, queue_id, begin, end, without_gap in runs:
            queue = self._queues.table.get((records.names[topic], queue_id))
            expected = units[begin * QUEUE_UNIT.size : end * QUEUE_UNIT.size]
            first = records.queue_offsets[order[begin]] * QUEUE_UNIT.size
            if (
                queue is None
                or first < 0
                or not without_gap
                or queue.read_bytes(first, len(expected)) != expected
            ):
                for number in order[begin:end]:
                    self._record(request_of(records, number))

    def _record(self, request: DispatchRequest) -> None:
        if not request.is_queued or request.phy_offset >= self._stop:
            return
        for place in (request, *named_requests(request, self._rules)):
            key, number = (place.topic, place.queue_id), place.queue_offset
            if number < 0 or topic_problem(*key) is not None:
                continue
            queue = self._queues.table.get(key)
            if (
                queue is not None
                and number < queue.max_offset
                and queue.has_unit(number, request.phy_offset, request.size)
            ):
                continue
            begin = self._begin(key, queue)
            if begin is not None and request.phy_offset < begin[1] and number >= begin[0]:
                self._made_again[key[0]] = max(self._made_again.get(key[0], -1), begin[1])
                continue
            if begin is not None and request.phy_offset < begin[1]:
                number = 0  # the files in front of the first one that is left
            count, first, _ = self._missing.get(key, (0, number, 0))
            self._missing[key] = count + 1, min(first, number), request.phy_offset

    def _begin(self, key: QueueKey, queue: ConsumeQueue | None) -> tuple[int, int] | None:
        if key not in self._begins:
            first = None if queue is None else queue.first_message()
            self._begins[key] = None if first is None else first[:2]
        return self._begins[key]


def _ranges(files: list[MappedFile]) -> Iterator[tuple[int, int]]:
    """Files that follow each other, together."""
    begin = end = -1
    for file in files:
        if file.start != end:
            if end >= 0:
                yield begin, end
            begin = file.start
        end = file.end
    if end >= 0:
        yield begin, end
