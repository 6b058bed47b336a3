"""A DLedger log by indexes: what a Raft member asks of its log (``store/raft/entry_log.py``), over
the commit log whose records have heads.

The leader's records are put into the commit log by the writer, who knows nothing of this, a
follower's come through ``append``; what is new there is noted in the index, with its checksums,
when somebody asks who needs that, and at the latest when it is ``_NOTED_BYTES`` (``note``): two
small writes for each push would be a tenth of what it costs. Which index is where: remembered for
whoever reads on, told by the index, or found again in the log where a unit is missing or wrong.

One thread. What is taken back must not return after a power failure: that is synced on the spot.

Over 400 lines, as one file: every method relies on the same state, where entries lie and how far
they are noted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...remoting.outages import Outages
from ...remoting.protocol.bodies.dledger import Entry
from ...remoting.protocol.bodies.stored_entries import (
    StoredEntries,
    first_size,
    last_term,
    side_by_side,
)
from ...remoting.protocol.record.entries import entry_checksums, entry_units
from ...remoting.protocol.record.entry import (
    ENTRY_BLANK_MAGIC,
    ENTRY_HEAD,
    ENTRY_MAGIC,
    INDEX_UNIT,
    MAX_ENTRY_SIZE,
    entry_start,
    position_of_next,
)
from ...remoting.protocol.record.entry_verdict import EntryEnd
from ...remoting.protocol.record.layout import BLANK_SIZE
from ...remoting.protocol.record.scan import scan, scan_columns
from ..disk.mapped_file import MappedFile
from ..model.errors import StoreError, StoreFileError
from ..raft.entry_log import EntryLogError
from ..raft.old_log import NO_OLD_LOG, OldLog
from .commit_log import CommitLog
from .entry_checksums import CHECKSUM_UNIT
from .entry_index import EntryIndex
from .entry_recovery import EntryRecovery, first_entry

log: Final = logging.getLogger(__name__)

_HEAD: Final = ENTRY_HEAD.size
_UNIT: Final = INDEX_UNIT.size
_MOST_AT_ONCE: Final = 2 * MAX_ENTRY_SIZE
"""Of bytes that are looked at in one step."""
_MOST_LATER: Final = 256 << 10
"""The same, of what gets its units later."""
_NOTED_BYTES: Final = 64 << 10
"""Of entries that have no units yet. A kill leaves them without checksums."""
_MOST_REMEMBERED: Final = 64
"""Positions behind what was read: a reader is there the next time."""
_INDEX: Final = ("index", "write")
_UNREADABLE: Final = ("entry",)
_STORE_TIMESTAMPS: Final = 6
"""Which of the columns of a scan."""


class DledgerLog:
    """See the module. ``log.index`` is the number of the next entry; the log begins with entry
    ``_first``, which is ``log.index`` while it is empty."""

    def __init__(self, commit_log: CommitLog, index: EntryIndex, outages: Outages) -> None:
        self.log: Final = commit_log
        self.index: Final = index
        self._outages: Final = outages
        self.old_log: OldLog = NO_OLD_LOG
        """In front of the entries."""
        self.on_damaged: Callable[[int], None] = lambda _index: None
        """Told of an entry that somebody has asked for, and that is damaged."""
        self._first: int = 0
        self._noted: int = 0
        """Index of the next entry that gets a unit, or is known to lack one."""
        self._noted_position: int = commit_log.divided
        """Where it goes."""
        self._indexed_position: int = commit_log.divided
        """Of the entry with the index ``index.end``: behind that there are no units yet."""
        self._last_term: int = -1
        """Of the entry in front of ``_noted``."""
        self._appended: tuple[int, int] = (-1, -1)
        """How many there were after the last ``append``, or when the term of those began that the
        writer puts, and the term of the last one."""
        self._places: Final[dict[int, int]] = {}
        self._last_read: tuple[tuple[int, int, int], Sequence[Entry]] = ((-1, 0, 0), ())
        self._proven_from: int = commit_log.divided
        """What lies in front of that was not written by this process: a disk may have changed
        it."""

    def open(self, found: EntryRecovery) -> None:
        """The log ends where recovery has found its end; what lies behind that goes. Raises
        StoreFileError."""
        self.log.set_end(found.position)
        self.log.last_store_timestamp = found.store_timestamp
        self._first, self._last_term = max(0, found.begin_index), found.end_term
        self.log.index = found.end_index + 1
        self._proven_from = found.position
        self._moved(found.position)
        if found.begin_problem:
            self._tell_unreadable(self._first, found.begin_problem)

    # -- what there is

    @property
    def begin_index(self) -> int:
        """Of the first entry, -1 when there is none."""
        return self._first if self.log.index > self._first else -1

    @property
    def end_index(self) -> int:
        """Of the last entry, -1 when there is none."""
        return self.log.index - 1 if self.log.index > self._first else -1

    @property
    def end_term(self) -> int:
        """Term of the last entry, -1 when there is none. Nothing is read for that: all that a
        member decides depends on it, and who wrote what is not noted yet is known."""
        count, term = self._appended
        if count == self.log.index:
            return term
        return self._last_term if self._noted == self.log.index else self.log.term

    def begin_term(self, term: int) -> None:
        """What the writer puts from now on is of this one."""
        self._appended = self.log.index, self.end_term
        self.log.term = term

    def position_for(self, size: int) -> int:
        """Where an entry of ``size`` bytes, head included, goes behind the last one."""
        return position_of_next(self.log.max_phy_offset, size, self.log.files.file_size)

    def note(self, *, whole: bool = False) -> None:
        """Give units to the entries that the writer has put since; of those for which there was no
        room some, or all (``whole``: before an orderly stop). Raises EntryLogError where they
        cannot be read."""
        while self._noted_position < (end := self.log.max_phy_offset):
            file = self._file(self._noted_position)
            try:
                units, sums, stop = self._units(file, self._noted_position, self._noted, end)
            except StoreFileError as error:
                raise EntryLogError(str(error)) from error
            if not units and file.start == self.log.base:
                raise EntryLogError(f"no entry {self._noted} at {stop}, though it was just written")
            self._go_on_behind(units, sums, stop if units else file.end)
        while self.index.end < self._noted and self._catch_up() and whole:
            pass
        if self.index.end == self._noted:
            self._outages.works(_INDEX)

    def _note_much(self) -> None:
        """As ``note``, where there is much."""
        if self.log.max_phy_offset - self._noted_position >= _NOTED_BYTES:
            self.note()

    def _go_on_behind(self, units: bytes, sums: bytes, position: int) -> None:
        """The next entries have these units, and end there; none: a blank does."""
        if self.index.end == self._noted and self._write_units(self._noted, units, sums):
            self._indexed_position = position
        if units:
            self._noted += len(units) // _UNIT
            *_, self._last_term = INDEX_UNIT.unpack_from(units, len(units) - _UNIT)
        self._noted_position = position

    def _catch_up(self) -> bool:
        """A step of what could not be written into the index; whether it can now. Raises
        EntryLogError."""
        position = self._indexed_position
        file = self._file(position)
        try:
            stop = min(self._noted_position, position + _MOST_LATER)
            units, sums, behind = self._units(file, position, self.index.end, stop)
            if not units:
                stop = min(self._noted_position, position + MAX_ENTRY_SIZE)
                units, sums, behind = self._units(file, position, self.index.end, stop)
        except StoreFileError as error:
            raise EntryLogError(str(error)) from error
        if not units and file.end >= self._noted_position:
            raise EntryLogError(f"entry {self.index.end} at {position} is damaged")
        if not self._write_units(self.index.end, units, sums):
            return False
        self._indexed_position = behind if units else file.end
        return True

    def _write_units(self, first: int, units: bytes, sums: bytes) -> bool:
        """Whether that was possible. A full disk does not keep a member from going on: entries are
        found without units, and get them later."""
        if not units:
            return True
        try:
            self.index.checksums.write(first, sums)
            self.index.write(first, units)
        except StoreFileError as error:
            self._outages.fails(
                log, _INDEX, "entries are found without the index for now: %s", error
            )
            return False
        return True

    def _file(self, position: int) -> MappedFile:
        """The one that holds it. Raises EntryLogError."""
        file = self.log.files.find(position)
        if file is None:
            raise EntryLogError(f"no file of the log has position {position}")
        return file

    def _units(
        self, file: MappedFile, position: int, first: int, end: int
    ) -> tuple[bytes, bytes, int]:
        """The units of entries from a position on, their checksums, and behind the last of them."""
        data, place = self._data(file, position, min(end, file.end, position + _MOST_AT_ONCE))
        at = position - place
        units, stop = entry_units(data, at, min(len(data), end - place), first, place)
        sums = entry_checksums(data, at, stop, first, place)
        if data is not self.log.buffer:  # what was damaged since gets no checksum
            _, columns = scan_columns(data, 0, position, stop, True, False, (first, -1))
            sums = sums[: CHECKSUM_UNIT.size * len(columns[0])].ljust(len(sums), b"\0")
        return units, sums, place + stop

    def _data(self, file: MappedFile, position: int, end: int) -> tuple[Any, int]:
        """What holds some bytes, and where it begins: the mapping that is written to, without a
        copy, of what this process has written there, or what was read."""
        is_written = file.start == self.log.base and position >= self._proven_from
        if is_written and self.log.position <= file.solid:
            return self.log.buffer, file.start
        return file.read(position - file.start, end - position), position

    # -- reading

    def entries(self, first: int, max_bytes: int) -> Sequence[Entry]:
        """From index ``first`` on, at least one if there is one, then as long as they take no more
        than ``max_bytes`` together, and to the end of a file. The same object for the same question
        while nothing has changed. None where the first one is damaged, or cannot be read: that is
        logged, and who lacks it does not get it from here.
        """
        asked = first, max_bytes, self.log.index
        if self._last_read[0] == asked:
            return self._last_read[1]
        if not self._first <= first < self.log.index:
            return []
        try:
            self._note_much()
            found, stop = self._read(first, self._supposed(first), max_bytes)
            if not found:
                position = self._searched(first)[0]
                found, stop = self._read(first, position, max_bytes)
        except StoreError as error:
            self._tell_unreadable(first, str(error))
            if isinstance(error, EntryLogError):
                self.on_damaged(first)
            return []
        if not found:
            self._tell_unreadable(first, f"it is damaged at {stop}")
            self.on_damaged(first)
            return []
        self._remember(first + len(found), stop)
        self._last_read = asked, found
        return found

    def _tell_unreadable(self, index: int, problem: str) -> None:
        self._outages.occurs(
            log,
            _UNREADABLE,
            "entry %d cannot be read, a member that lacks it does not get it from this one "
            "(%s): hand leadership over (mqadmin transferLeader), then stop this member, move "
            "its folder dledger-<id> away and start it: it is filled again by the others",
            index,
            problem,
            level=logging.ERROR,
        )

    def _supposed(self, index: int) -> int:
        """Where an entry is, if what is remembered and its unit are right; -1: nobody knows."""
        known = self._places.get(index)
        if known is not None:
            return known
        self.note()
        place = self.index.place(index)
        return -1 if place is None else place.pos

    def _read(self, first: int, position: int, max_bytes: int) -> tuple[Sequence[Entry], int]:
        """None, if the first one is not there; and where what was read ends."""
        file = self.log.files.find(position)
        end = self.log.max_phy_offset if file is None else min(self.log.max_phy_offset, file.end)
        if file is None or position + _HEAD > end:
            return (), position
        stop = min(end, position + max(max_bytes, _HEAD))
        while True:
            data, place = self._data(file, position, stop)
            at, shown = position - place, min(len(data), stop - place)
            units, behind = entry_units(data, at, shown, first, place)
            if units and data is not self.log.buffer:  # a disk may have changed it since
                count = self._intact(data, behind, first, position, len(units) // _UNIT)
                units = units[: _UNIT * count]
            if units:
                _, pos, size, *_ = INDEX_UNIT.unpack_from(units, len(units) - _UNIT)
                found = bytes(memoryview(data)[at : pos + size - place])
                return StoredEntries(found, len(units) // _UNIT, first, position), pos + size
            magic, size = entry_start(data, position - place)
            if magic == ENTRY_BLANK_MAGIC:
                return self._read(first, file.end, max_bytes)
            if not stop < min(end, position + size):
                return (), position
            stop = min(end, position + size)  # it is longer

    def _intact(self, data: bytes, end: int, first: int, position: int, count: int) -> int:
        """How many of the ``count`` entries side by side in ``data[:end]`` are what was written,
        from the first on: their checksums say it, without those the records do."""
        all_right, wrong = self.index.checksums.verdict(data, 0, end, first, position)
        if all_right:
            return count
        _, columns = scan_columns(data, 0, position, end, True, False, (first, -1))
        return min(count, len(columns[0]), *wrong)

    def _remember(self, index: int, position: int) -> None:
        if len(self._places) >= _MOST_REMEMBERED:
            self._places.clear()
        self._places[index] = position

    def term_of(self, index: int) -> int:
        """Of an entry that is there. Raises EntryLogError."""
        return self._place_of(index)[1]

    def end_of(self, index: int) -> int:
        """Behind an entry that is there, or in front of the first one: where in the log. So far a
        member's records are committed. Raises EntryLogError."""
        if index == self._first - 1:
            return self._begin()
        position, _, size = self._place_of(index)
        return position + size

    def _begin(self) -> int:
        """Where the first entry is, or goes: at the beginning of a file."""
        return max(self.log.files.start, self.log.divided)

    def matches(self, entry: Entry) -> bool:
        """This very entry is stored, byte for byte."""
        return self.entries(entry.index, 1)[:1] == [entry]

    # -- where they lie

    def position_of(self, index: int) -> int:
        """Of an entry that is there. Raises EntryLogError."""
        return self._place_of(index)[0]

    def _place_of(self, index: int) -> tuple[int, int, int]:
        """Position, term and size, as the log has them."""
        self.note()
        if not self._first <= index < self.log.index:
            raise EntryLogError(f"there is no entry {index}, only {self._first}..{self.end_index}")
        try:
            known = self._places.get(index)
            found = None if known is None else self._head_at(known, index)
            if found is None and (place := self.index.place(index)) is not None:
                found = self._head_at(place.pos, index)
            return found or self._searched(index)
        except StoreFileError as error:
            raise EntryLogError(str(error)) from error

    def _head_at(self, position: int, index: int) -> tuple[int, int, int] | None:
        """The same of the entry at a position, if it is this one."""
        file = self.log.files.find(position)
        if file is None or position + _HEAD > min(file.end, self.log.max_phy_offset):
            return None
        magic, size, own, term, pos, *_ = ENTRY_HEAD.unpack(file.read(position - file.start, _HEAD))
        if magic != ENTRY_MAGIC or own != index or pos != position:
            return None
        return position, term, size

    def _searched(self, index: int) -> tuple[int, int, int]:
        """Its unit is missing or wrong: from the nearest entry in front of it whose unit is right,
        head by head. What is found on the way gets its units back."""
        number, position = self._nearest(index)
        while True:
            file = self._file(position)
            units, _, stop = self._units(file, position, number, self.log.max_phy_offset)
            end = self.index.end  # units behind it would have a hole in front
            self._write_units(number, units[: max(0, end - number) * _UNIT], b"")
            self.index.end = end
            position = stop if units else file.end
            number += len(units) // _UNIT
            if number > index:
                wanted = len(units) - _UNIT * (number - index)
                _, pos, size, _, term = INDEX_UNIT.unpack_from(units, wanted)
                return pos, term, size
            if not units and file.start == self.log.base:
                raise EntryLogError(f"entry {number} at {position} is damaged")

    def _nearest(self, index: int) -> tuple[int, int]:
        """An entry at or in front of ``index`` that is where its unit says, or the first one of a
        file."""
        step, number = 1, index
        while number > self._first:
            place = self.index.place(number)
            if place is not None and self._head_at(place.pos, number) is not None:
                return number, place.pos
            number, step = max(self._first, index - step), 2 * step
        return self._first, self._begin()

    # -- a follower's

    def append(self, entries: Sequence[Entry]) -> None:
        """Entries of a leader, side by side, behind the last one. Each has to be intact and to lie
        where it says. Raises EntryLogError; those in front of the one that is not, or for which
        there is no space, may be stored then: ``end_index`` says so."""
        at, count = 0, len(entries)
        while at < count:
            at += self._append_some(entries[at:] if at else entries, count - at)

    def _append_some(self, entries: Sequence[Entry], most: int) -> int:
        """Of ``most`` entries those of one file; how many."""
        begin = self.position_for(first_size(entries))
        room = self.log.files.file_size - begin % self.log.files.file_size - BLANK_SIZE
        data, count = side_by_side(entries, room)
        taken = entries if count == most else entries[: count or 1]
        timestamp = self._check(taken, count, data, begin, (self.log.index, self.end_term))
        end = self.log.max_phy_offset
        try:
            if self.log.position + len(data) > self.log.limit:
                self.log.make_room(len(data) - _HEAD)
            self.log.write_many(data)
        except StoreFileError as error:
            self._take_back_blank(end)
            raise EntryLogError(str(error)) from error
        self.log.index += count
        self._appended = self.log.index, last_term(taken)
        self.log.last_store_timestamp = timestamp
        self._note_much()
        return count

    def _take_back_blank(self, end: int) -> None:
        """An entry could not be written, the blank in front of it perhaps was. The next one to come
        may be shorter: it lies where the log ended. Raises EntryLogError."""
        if self.log.max_phy_offset != end:
            try:
                self.log.take_back(end)
            except StoreFileError as error:
                raise EntryLogError(str(error)) from error

    def _check(
        self,
        entries: Sequence[Entry],
        count: int,
        data: bytes | memoryview,
        begin: int,
        order: tuple[int, int],
    ) -> int:
        """All of them, ``count``, are intact and go on in this order: the index of the first one,
        the term of the one before it; when the last one was stored. Raises EntryLogError."""
        if not count:
            raise EntryLogError(
                f"entry {entries[0].index} takes {entries[0].size} bytes, a file of this log "
                f"{self.log.files.file_size}: all members need the same mappedFileSizeCommitLog"
            )
        if len(data) > MAX_ENTRY_SIZE and max(entry.size for entry in entries) > MAX_ENTRY_SIZE:
            raise EntryLogError(f"an entry takes more than {MAX_ENTRY_SIZE} bytes")
        _, columns = scan_columns(data, 0, begin, len(data), True, False, order)
        if len(columns[0]) == count:
            return columns[_STORE_TIMESTAMPS][-1]
        index, term = order
        _, at, verdict = scan(data, begin, head=_HEAD, after=EntryEnd(index - 1, term))
        raise EntryLogError(
            f"entry {index + len(columns[0])} of the leader cannot be stored at {begin + at}: "
            f"{verdict.problem}"
        )

    # -- taking back

    def truncate(self, end_index: int) -> None:
        """Entries behind ``end_index`` go, and that is durable; -1 empties a log that begins with
        entry 0. Raises EntryLogError; where a file failed, the log has to be opened again."""
        if end_index >= self.end_index:
            return
        if end_index < self._first - 1 or (end_index < self._first and self._first):
            raise EntryLogError(
                f"the log begins with entry {self._first}, it cannot end with {end_index}"
            )
        position, term = self._begin(), -1
        if end_index >= self._first:
            begin, term, size = self._place_of(end_index)
            position = begin + size
        try:
            self.log.take_back(position)
            self.index.cut(end_index + 1, self.log.index)
        except StoreFileError as error:
            raise EntryLogError(str(error)) from error
        self.log.index, self._last_term = end_index + 1, term
        self._moved(position)

    def check_first(self, entry: Entry) -> None:
        """A log can begin with it. Raises EntryLogError."""
        if entry.pos % self.log.files.file_size or min(entry.pos, entry.index) < 0:
            raise EntryLogError(
                f"a log cannot begin with entry {entry.index} at {entry.pos}: no file of "
                f"{self.log.files.file_size} bytes begins there; all members need the same "
                "mappedFileSizeCommitLog"
            )
        data, count = side_by_side((entry,), self.log.files.file_size - BLANK_SIZE)
        self._check((entry,), count, data, entry.pos, (entry.index, -1))

    def begin_with(self, entry: Entry) -> None:
        """The log becomes this one entry, whatever it was, with the file that begins at its
        position. Raises EntryLogError; where the entry is no good nothing has changed."""
        self.check_first(entry)
        try:
            self.log.begin_at(entry.pos)
            if not self.log.files.files:  # it did not end where the group begins
                self.old_log = NO_OLD_LOG
            self.index.begin_at(entry.index)
        except StoreFileError as error:
            raise EntryLogError(str(error)) from error
        self._first = self.log.index = entry.index
        self._last_term = -1
        self._moved(entry.pos)
        self.append([entry])

    def first_file_gone(self) -> None:
        """Files in front are no part of the log any more: it begins with the first one that is
        left. Raises EntryLogError, then nothing is known of that yet."""
        start = self.log.files.start
        if self._indexed_position < start:
            self._leave_out(start)
        self.note()
        try:
            first, problem = first_entry(self._file(start), self.index, self.end_index)
            if first < self._first:
                raise EntryLogError(f"no entry at {start}, where a file begins")
            self._first = first
        except StoreFileError as error:
            raise EntryLogError(str(error)) from error
        self._places.clear()
        if problem:
            self._tell_unreadable(first, problem)

    def first_file_deleted(self) -> None:
        """They are off the disk: their units go as well. Raises StoreFileError."""
        self.index.drop_below(self._first)

    def _leave_out(self, start: int) -> None:
        """Entries that had no units yet are gone: the next one gets the first that is left. Raises
        EntryLogError."""
        try:
            first, _ = first_entry(self._file(start), self.index, self.end_index)
            if first < self.index.end:
                raise EntryLogError(f"no entry at {start}, where a file begins")
            self.index.begin_at(first)
        except StoreFileError as error:
            raise EntryLogError(str(error)) from error
        self._indexed_position = start
        if self._noted_position < start:
            self._noted, self._noted_position, self._last_term = first, start, -1

    def _moved(self, position: int) -> None:
        """The log ends there now."""
        self._proven_from = min(self._proven_from, position)
        self._noted, self._noted_position = self.log.index, position
        self._appended = -1, -1
        if self.index.end >= self._noted:
            self._indexed_position = position
        self._places.clear()
        self._last_read = (-1, 0, 0), []
