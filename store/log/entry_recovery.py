"""Where a DLedger log ends after a stop of any kind (DLedgerMmapFileStore.load/recover).

As the original it begins three files before the end, or further in front where an entry is not what
its index unit says, or where less was on the disk, and reads on while heads go on from each other.
Unlike the original it believes no entry whose record is damaged, and it tells what lies behind the
end: nothing that was an entry (a write that was cut off), or entries that are lost with what is in
front of them. Who loses those may have acknowledged them, and must not vote before it has them
again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...remoting.protocol.record import Reason, Records, Verdict, body_crc
from ...remoting.protocol.record.entries import entry_units
from ...remoting.protocol.record.entry import ENTRY_HEAD, ENTRY_MAGIC
from ...remoting.protocol.record.entry_verdict import BEFORE_ALL, EntryEnd
from ...remoting.protocol.record.scan import entry_of
from ...remoting.protocol.record.walk import Gap, LogFile, LogWalk
from ..disk.mapped_file import MappedFile
from .commit_log import CommitLog
from .entry_index import EntryIndex

_FILES_READ: Final = 3
_HEAD: Final = ENTRY_HEAD.size


class EntryRecovery(NamedTuple):
    """What was found. Nothing is changed yet but the index, which agrees with it."""

    begin_index: int
    """-1: there is no entry."""
    end_index: int
    end_term: int
    position: int
    """Behind the last entry."""
    damaged: bool = False
    """Entries lie behind something that is none: they are lost, and were stored here."""
    problem: str = ""
    """What is there instead of the next entry; empty where the log simply ends."""
    store_timestamp: int = 0
    """Of the last entry; 0 for none."""
    begin_problem: str = ""
    """Why the head of the first entry is not believed."""


def recover_entries(
    commit_log: CommitLog, index: EntryIndex, *, trusted: int | None = None
) -> EntryRecovery:
    """Read the log, whose files are loaded, from where it may be wrong. ``trusted``: up to this
    entry all were on the disk, and nobody else has written since: it is read from there on. None:
    that is not known.

    Bodies are looked at whatever ``checkCRCOnRecover`` says: it is little, and what a power failure
    has torn would be sent, and counted. Raises StoreFileError."""
    start = commit_log.divided
    files = [file for file in commit_log.files.files if file.start >= start]
    index.end = 0
    if not files:
        return EntryRecovery(-1, -1, -1, start)
    recovery = _Recovery(files, index, trusted)
    if trusted is not None and trusted >= 0:
        recovery.go_to(trusted)
    return recovery.found()


class _Recovery:
    """One attempt after the other, each from further in front."""

    def __init__(self, files: list[MappedFile], index: EntryIndex, trusted: int | None) -> None:
        self._files: Final = files
        self._index: Final = index
        self._number = self._first_to_read(trusted)
        """Of the file that is read."""
        self._walk = self._begin()

    def _begin(self) -> LogWalk:
        """At the beginning of a file."""
        file = self._files[self._number]
        self._position = self._behind_last = file.start
        self._end = BEFORE_ALL
        self._timestamp = 0
        self._gap: Gap | None = None
        head = _first_head(file) if self._number else None
        after = None if head is None else EntryEnd(head.index - 1, head.term)
        return LogWalk(crc=body_crc, after=after)

    def go_to(self, trusted: int) -> None:
        """Begin with an entry, where that is less to read."""
        place = self._index.place(trusted)
        if place is None or place.pos <= self._position:
            return
        number = (place.pos - self._files[0].start) // self._files[0].size
        if number >= len(self._files):
            return
        file = self._files[number]
        start = file.read_unmapped(place.pos - file.start, _HEAD)
        if len(start) < _HEAD:
            return
        magic, size, index, term, pos, *_ = ENTRY_HEAD.unpack(start)
        if (magic, size, index, term, pos) == (
            ENTRY_MAGIC,
            place.size,
            trusted,
            place.term,
            place.pos,
        ):
            self._number, self._position = number, place.pos
            self._walk.after = EntryEnd(index - 1, term)

    def found(self) -> EntryRecovery:
        while True:
            begin = self._position
            while self._number < len(self._files) and self._gap is None:
                file = self._files[self._number]
                self._read(file, max(begin, file.start))
                self._number += 1
            first = self._files.index(next(file for file in self._files if file.end > begin))
            if self._position > begin or begin == self._files[0].start:
                break
            # nothing is left of that file, or of what was trusted
            self._number = first - (begin == self._files[first].start)
            self._walk = self._begin()
        self._index.clear_behind(self._end.index + 1)
        # the first file may not have been read
        return self._result(*first_entry(self._files[0], self._index, self._end.index))

    def _first_to_read(self, trusted: int | None) -> int:
        """Which file: as the original, but none behind what is known to be on the disk."""
        number = max(0, len(self._files) - _FILES_READ)
        while number:
            file = self._files[number]
            head = _first_head(file)
            if head is not None and (trusted is None or head.index <= trusted):
                place = self._index.place(head.index)
                if place is not None and place.pos == file.start:
                    break
            number -= 1
        return number

    def _read(self, file: MappedFile, begin: int) -> None:
        with file.reading() as read:
            log_file = LogFile(file.start, file.size, read, file.data_ranges, _HEAD)
            for found in self._walk.through(log_file, begin - file.start):
                if isinstance(found, Records):
                    self._take(found)
                    if self._gap is not None:
                        return
                elif found.verdict.reason is not Reason.BLANK:
                    self._gap = found
                    return
                else:
                    self._position = found.end

    def _take(self, records: Records) -> None:
        """Intact entries, as far as they show it; their units are put right."""
        at, end = records.at[0] - _HEAD, records.end
        place = records.phy_offsets[0] - records.at[0]
        first = ENTRY_HEAD.unpack_from(records.data, at)[2]
        known = self._index.checksums
        if wrong := known.wrong(records.data, at, end, first, place):
            self._end_at(records, wrong[0])
            if not wrong[0]:
                return
            records = records.first(wrong[0])
            end = records.end
        self._position = self._behind_last = place + end
        self._end = entry_of(records, -1)
        self._timestamp = records.store_timestamps[-1]
        units, _ = entry_units(records.data, at, end, first, place)
        if not self._index.agrees(first, units):
            self._index.write(first, units)

    def _end_at(self, records: Records, number: int) -> None:
        """This one is not what it was. Nothing of it is believed, for what goes on behind it."""
        before = entry_of(records, number - 1) if number else self._end
        self._walk.after = EntryEnd(before.index + 1, before.term)
        begin, size = records.phy_offsets[number] - _HEAD, records.sizes[number] + _HEAD
        problem = f"entry {before.index + 1} has another checksum than when it was written"
        self._gap = Gap(begin, begin + size, Verdict(Reason.CRC, problem, 0, size))

    def _result(self, begin_index: int, begin_problem: str) -> EntryRecovery:
        gap, damaged, problem = self._gap, False, ""
        if gap is not None:
            behind = self._files[self._number - 1 :]
            damaged = any(self._has_entries(file, gap.end) for file in behind)
            if damaged or gap.verdict.reason is not Reason.NOTHING:
                problem = f"at {gap.begin}: {gap.verdict.problem}"
        # A blank whose entry is not there goes: the next entry may be shorter, and others, who have
        # no blank there, have to find it at the same place.
        position = self._position if self._end == BEFORE_ALL else self._behind_last
        return EntryRecovery(
            begin_index, *self._end, position, damaged, problem, self._timestamp,
            begin_problem,
        )  # fmt: skip

    def _has_entries(self, file: MappedFile, begin: int) -> bool:
        """Any from a position on that may go on from the last one."""
        with file.reading() as read:
            log_file = LogFile(file.start, file.size, read, file.data_ranges, _HEAD)
            return self._walk.next_intact(log_file, max(0, begin - file.start)) is not None


def first_entry(file: MappedFile, index: EntryIndex, end: int) -> tuple[int, str]:
    """Index of the entry that the oldest file begins with, -1 for none up to ``end``; and what is
    wrong with its head, if anything is. No checksum has to be read for that: the units say which
    entry lies there. Where they say nothing the head is believed. Raises StoreFileError."""
    head, start = _first_head(file), file.start
    told = -1 if head is None else head.index
    for number in (told, index.first_from(start, end)):
        place = index.place(number) if 0 <= number <= end else None
        if place is not None and place.pos == start:
            wrong = "it has no head" if head is None else f"its head says that it is {told}"
            return number, "" if number == told else wrong
    return (told if told <= end else -1), ""


def _first_head(file: MappedFile) -> EntryEnd | None:
    """Index and term of the entry that a file begins with, if it looks like one."""
    magic, _, index, term, pos, *_ = ENTRY_HEAD.unpack(file.read_unmapped(0, _HEAD))
    return EntryEnd(index, term) if magic == ENTRY_MAGIC and pos == file.start else None
