"""An entry that is damaged on the disk of a member, put right with that of another one.

A record of the same index is the same everywhere once it is committed. What comes has to prove
itself: it is the entry that the head in front of the damage names, and its record is intact.
"""

from __future__ import annotations

from ...remoting.protocol.bodies.dledger import Entry
from ...remoting.protocol.record import scan
from ...remoting.protocol.record.entry import ENTRY_HEAD, ENTRY_MAGIC, EntryHead
from ..log.commit_log import CommitLog
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


def put_right(commit_log: CommitLog, phy_offset: int, entry: Entry) -> int:
    """Write the record of an entry in the place of the damaged one; its size. Blocks: for a worker
    thread. Raises StoreFileError, and EntryLogError for an entry that is another one."""
    head = head_of(commit_log, phy_offset)
    records = scan(entry.body, phy_offset).records
    if (
        head is None
        or (entry.index, entry.term, entry.pos, entry.size)
        != (head.index, head.term, head.pos, head.size)
        or len(entry.body) != head.body_size
        or len(records) != 1
        or records.end != len(entry.body)
    ):
        raise EntryLogError(
            f"what came for the damaged record at {phy_offset} is entry {entry.index} of term "
            f"{entry.term}, {entry.size} bytes at {entry.pos}: not the same, or damaged itself"
        )
    file = commit_log.file_of(phy_offset, len(entry.body))
    if file is None:
        raise EntryLogError(f"the damaged record at {phy_offset} has expired")
    file.put_back(phy_offset - file.start, entry.body)
    return len(entry.body)
