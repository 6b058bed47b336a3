"""Consume queues against the log: every entry has its record, every record has its entry.

While the log is read, each record looks for its entry; which entries were found is kept as runs of
numbers. What is left over at the end is looked at one by one.

One file: both directions of the comparison, and what is said of each difference.

Over 400 lines: what makes an entry right is one rule, asked from its two ends, the record and the
entry, and its findings say which of them is at fault.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ...remoting.protocol.message.properties import find_property, tags_code_of
from ...remoting.protocol.message.sys_flag import UNQUEUED
from ...remoting.protocol.message.topic_names import TopicName, is_lmq_topic
from ...remoting.protocol.record import RecordError, decode_record
from ...store.inspect import ExtReader, QueueReader, StoreDirectory
from ...store.log.log_reader import FileSequence, LogRecord
from ...store.model.delay_levels import delay_ms, level_of
from ...store.queues.consume_queue import CQ_UNIT, FILLER_SIZE
from ...store.queues.consume_queue_ext import is_ext_address, offset_of_address
from ...store.queues.queue_ends import QueueKey
from .findings import Finding, Findings, span

__all__ = ["QueueCheck"]

_NO_UNIT: Final = bytes(CQ_UNIT.size)


class _Missing(NamedTuple):
    """Messages without an entry, with numbers that follow each other."""

    first: int
    last: int
    phy_offset: int


class _Queue:
    """What is known about one consume queue."""

    def __init__(self, topic: str, queue_id: int, reader: QueueReader | None) -> None:
        self.topic: Final = topic
        self.queue_id: Final = queue_id
        self.reader: Final = reader
        self.runs: list[tuple[int, int]] = []
        self.start = self.stop = 0
        """The run that grows: entries [start, stop) were found."""
        self.missing: list[_Missing] = []
        self.elsewhere: dict[int, int] = {}
        """Entries that point somewhere else than to the record with their number: number, physical
        offset of that record."""
        self.older = 0
        self.ext: ExtReader | None = None
        self._first_phy_offset: int | None = None

    def found(self, number: int) -> None:
        if number != self.stop:
            self.runs.append((self.start, self.stop))
            self.start = number
        self.stop = number + 1

    def lacks(self, number: int, phy_offset: int) -> None:
        if self.missing and self.missing[-1].last + 1 == number:
            self.missing[-1] = self.missing[-1]._replace(last=number)
        else:
            self.missing.append(_Missing(number, number, phy_offset))

    def first_phy_offset(self) -> int:
        """Where the first message lies; records in front of it belong to a deleted topic of the
        same name."""
        if self._first_phy_offset is None:
            self._first_phy_offset = -1
            for number in range(self.reader.first, self.reader.end) if self.reader else ():
                phy_offset, size, _ = (
                    CQ_UNIT.unpack(self.reader.unit(number) or _NO_UNIT)
                    if self.reader
                    else (0, 0, 0)
                )
                if size != FILLER_SIZE:
                    self._first_phy_offset = phy_offset
                    break
        return self._first_phy_offset

    def not_found(self) -> Iterator[int]:
        """The entries that no record asked for."""
        assert self.reader is not None
        number = self.reader.first
        for start, stop in sorted(
            [*self.runs, (self.start, self.stop), (self.reader.end, self.reader.end)]
        ):
            yield from range(number, min(start, self.reader.end))
            number = max(number, stop)


class QueueCheck:
    """One check of all consume queues; records come in the order of the log."""

    def __init__(
        self,
        directory: StoreDirectory,
        log: FileSequence,
        findings: Findings,
        *,
        delay_levels: tuple[int, ...],
        strict_levels: bool,
        recoverable: bool,
    ) -> None:
        self.units: int = 0
        self._directory: Final = directory
        self._log: Final = log
        self._findings: Final = findings
        self._delay_levels: Final = delay_levels
        self._strict_levels: Final = strict_levels
        self._recoverable: Final = recoverable
        self._damaged: list[tuple[int, int]] = []
        self._named: set[int] = set()
        """Records that a finding about an entry has named already."""
        self._table: Final[dict[tuple[str, int], _Queue]] = {}
        for path, fatal in directory.foreign_queues():
            if fatal:
                findings.damage(path, 0, "is not the folder of a topic: a broker will not start")
            else:
                findings.note(path, "is not the folder of a queue: brokers leave it alone")
        for reader in directory.queue_readers():
            queue = self._table[reader.topic, reader.queue_id] = _Queue(
                reader.topic, reader.queue_id, reader
            )
            ext_folder = directory.root / "consumequeue_ext" / reader.topic / str(reader.queue_id)
            if ext_folder.is_dir():
                queue.ext = ExtReader(ext_folder)
                for path, byte, problem in queue.ext.sequence.problems:
                    findings.damage(path, byte, problem)
            for path, byte, problem in reader.sequence.problems:
                findings.damage(path, byte, problem)
            for path, problem in reader.sequence.notes:
                findings.note(path, problem)
        self._compare_sizes()

    def _compare_sizes(self) -> None:
        """All files of all queues have one size; what differs inside of a queue was told
        already."""
        sequences = [
            queue.reader.sequence for queue in self._table.values() if queue.reader is not None
        ]
        counted = Counter(file.length for sequence in sequences for file in sequence.files)
        usual = max(counted, key=lambda size: (counted[size], size), default=0)
        for sequence in sequences:
            for file in sequence.files:
                if file.length != usual and file.length == sequence.file_size:
                    problem = (
                        f"is {file.length} bytes long, the files of most queues are {usual} "
                        "bytes long"
                    )
                    self._findings.damage(file.path, min(file.length, usual), problem)

    @property
    def readers(self) -> dict[QueueKey, QueueReader]:
        """The queues that are there."""
        return {key: queue.reader for key, queue in self._table.items() if queue.reader is not None}

    @property
    def queues(self) -> int:
        return sum(queue.reader is not None for queue in self._table.values())

    # -- while the log is read

    def damaged(self, begin: int, end: int) -> None:
        """A part of the log that cannot be read: entries may point into it."""
        self._damaged.append((begin, end))

    def record(self, record: LogRecord) -> None:
        """Look for the entry of a record."""
        if record.sys_flag & UNQUEUED:
            return
        key = (record.topic, record.queue_id)
        queue = self._table.get(key)
        if queue is None:
            queue = self._table[key] = _Queue(*key, None)
        if queue.reader is None:
            queue.lacks(record.queue_offset, record.phy_offset)
            return
        unit = queue.reader.unit(record.queue_offset)
        if record.topic != TopicName.SCHEDULE and unit == CQ_UNIT.pack(
            record.phy_offset, record.size, tags_code_of(record.properties)
        ):
            queue.found(record.queue_offset)
        else:
            self._look_closer(queue, queue.reader, record, unit)
        if b"INNER_MULTI_QUEUE_OFFSET\x01" in record.properties:
            self._multi_dispatch(record)

    def has_entry(self, record: LogRecord) -> bool:
        """There is any with its number."""
        queue = self._table.get((record.topic, record.queue_id))
        return (
            queue is not None
            and queue.reader is not None
            and any(queue.reader.unit(record.queue_offset))
        )

    def _look_closer(
        self, queue: _Queue, reader: QueueReader, record: LogRecord, unit: bytes
    ) -> None:
        number = record.queue_offset
        phy_offset, size, code = CQ_UNIT.unpack(unit or _NO_UNIT)
        if number < reader.first:
            queue.lacks(number, record.phy_offset)
        elif size <= 0 and phy_offset == 0:
            if not queue.first_phy_offset() > record.phy_offset:
                queue.lacks(number, record.phy_offset)
            else:
                queue.older += 1
        elif phy_offset != record.phy_offset:
            if record.phy_offset < queue.first_phy_offset():
                queue.older += 1
            else:
                queue.elsewhere[number] = record.phy_offset
        else:
            queue.found(number)
            path, byte = reader.where(number)
            if size != record.size:
                problem = (
                    f"entry {number} has the size {size}, its record at {phy_offset} is "
                    f"{record.size} bytes long"
                )
                self._findings.damage(path, byte + 8, problem)
            elif is_ext_address(code):
                self._check_ext(queue, record, code, path, byte + 12)
            elif problem := self._code_problem(record, code):
                self._findings.damage(path, byte + 12, f"entry {number} has {problem}")

    def _check_ext(
        self, queue: _Queue, record: LogRecord, address: int, path: Path, byte: int
    ) -> None:
        """The entry has an address: the extension must say what the record says, bitmaps aside."""
        entry = (
            f"entry {record.queue_offset} leads to {offset_of_address(address)} in consumequeue_ext"
        )
        unit = None if queue.ext is None else queue.ext.unit(address)
        if unit is None:
            self._findings.damage(path, byte, f"{entry}, where there is no unit")
        elif problem := self._code_problem(record, unit.tags_code):
            self._findings.damage(path, byte, f"{entry}, which has {problem}")
        elif unit.store_timestamp != record.store_timestamp:
            problem = (
                f"the store time {unit.store_timestamp}, its record at {record.phy_offset} has "
                f"{record.store_timestamp}"
            )
            self._findings.damage(path, byte, f"{entry}, which has {problem}")

    def _code_problem(self, record: LogRecord, code: int) -> str:
        expected = tags_code_of(record.properties)
        if record.topic == TopicName.SCHEDULE:
            level = level_of(record.properties)
            if level > 0:
                delay = code - record.store_timestamp
                known = delay_ms(self._delay_levels, level)
                if delay == known or (not self._strict_levels and delay >= 0 and delay % 1000 == 0):
                    return ""
                return (
                    f"the time of delivery {code}, {delay} ms after its record at "
                    f"{record.phy_offset} was stored; "
                    f"level {level} waits {known} ms"
                )
        if code == expected:
            return ""
        return (
            f"the tags code {code}, the tags of its record at {record.phy_offset} have {expected}"
        )

    def _multi_dispatch(self, record: LogRecord) -> None:
        """Entries of the same record in further queues (commitlog.md §5.1)."""
        names = (
            (find_property(record.properties, b"INNER_MULTI_DISPATCH") or b"")
            .decode("utf-8", "replace")
            .split(",")
        )
        numbers = (find_property(record.properties, b"INNER_MULTI_QUEUE_OFFSET") or b"").split(b",")
        for name, text in zip(names, numbers, strict=False):
            queue = self._table.get((name, 0 if is_lmq_topic(name) else record.queue_id))
            if queue is None or queue.reader is None or not text.isdigit() or len(text) > 18:
                continue
            unit = queue.reader.unit(int(text))
            if unit and CQ_UNIT.unpack(unit)[:2] == (record.phy_offset, record.size):
                queue.found(int(text))

    # -- at the end of the log

    def finish(self, log_end: int) -> None:
        """Tell what is left over."""
        self._damaged.sort()
        found: list[Finding] = []
        for queue in self._table.values():
            if queue.reader is not None:
                self.units += queue.reader.end - queue.reader.first
                found += self._left_over(queue, queue.reader, log_end)
                found += [
                    self._findings.at(path, 0, problem)
                    for path, problem in sorted(set(queue.reader.unreadable))
                ]
        topics = self._directory.topics()
        for queue in self._table.values():
            found += self._without_entry(queue, topics)
            self._notes(queue)
        self._findings.add(found)

    def _left_over(self, queue: _Queue, reader: QueueReader, log_end: int) -> Iterator[Finding]:
        fillers = into_damage = 0
        run: tuple[int, int, str] | None = (
            None  # entries that follow each other have one line if it says the same
        )
        lacking = [(item.first, item.last) for item in queue.missing]
        for number in queue.not_found():
            phy_offset, size, _ = CQ_UNIT.unpack(reader.unit(number) or _NO_UNIT)
            if size == FILLER_SIZE and number not in queue.elsewhere:
                fillers += 1
                continue
            if size > 0 and 0 <= phy_offset < self._log.start and number not in queue.elsewhere:
                continue  # its record has expired
            if self._is_damaged(phy_offset) and size > 0:
                into_damage += 1
                continue
            if (
                size <= 0
                and phy_offset == 0
                and any(first <= number <= last for first, last in lacking)
            ):
                continue
            problem = self._problem_of(queue, number, phy_offset, size, log_end)
            if run is not None and run[1] + 1 == number and run[2] == problem:
                run = (run[0], number, problem)
                continue
            if run is not None:
                yield self._about(reader, *run)
            run = (number, number, problem)
        if run is not None:
            yield self._about(reader, *run)
        if into_damage:
            text = f"entries that point into damaged parts of the commit log: {into_damage}"
            self._findings.note(reader.sequence.directory, text)
        if fillers:
            self._findings.note(
                reader.sequence.directory,
                f"fillers, which stand for messages that are not there: {fillers}",
            )

    def _about(self, reader: QueueReader, first: int, last: int, problem: str) -> Finding:
        path, byte = reader.where(first)
        subject = f"entry {first}" if first == last else f"each of the entries {span(first, last)}"
        recoverable = self._recoverable and "behind the end" in problem
        return self._findings.at(path, byte, f"{subject} {problem}", recoverable=recoverable)

    def _problem_of(
        self, queue: _Queue, number: int, phy_offset: int, size: int, log_end: int
    ) -> str:
        actual = queue.elsewhere.pop(number, None)
        hint = "" if actual is None else f"; message {number} is at {actual}"
        if size == 0 and phy_offset == 0:
            return "is all zeros"
        if size == FILLER_SIZE:
            return f"stands for a message that is not there{hint}"
        if phy_offset < 0 or size <= 0:
            return f"is not valid: physical offset {phy_offset}, size {size}{hint}"
        if phy_offset >= log_end:
            return f"points behind the end {log_end} of the commit log{hint}"
        if phy_offset < self._log.start:
            return f"points to {phy_offset}, in front of the commit log{hint}"
        self._named.add(phy_offset)
        return f"points to {phy_offset}, where {self._what_is_at(phy_offset)}{hint}"

    def _what_is_at(self, phy_offset: int) -> str:
        file = self._log.find(phy_offset)
        try:
            head = file.read(phy_offset - file.start, 4) if file is not None else b""
            size = int.from_bytes(head, "big", signed=True)
            message = decode_record(
                file.read(phy_offset - file.start, max(0, size)) if file is not None else b""
            )
        except (OSError, RecordError):
            return "no record begins"
        if message.commit_log_offset != phy_offset:
            return "no record begins"
        name = f"message {message.queue_offset} of {message.topic}/{message.queue_id}"
        return (
            f"a half message ({name}) lies"
            if message.sys_flag & UNQUEUED
            else f"the record says it is {name}"
        )

    def _without_entry(self, queue: _Queue, topics: set[str] | None) -> Iterator[Finding]:
        folder = self._directory.root / "consumequeue" / queue.topic
        if (
            queue.reader is None
            and topics is not None
            and queue.topic not in topics
            and not folder.is_dir()
        ):
            self._findings.note(
                folder, "is not there and nor is the topic in config/topics.json: it was deleted"
            )
            return
        for missing in queue.missing:
            if missing.first == missing.last and missing.phy_offset in self._named:
                continue
            which = "message " if missing.first == missing.last else "messages "
            text = (
                f"{which}{span(missing.first, missing.last)} of the commit log (from "
                f"{missing.phy_offset} on)"
            )
            if queue.reader is None:
                path, byte = folder / str(queue.queue_id), 0
                yield self._findings.at(
                    path, byte, f"is missing: {text} have no entry", recoverable=self._recoverable
                )
                continue
            path, byte = queue.reader.where(missing.first)
            behind = missing.first >= queue.reader.end
            has = "has" if missing.first == missing.last else "have"
            at_end = f", the queue ends at {queue.reader.end}" if behind else ""
            yield self._findings.at(
                path,
                byte,
                f"{text} {has} no entry{at_end}",
                recoverable=behind and self._recoverable,
            )
        for number, phy_offset in queue.elsewhere.items():
            if phy_offset not in self._named and queue.reader is not None:
                path, byte = queue.reader.where(number)
                problem = (
                    f"the record at {phy_offset} says it is message {number}, entry {number} "
                    "points to another one"
                )
                yield self._findings.at(path, byte, problem)

    def _notes(self, queue: _Queue) -> None:
        folder = self._directory.root / "consumequeue" / queue.topic / str(queue.queue_id)
        if queue.older:
            self._findings.note(
                folder, f"records of a deleted topic of the same name: {queue.older}"
            )

    def _is_damaged(self, phy_offset: int) -> bool:
        at = bisect_right(self._damaged, (phy_offset, 1 << 63)) - 1
        return at >= 0 and self._damaged[at][0] <= phy_offset < self._damaged[at][1]
