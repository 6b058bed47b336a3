"""Opening the store of a member: where its entries begin and end, what of them is committed, and
whether they are all that it ever had.

A store that was none so far keeps its commit log: it is recovered as ever, its last file is closed
with a blank record, and entry 0 goes to the beginning of the next file (dledger.md §5.2). From
then on the old files are read only, and nothing is deleted before somebody has moved them away.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from ...remoting.protocol.record import BLANK_SIZE, blank_record, scan
from ...remoting.protocol.record.entry import ENTRY_HEAD
from ..files import StoreFiles
from ..log.commit_log import CommitLog
from ..log.entry_recovery import EntryRecovery, recover_entries
from ..model.config import MessageStoreConfig
from ..model.errors import StoreFileError
from ..raft.old_log import UNTOLD
from ..recovery.recovery import Recovery, RecoveryReport
from .member_recovery import MemberRecovery
from .old_log import find_old_log
from .raft_store import RaftStore

log: Final = logging.getLogger(__name__)


class MemberOpening:
    """The steps come in the order of the methods. All of them raise StoreFileError."""

    def __init__(self, files: StoreFiles, raft: RaftStore, config: MessageStoreConfig) -> None:
        self._files: Final = files
        self._log: Final = files.log
        self._raft: Final = raft
        self._config: Final = config
        self._entries = EntryRecovery(-1, -1, -1, 0)
        self._recovery: MemberRecovery | None = None
        self.converts: bool = False
        """The store was no member's so far."""

    def look(self, *, clean: bool) -> None:
        """The files are loaded. Nothing is changed but the entries' index. Raises StoreConfigError
        when they are another member's."""
        raft, log_ = self._raft, self._log
        raft.files.load()
        old = set(self._config.commit_log_paths)
        data = [file for file in log_.files.files if file.path.parent not in old]
        log_.divided = data[0].start if data else log_.files.end
        self.converts = not data and not raft.files.was_member
        raft.log.index.load()
        if not raft.files.has_checksums:
            raft.log.index.checksums.begin_at(0)
        self._entries = recover_entries(
            log_, raft.log.index, trusted=raft.files.trusted_index(clean=clean)
        )

    def recovery(self, *parts: Any, **options: Any) -> Recovery:
        """What brings queues and index up to the log; arguments as those of ``Recovery``."""
        if self.converts:
            return Recovery(*parts, **options)
        self._recovery = MemberRecovery(*parts, **options)
        return self._recovery

    def begin(self, *, clean: bool) -> None:
        """Before it runs: the log ends behind its last intact entry, and it is known what of it is
        committed."""
        if self._recovery is None:
            return
        raft, found = self._raft, self._entries
        damage = None
        if found.damaged:
            damage = f"its log is damaged {found.problem}, and goes on behind it"
        elif found.problem:
            log.warning(
                "the log ends with entry %d at %d, what lay behind was none and is cleared: half "
                "of one that a stop cut off (%s)",
                found.end_index, found.position, found.problem,
            )  # fmt: skip
        raft.log.open(found)
        safe = self._files.checkpoint.safe_phy_offset
        if damage is None and safe is not None and safe > found.position:
            # the marker is of another moment: it may say less than the checkpoint does
            damage = (
                f"it was on the disk and in its queues up to {safe}, and ends at {found.position}"
            )
        if not clean and self._may_be_torn():
            damage = (
                f"its last entry, {found.end_index}, cannot be read or may be cut off: it comes "
                "again from the leader"
            )
            raft.log.truncate(found.end_index - 1)
        raft.files.judge(raft.log.end_index, raft.log.end_term, damage, clean=clean)
        index = min(raft.files.committed_index, raft.log.end_index)
        if index < raft.log.begin_index or index < 0:
            raft.committed_index = -1
            self._recovery.stop = max(self._log.files.start, self._log.divided)
        else:
            raft.committed_index = index
            self._recovery.stop = raft.log.end_of(index)

    def _may_be_torn(self) -> bool:
        """Where no checksum of the last entry is known: no CRC of the format covers the properties
        at the end of a record. Where a stop has cut it there it looks whole; kept, it would be
        another one than that of the same number elsewhere."""
        log_ = self._raft.log
        known = log_.index.checksums.of(log_.end_index) is not None
        if log_.end_index <= log_.begin_index or known:
            return False
        place = log_.index.place(log_.end_index)
        data = b"" if place is None else self._log.files.read(place.pos, place.size)
        records = scan(data[ENTRY_HEAD.size :]).records
        return len(records) != 1 or records.properties(0).endswith(b"\0")

    def finish(self, report: RecoveryReport) -> None:
        """It has run."""
        raft, log_ = self._raft, self._log
        timestamp = log_.last_store_timestamp
        end = report.end
        if self._recovery is None:
            end = log_.divided = close_old_log(log_, end)
            raft.log.open(EntryRecovery(-1, -1, -1, end))
        try:
            raft.log.old_log = find_old_log(log_)
        except StoreFileError as error:
            raft.log.old_log = UNTOLD
            log.warning("other members are not told where the old commit log ends: %s", error)
        log_.last_store_timestamp = self._entries.store_timestamp or timestamp
        raft.opened(end, timestamp)


def close_old_log(commit_log: CommitLog, end: int) -> int:
    """Nothing more is written into the files that are there: where the next one begins. Raises
    StoreFileError."""
    file = commit_log.files.find(end)
    if file is None:
        return end
    if file.end - end >= BLANK_SIZE:
        file.put_back(end - file.start, blank_record(file.end - end))
    commit_log.set_end(file.end)
    log.info("the old commit log is closed at %d, entries begin at %d", end, file.end)
    return file.end
