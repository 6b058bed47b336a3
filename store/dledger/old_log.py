"""Where the commit log ends that a member has from before its group, and what its last bytes are.

Both are read from its last file, whoever closed that: nothing need be noted, and a file that was
copied from another member tells the same. The blank that closes it is the last thing in it that is
not zero, so that only its end is read.
"""

from __future__ import annotations

import zlib
from typing import Final

from ...remoting.protocol.record import BLANK_SIZE, blank_record
from ..disk.mapped_file import MappedFile
from ..log.commit_log import CommitLog
from ..raft.old_log import NO_OLD_LOG, UNTOLD, OldLog

_STEP: Final = 1 << 20
_PROOF: Final = 8 << 20
"""So many last bytes count, more than a record has. They tell which record is the last, with its
place in the log and its time; a slave has what its master had in front of it."""


def find_old_log(commit_log: CommitLog) -> OldLog:
    """Of a log whose entries begin at ``divided``. ``UNTOLD``: its end cannot be seen, for the
    last file ends with something else than a blank and zeros. Raises StoreFileError."""
    file = commit_log.files.find(commit_log.divided - 1)
    while file is not None:
        end = _blank_of(file)
        if end is None:
            return UNTOLD
        if end:
            return OldLog(file.start + end, _crc_of_last(file, end))
        file = commit_log.files.find(file.start - 1)  # it was made, and got no record
    return NO_OLD_LOG


def _blank_of(file: MappedFile) -> int | None:
    """Where in the file the blank begins that closes it."""
    end = _end_of_data(file)
    blank = max(0, end - BLANK_SIZE)
    found = file.read_unmapped(blank, BLANK_SIZE)
    return blank if found == blank_record(file.size - blank) else None


def _end_of_data(file: MappedFile) -> int:
    """Nothing but zeros lies behind that."""
    for start, stop in reversed(list(file.data_ranges(0))):
        with file.reading() as read:
            while start < stop:
                at = max(start, stop - _STEP)
                if data := read(at, stop - at).rstrip(b"\0"):
                    return at + len(data)
                stop = at
    return 0


def _crc_of_last(file: MappedFile, end: int) -> int:
    crc = 0
    with file.reading() as read:
        for at in range(max(0, end - _PROOF), end, _STEP):
            crc = zlib.crc32(read(at, min(_STEP, end - at)), crc)
    return crc
