"""What a follower says of a commit log from before the group that is not its leader's."""

from __future__ import annotations

import logging
from typing import Final

from ...store.raft.entry_log import EntryLog
from ...store.raft.old_log import OldLog, differ

log: Final = logging.getLogger(__name__)

_WHAT_TO_DO: Final = (
    "see docs/raft.md, A disk is lost: give this member an empty store with a copy of the "
    "leader's commitlog"
)


def tell_old_logs(entries: EntryLog, leader: str, leaders: OldLog) -> None:
    """It begins to follow."""
    own = entries.old_log
    if differ(own, leaders):
        log.error(
            "the old commit log of this member is not that of its leader %s: it ends at %s "
            "(crc %08x), the leader's at %s (crc %08x). Messages that only one of them has come "
            "and go with who leads. Where this one ends later have it lead first (mqadmin "
            "transferLeader), and do this with the other one; else %s",
            leader, own.end, own.crc or 0, leaders.end, leaders.crc or 0, _WHAT_TO_DO,
        )  # fmt: skip
    elif own.end == 0 and leaders.end:
        log.log(
            logging.ERROR if entries.end_index < 0 else logging.WARNING,
            "this member has no old commit log, its leader %s has one up to %d. That is right "
            "where it was removed because all in it was expired; else %s",
            leader, leaders.end, _WHAT_TO_DO,
        )  # fmt: skip
