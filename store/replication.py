"""Master-slave replication of the commit log, without I/O (classes HAConnection, HAClient, GroupTransferService; ha.md §2).

Slave to master, a report (8 bytes, big-endian)::

    0  8  maxPhyOffset     everything below is on the slave; the first report asks where to start, 0: from where you like

Master to slave, a batch (12 + n bytes)::

    0  8  physicOffset     where the batch starts; must equal what the slave has received
    8  4  bodySize         n; 0 is a heartbeat
   12  n  body             raw commit log bytes of one file, cut anywhere

``MasterSide`` is one connection at the master, ``SlaveSide`` at the slave, ``ReplicaAcks`` is what sends wait for. Bytes and
the time (seconds) go in, values come out. Invariants, all of which only grow::

    master:  acked <= sent <= end of the commit log
    slave:   acked <= written <= received      (with ``ack_after_flush`` acked <= flushed too)

The slave hands on whole records only: each is checked to continue the chain (its magic, its size, its own offset) before a
byte of it reaches the log, and a batch that does not start where the last one ended is refused. So nothing is ever
overwritten, and a connection that is cut anywhere leaves a log that ends with a record.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ..remoting.protocol.record import BLANK_MAGIC, BLANK_SIZE, MAGIC, MIN_RECORD_SIZE
from .errors import StoreError
from .status import PutStatus

__all__ = [
    "BATCH_HEAD",
    "REPORT",
    "LogRange",
    "MasterSide",
    "Piece",
    "ReplicaAcks",
    "ReplicationError",
    "ReplicationSettings",
    "SlaveSide",
]

REPORT: Final = struct.Struct(">q")
BATCH_HEAD: Final = struct.Struct(">qi")
_SIZE_AND_MAGIC: Final = struct.Struct(">iI")
_RECORD_HEAD: Final = struct.Struct(">iI20xq")
"""Size, magic and the physical offset of a record."""
_LONGEST_RECORD: Final = 64 << 20
"""What is held of a record that has not come to its end; a frame that could have brought it is 16 MiB at most."""


class ReplicationError(StoreError):
    """The logs of both sides do not go together, or the peer breaks the protocol: the connection has to end."""


class ReplicationSettings(NamedTuple):
    """Of both sides."""

    batch_size: int = 32_768
    """``haTransferBatchSize``"""
    heartbeat_s: float = 5.0
    """``haSendHeartbeatInterval``"""
    housekeeping_s: float = 20.0
    """``haHousekeepingInterval``: so long a peer may be silent."""
    fetch_from_first_file: bool = True
    """``haFetchFromFirstFile``: an empty slave gets all that the master has, else its last file only, as in the original."""
    ack_after_flush: bool = False
    """``haAckAfterFlush``: the slave reports what is on its disk, else what it has written."""


class LogRange(NamedTuple):
    """What a master has."""

    start: int
    end: int
    file_size: int


class Piece(NamedTuple):
    """Whole records of one file, side by side."""

    phy_offset: int
    data: bytes
    starts: list[int]
    """Where in ``data`` they begin; a blank record is not among them."""


class MasterSide:
    """One slave, seen from the master."""

    def __init__(self, settings: ReplicationSettings, now: float) -> None:
        self.acked: int = -1
        """Everything below is on the slave; -1 before its first report."""
        self.sent: int = -1
        """Where the next batch starts; -1 before the slave's first report."""
        self._settings: Final = settings
        self._rest = b""
        self._heard_at = now
        self._written_at = now

    def receive(self, data: bytes, log: LogRange, now: float) -> None:
        """Reports of the slave; of several only the last one counts. Raises ReplicationError."""
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        self._heard_at = now
        if not whole:
            return
        (report,) = REPORT.unpack_from(data, whole - REPORT.size)
        if report < 0:
            raise ReplicationError(f"the slave reports the offset {report}")
        if report > log.end:
            raise ReplicationError(
                f"the slave is ahead: it has the log up to {report}, this master up to {log.end}. Whatever it knows more is "
                "lost to the master; copy what is needed from it, then empty its store"
            )
        if self.sent < 0:
            self.sent = self._start_for(report, log)
        elif report > self.sent:
            raise ReplicationError(f"the slave reports {report}, it was sent nothing behind {self.sent}")
        self.acked = max(self.acked, report)

    def _start_for(self, report: int, log: LogRange) -> int:
        if report == 0:
            return log.start if self._settings.fetch_from_first_file else max(log.start, log.end - log.end % log.file_size)
        self._check_kept(report, log)
        return int(report)

    @staticmethod
    def _check_kept(offset: int, log: LogRange) -> None:
        if offset < log.start:
            raise ReplicationError(
                f"the slave needs the log from {offset} on, the oldest that is kept here is {log.start}: it was away for "
                "too long; empty its store, so that it gets everything anew"
            )

    def wanted(self, log: LogRange, limit: int) -> tuple[int, int] | None:
        """Offset and size of what has to be sent next, in one file; None when there is nothing. Raises ReplicationError."""
        if self.sent < 0 or self.sent >= log.end:
            return None
        self._check_kept(self.sent, log)
        file_end = self.sent - self.sent % log.file_size + log.file_size
        return self.sent, min(limit, file_end - self.sent, log.end - self.sent)

    def batches(self, data: bytes, now: float) -> list[bytes | memoryview]:
        """What to send, one after the other, for what ``wanted`` named."""
        step, view = self._settings.batch_size, memoryview(data)
        parts: list[bytes | memoryview] = []
        for at in range(0, len(data), step):
            body = view[at : at + step]
            parts += (BATCH_HEAD.pack(self.sent + at, len(body)), body)
        self.sent += len(data)
        self._written_at = now
        return parts

    def heartbeat(self, now: float) -> bytes | None:
        """What to send when nothing else was for a while."""
        if self.sent < 0 or now - self._written_at <= self._settings.heartbeat_s:
            return None
        self._written_at = now
        return BATCH_HEAD.pack(self.sent, 0)

    def is_silent(self, now: float) -> bool:
        """Nothing was heard for too long."""
        return now - self._heard_at > self._settings.housekeeping_s


