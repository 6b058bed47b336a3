"""What is committed goes into queues and index, in the order of the log.

Both ends of what is dispatched are ends of entries. The log below ``end`` can be read; what lies
between it and ``target`` is committed and comes next, in slices of less than a millisecond.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Generator
from contextlib import closing
from typing import Final, NamedTuple

from ...remoting.protocol.record.entry import ENTRY_BLANK_MAGIC, ENTRY_HEAD, ENTRY_MAGIC
from ...remoting.protocol.record.entry_verdict import entry_verdict_of
from ...remoting.protocol.record.scan import ANY_ORDER, Records, scan_columns
from ..log.commit_log import CommitLog
from ..log.damage import DamagedRecords
from ..model.errors import StoreFileError
from ..replica.replica_log import ReplicaLog

log: Final = logging.getLogger(__name__)

_START: Final = struct.Struct(">iiq")
"""Magic, size and index of an entry."""
SLICE: Final = 128 << 10
"""Bytes of the log that are dispatched in one turn of the event loop."""


class CommittedRecords:
    """Of one store. One thread calls it."""

    def __init__(self, commit_log: CommitLog, replica: ReplicaLog, damage: DamagedRecords) -> None:
        self._log: Final = commit_log
        self._replica: Final = replica
        self.damage: Final = damage
        self.end: int = 0
        """Everything below is in queues and index, or in none for good."""
        self.last_store_timestamp: int = 0
        """Of the last record that is; 0 for none."""
        self.target: int = 0
        """Everything below is committed."""

    @property
    def lag(self) -> int:
        """Bytes that are committed and cannot be read yet."""
        return max(0, self.target - self.end)

    @property
    def unindexed(self) -> int:
        """Keys that are not in the index yet."""
        return self._replica.waiting

    def begin(self, end: int, last_store_timestamp: int) -> None:
        """All below ``end`` is dispatched: after opening, or when the log begins anew."""
        self.end = self.target = end
        self.last_store_timestamp = last_store_timestamp

    def commit(self, target: int) -> None:
        """Everything below is committed. Raises StoreFileError: that was more before."""
        if target < self.target:
            raise StoreFileError(
                self._log.files.directory,
                f"what is committed ends at {self.target} and cannot end at {target}",
            )
        self.target = target

    def step(self) -> bool:
        """Take in one slice; True when there is more. Raises StoreFileError: there is no space for
        units just now, and not all of it was taken in.
        """
        begin = self.end
        if begin < self.target:
            with closing(log_parts(self._log, begin, self.target, self.damage)) as parts:
                for part in parts:
                    if part.records is not None:
                        self._replica.take_in(part.records)
                        self.last_store_timestamp = part.records.store_timestamps[-1]
                    self.end = part.end
                    if self.end - begin >= SLICE:
                        break
        return self.end < self.target


class LogPart(NamedTuple):
    """Some entries that lie side by side."""

    records: Records | None
    """Of all of them; None for an entry without an intact one, and for a blank."""
    end: int
    """Where the log goes on behind them."""


def log_parts(
    commit_log: CommitLog, begin: int, stop: int, damage: DamagedRecords
) -> Generator[LogPart, None, None]:
    """The entries from ``begin`` to ``stop``, both of which are ends of entries. Those that hold no
    record are noted; bodies are not looked at, that was done when the entries came. Raises
    StoreFileError.

    Records are views of a mapping, good until the next ones are asked for: close the generator
    before anything else has a turn.
    """
    at, wanted = begin, SLICE
    while at < stop:
        file = commit_log.files.find(at)
        if file is None:
            raise StoreFileError(
                commit_log.files.directory, f"entries from {at} on are committed, and not there"
            )
        left = file.end - at
        data = file.view(at - file.start, min(wanted, stop - at, left))
        names, columns = scan_columns(data, 0, at, left, False, False, ANY_ORDER)
        wanted = SLICE
        if columns[0]:
            records = Records(data, names, *columns)
            at += records.end
            try:
                yield LogPart(records, at)
            finally:
                data.release()
            continue
        magic, size, index = _START.unpack_from(data) if len(data) >= _START.size else (-1, 0, 0)
        if magic == ENTRY_BLANK_MAGIC and file.end <= stop:
            at = file.end
            yield LogPart(None, at)
        elif magic == ENTRY_MAGIC and ENTRY_HEAD.size <= size <= min(left, stop - at):
            if size > len(data):
                wanted = size
                continue
            verdict = entry_verdict_of(data, 0, at, left)
            problem = f"{verdict.problem if verdict else 'no record'}; it is in no queue"
            damage.note(at + ENTRY_HEAD.size, size - ENTRY_HEAD.size, problem, f"entry={index}")
            at += size
            yield LogPart(None, at)
        else:
            data.release()  # the error may live longer than the mapping
            raise StoreFileError(file.path, f"no entry begins at {at}, where one is committed")
