"""The commit log that a member had before there was a group: read only, in front of its entries,
and no part of what Raft keeps equal. Members tell each other where theirs ends and what lies there.
A slave appends only where its log ends, what its master has there: logs with the same end and the
same last bytes are the same.

Who has less of it must not lead while somebody else can: messages would be gone from the queues,
and their numbers be given again. So it counts as the part of a log in front of the first entry,
and last: of two logs whose entries end alike the one with more of the old log is the better one.
Whose entries reach further may lead whatever lies in front, and so the best log of any majority is
always elected. Nobody counts who does not tell: members of the original, and of versions before.

Who has none of it may have removed it, for all in it was expired: once there are entries nobody
minds. While there are none it was forgotten, or the member is new, and then it has the least.
"""

from __future__ import annotations

from typing import NamedTuple


class OldLog(NamedTuple):
    """Of one member."""

    end: int | None
    """Where its last record ends; 0: there is none; None: the member does not tell."""
    crc: int | None = None
    """CRC32 of its last bytes (``store/dledger/old_log.py``)."""


NO_OLD_LOG = OldLog(0)
UNTOLD = OldLog(None)


def has_less(candidate: OldLog, voter: OldLog, *, no_entries: bool) -> bool:
    """Of two members whose entries end alike: the first one should not lead the second.
    ``no_entries``: neither has any."""
    if candidate.end is None or voter.end is None or not (candidate.end or no_entries):
        return False
    return candidate.end < voter.end


def differ(one: OldLog, other: OldLog) -> bool:
    """Both have one, and not the same."""
    return bool(one.end and other.end) and one != other