class SlaveSide:
    """The master, seen from a slave whose log ends at ``end`` with a whole record (and is on the disk up to there if that is
    what it reports). ``end`` 0: the log is empty and may start with any file.
    """

    def __init__(self, end: int, file_size: int, settings: ReplicationSettings, now: float) -> None:
        self.written: int = end
        """End of the log."""
        self.flushed: int = end
        self.received: int = end
        """Behind the last byte that has come; what lies behind ``written`` is held until its record is whole."""
        self.acked: int = -1
        """The last report; -1 before the first."""
        self._file_size: Final = file_size
        self._longest: Final = min(file_size, _LONGEST_RECORD)
        self._settings: Final = settings
        self._head = b""
        self._body_left = 0
        self._held: list[bytes | memoryview] = []
        self._held_size = 0
        self._needed = BLANK_SIZE
        """So much has to be held before it is worth looking at it again."""
        self._heard_at = now
        self._reported_at = now

    # -- the stream

    def receive(self, data: bytes, now: float) -> list[Piece]:
        """What comes from the master; the records to write. Raises ReplicationError, then nothing of ``data`` counts."""
        self._heard_at = now
        view, at = memoryview(data), 0
        while at < len(data):
            if self._body_left:
                part = view[at : at + self._body_left]
                self._held.append(part)
                self._held_size += len(part)
                self._body_left -= len(part)
                self.received += len(part)
            else:
                part = view[at : at + BATCH_HEAD.size - len(self._head)]
                self._head += part
                if len(self._head) == BATCH_HEAD.size:
                    self._begin_batch()
            at += len(part)
        return self._whole_records()

    def _begin_batch(self) -> None:
        offset, size = BATCH_HEAD.unpack(self._head)
        self._head = b""
        if not 0 <= size <= self._file_size:
            raise ReplicationError(f"the master announces a batch of {size} bytes, the files have {self._file_size}")
        if self.received == 0 and size:
            if offset < 0 or offset % self._file_size:
                raise ReplicationError(
                    f"the master starts at {offset}, where no file of {self._file_size} bytes begins: "
                    "mappedFileSizeCommitLog must be that of the master"
                )
            self.written = self.flushed = self.received = offset
        elif offset != self.received and self.received:
            raise ReplicationError(f"the master goes on at {offset}, this slave at {self.received}")
        self._body_left = size

    def _whole_records(self) -> list[Piece]:
        if self._held_size < self._needed:
            self._held = [part if isinstance(part, bytes) else bytes(part) for part in self._held]
            return []
        data = b"".join(self._held)
        pieces, end = self._split(data, self.received - self._held_size)
        self._held = [data[end:]] if end < len(data) else []
        self._held_size = len(data) - end
        return pieces

    def _split(self, data: bytes, base: int) -> tuple[list[Piece], int]:
        """The whole records of ``data``, a piece for each file, and where in it they end. Raises ReplicationError."""
        pieces: list[Piece] = []
        starts: list[int] = []
        at = begin = 0
        unpack, length, last = _RECORD_HEAD.unpack_from, len(data), len(data) - _RECORD_HEAD.size
        left = self._file_size - base % self._file_size
        while True:
            size, magic, phy_offset = unpack(data, at) if at <= last else (0, 0, 0)
            is_record = magic == MAGIC and phy_offset == base + at and MIN_RECORD_SIZE <= size <= left
            if not is_record:
                size = self._blank_size(data, at, base, left)
            if at + size > length:
                self._needed = self._holdable(base + at, size)
                break
            if is_record:
                starts.append(at - begin)
            left -= size
            at += size
            if not left:
                pieces.append(Piece(base + begin, data[begin:at], starts))
                begin, left, starts = at, self._file_size, []
        if at > begin:
            pieces.append(Piece(base + begin, data[begin:at] if begin or at < length else data, starts))
        return pieces, at

    def _blank_size(self, data: bytes, at: int, base: int, left: int) -> int:
        """How long the blank record there is, or how much is needed to see what is there. Raises ReplicationError."""
        known = len(data) - at
        if known < BLANK_SIZE:
            return BLANK_SIZE
        size, magic = _SIZE_AND_MAGIC.unpack_from(data, at)
        if magic == MAGIC and known < _RECORD_HEAD.size:
            return _RECORD_HEAD.size
        if magic != BLANK_MAGIC or size != left:
            raise self._broken(base + at, size, magic)
        return int(size)

    def _holdable(self, phy_offset: int, size: int) -> int:
        """Raises ReplicationError when more would have to be held than any record has."""
        if size > self._longest:
            raise ReplicationError(f"the record at {phy_offset} has {size} bytes, more than {self._longest}")
        return size

    @staticmethod
    def _broken(phy_offset: int, size: int, magic: int) -> ReplicationError:
        return ReplicationError(
            f"what the master sends for {phy_offset} is no record of that place (size {size}, magic {magic:08x}): the log "
            "is damaged there, or the files of both have not the same size (mappedFileSizeCommitLog)"
        )

    # -- reports

    def wrote(self, end: int, flushed: int) -> None:
        """The log ends at ``end`` now, and is on the disk up to ``flushed``."""
        self.written = max(self.written, end)
        self.flushed = max(self.flushed, min(flushed, end))

    def report(self, now: float) -> bytes | None:
        """What to tell the master, when there is news or it has heard nothing for a while."""
        end = self.written
        if self.acked >= 0 and self._settings.ack_after_flush:
            end = self.flushed
        if end <= self.acked and now - self._reported_at < self._settings.heartbeat_s:
            return None
        self.acked = max(end, self.acked)
        self._reported_at = now
        return REPORT.pack(self.acked)

    def is_silent(self, now: float) -> bool:
        """Nothing was heard for too long."""
        return now - self._heard_at > self._settings.housekeeping_s


