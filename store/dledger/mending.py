"""An entry that is damaged on the disk of a member, put right with that of another one.

An entry of the same index is the same everywhere once it is committed. What comes has to prove
itself: its record is intact, and it has the checksum that was noted, or where none was it is the
entry that the head in front of the damage names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from ...remoting.protocol.bodies.dledger import Entry
from ...remoting.protocol.record import scan
from ...remoting.protocol.record.entries import join_entries
from ...remoting.protocol.record.entry import ENTRY_HEAD, ENTRY_MAGIC, EntryHead
from ..log.commit_log import CommitLog
from ..log.damage import DamagedRecords
from ..log.entry_index import EntryIndex
from ..log.entry_log import DledgerLog
from ..model.errors import StoreFileError
from ..raft.entry_log import EntryLogError

_HEAD = ENTRY_HEAD.size


def head_of(commit_log: CommitLog, phy_offset: int) -> EntryHead | None:
    """What stands in front of a record; None where that is no head of an entry (any more), or the
    record lies in an old log, which has none. Raises StoreFileError."""
    if not commit_log.head_at(phy_offset):
        return None
    data = commit_log.read(phy_offset - _HEAD, _HEAD)
    head = None if data is None else EntryHead._make(ENTRY_HEAD.unpack(data))
    if head is None or head.magic != ENTRY_MAGIC or head.pos != phy_offset - _HEAD:
        return None
    return head


class DamagedEntry(NamedTuple):
    """Its index (``number``), and where its record lies, behind its head."""

    number: int
    phy_offset: int
    size: int


def entries_in(index: EntryIndex, begin: int, end: int, last: int) -> Iterator[DamagedEntry]:
    """Those up to entry ``last`` whose heads or records begin in a part of the log, whatever is
    left of them: as their units say, up to one that says nothing. Raises StoreFileError."""
    number = index.first_from(begin - _HEAD, last)
    while number <= last and (place := index.place(number)) is not None and place.pos < end:
        yield DamagedEntry(number, place.pos + _HEAD, place.size - _HEAD)
        number += 1


def index_at(log: DledgerLog, phy_offset: int, last: int) -> int | None:
    """Of the entry whose record lies there; None where neither its head nor its unit says so.
    Raises StoreFileError."""
    if (head := head_of(log.log, phy_offset)) is not None:
        return head.index
    found = next(entries_in(log.index, phy_offset, phy_offset + 1, last), None)
    return None if found is None or found.phy_offset != phy_offset else found.number


def note_damaged(index: EntryIndex, damage: DamagedRecords, number: int) -> None:
    """Somebody needs this entry and cannot get it from here: others may have it. It lies where its
    unit says."""
    with contextlib.suppress(StoreFileError):
        if (place := index.place(number)) is not None:
            problem, seen = "another member cannot get it from here", f"entry={number}"
            damage.note(place.pos + _HEAD, place.size - _HEAD, problem, seen)


def put_right(commit_log: CommitLog, phy_offset: int, entry: Entry, checksum: int | None) -> int:
    """Write an entry in the place of the one whose record is damaged; the size of the record.
    ``checksum``: what is known of it. Blocks: for a worker thread. Raises StoreFileError, and
    EntryLogError for an entry that is another one."""
    if not _is_the_same(commit_log, phy_offset, entry, checksum):
        raise EntryLogError(
            f"what came for the damaged record at {phy_offset} is entry {entry.index} of term "
            f"{entry.term}, {entry.size} bytes at {entry.pos}: not the same, or damaged itself"
        )
    data, _ = join_entries((entry,), entry.size)
    file = commit_log.file_of(entry.pos, entry.size)
    if file is None:
        raise EntryLogError(f"the damaged record at {phy_offset} has expired")
    commit_log.put_back(file, entry.pos, data)
    return len(entry.body)


def _is_the_same(
    commit_log: CommitLog, phy_offset: int, entry: Entry, checksum: int | None
) -> bool:
    """By its checksum, whatever is left of its head; else by its head."""
    records = scan(entry.body, phy_offset).records
    whole = len(records) == 1 and records.end == len(entry.body) == entry.size - _HEAD
    if not whole or entry.pos != phy_offset - _HEAD:
        return False
    if checksum is not None:
        return crc32(join_entries((entry,), entry.size)[0]) == checksum
    head = head_of(commit_log, phy_offset)
    return head is not None and (entry.index, entry.term, entry.size) == (
        head.index,
        head.term,
        head.size,
    )