class ReplicaAcks:
    """Sends that wait until slaves have them: no future and no task, a group completes in one go.

    ``confirmed`` is what ``in_sync_replicas`` slaves have; it never shrinks, for what a slave has had it keeps.
    """

    def __init__(self, in_sync_replicas: int, fall_behind_max: int, timeout_s: float) -> None:
        self.confirmed: int = 0
        self._wanted: Final = max(1, in_sync_replicas)
        self._fall_behind_max: Final = fall_behind_max
        self._timeout_s: Final = timeout_s
        self._replicas = 0
        self._waiters: deque[tuple[int, float, Callable[[PutStatus], None]]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def oldest_wait_s(self, now: float) -> float:
        """How long the oldest of them has waited."""
        return now - self._waiters[0][1] + self._timeout_s if self._waiters else 0.0

    def when_acked(self, phy_offset: int, now: float, done: Callable[[PutStatus], None]) -> None:
        """Call ``done`` with PUT_OK once slaves have everything below ``phy_offset``, with FLUSH_SLAVE_TIMEOUT when that
        takes too long, and at once with SLAVE_NOT_AVAILABLE when there are not enough slaves or they are too far behind.
        """
        if phy_offset <= self.confirmed:
            done(PutStatus.PUT_OK)
        elif self._replicas < self._wanted or phy_offset - self.confirmed >= self._fall_behind_max:
            done(PutStatus.SLAVE_NOT_AVAILABLE)
        else:
            self._waiters.append((phy_offset, now + self._timeout_s, done))

    def update(self, acked: Iterable[int]) -> None:
        """What the slaves that are connected now have acknowledged; -1 for those that have not said anything yet."""
        known = sorted((offset for offset in acked if offset >= 0), reverse=True)
        self._replicas = len(known)
        if self._replicas < self._wanted:
            return
        self.confirmed = max(self.confirmed, known[self._wanted - 1])
        while self._waiters and self._waiters[0][0] <= self.confirmed:
            self._waiters.popleft()[2](PutStatus.PUT_OK)

    def expire(self, now: float) -> None:
        """Tell those who have waited for too long."""
        while self._waiters and self._waiters[0][1] <= now:
            self._waiters.popleft()[2](PutStatus.FLUSH_SLAVE_TIMEOUT)
