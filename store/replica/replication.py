"""Master-slave replication of the commit log, without I/O (classes HAConnection, HAClient; ha.md
§2).

Slave to master, a report (8 bytes, big-endian)::

    0  8  maxPhyOffset     everything below is on the slave; the first report asks where to start,
                           0: from where you like

Master to slave, a batch (12 + n bytes)::

    0  8  physicOffset     where the batch starts; must equal what the slave has received
    8  4  bodySize         n; 0 is a heartbeat
   12  n  body             raw commit log bytes of one file, cut anywhere

``MasterSide`` is one connection at the master, ``SlaveSide`` (replica_stream.py) at the slave,
``replica_acks.py`` has what sends wait for. Bytes and the time (seconds) go in, values come out.
Invariants, all of which only grow::

    master:  acked <= sent <= end of the commit log
    slave:   acked <= written <= received      (with ``ack_after_flush`` acked <= flushed too)
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ..model.errors import StoreError

REPORT: Final = struct.Struct(">q")
BATCH_HEAD: Final = struct.Struct(">qi")


class ReplicationError(StoreError):
    """The logs of both sides do not go together, or the peer breaks the protocol: the connection
    has to end."""


class ReplicationSettings(NamedTuple):
    """Of both sides."""

    batch_size: int = 32_768
    """``haTransferBatchSize``"""
    heartbeat_s: float = 5.0
    """``haSendHeartbeatInterval``"""
    housekeeping_s: float = 20.0
    """``haHousekeepingInterval``: so long a peer may be silent."""
    fetch_from_first_file: bool = True
    """``haFetchFromFirstFile``: an empty slave gets all that the master has, else its last file
    only, as in the original."""
    ack_after_flush: bool = False
    """``haAckAfterFlush``: the slave reports what is on its disk, else what it has written."""


class LogRange(NamedTuple):
    """What a master has."""

    start: int
    end: int
    """Of what may be sent."""
    file_size: int
    written: int = 0
    """Where the log ends, if that lies further behind."""


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
        if report > (end := max(log.end, log.written)):
            raise ReplicationError(
                f"the slave is ahead: it has the log up to {report}, this master up to {end}. "
                "Whatever it knows more is "
                "lost to the master; copy what is needed from it, then empty its store"
            )
        if self.sent < 0:
            self.sent = self._start_for(report, log)
        elif report > self.sent:
            raise ReplicationError(
                f"the slave reports {report}, it was sent nothing behind {self.sent}"
            )
        self.acked = max(self.acked, report)

    def _start_for(self, report: int, log: LogRange) -> int:
        if report == 0:
            return (
                log.start
                if self._settings.fetch_from_first_file
                else max(log.start, log.end - log.end % log.file_size)
            )
        self._check_kept(report, log)
        return int(report)

    @staticmethod
    def _check_kept(offset: int, log: LogRange) -> None:
        if offset < log.start:
            raise ReplicationError(
                f"the slave needs the log from {offset} on, the oldest that is kept here is "
                f"{log.start}: it was away for "
                "too long; empty its store, so that it gets everything anew"
            )

    def wanted(self, log: LogRange, limit: int) -> tuple[int, int] | None:
        """Offset and size of what has to be sent next, in one file; None when there is nothing.
        Raises ReplicationError."""
        if self.sent < 0 or self.sent >= log.end:
            return None
        self._check_kept(self.sent, log)
        file_end = self.sent - self.sent % log.file_size + log.file_size
        return self.sent, min(limit, file_end - self.sent, log.end - self.sent)

    def batches(self, data: bytes | memoryview, now: float) -> list[bytes | memoryview]:
        """What to send, one after the other, for what ``wanted`` named: the head of a batch, its
        bytes, the next head ..."""
        step, view = self._settings.batch_size, memoryview(data)
        parts: list[bytes | memoryview] = []
        for at in range(0, len(data), step):
            body = view[at : at + step]
            parts += (BATCH_HEAD.pack(self.sent + at, len(body)), body)
        self.sent += len(data)
        self._written_at = now
        return parts

    def take_back(self, size: int) -> None:
        """The last ``size`` bytes, whole batches, were not sent after all."""
        self.sent -= size

    def heartbeat(self, now: float) -> bytes | None:
        """What to send when nothing else was for a while."""
        if self.sent < 0 or now - self._written_at <= self._settings.heartbeat_s:
            return None
        self._written_at = now
        return BATCH_HEAD.pack(self.sent, 0)

    def is_silent(self, now: float) -> bool:
        """Nothing was heard for too long."""
        return now - self._heard_at > self._settings.housekeeping_s


def unsent(parts: list[bytes | memoryview], written: int) -> tuple[bytes, int]:
    """Of ``batches``, when only ``written`` bytes of them were: what is missing of the batch that
    has begun (the first one has in any case), and how many bytes of the log are in those that have
    not.
    """
    if written == sum(map(len, parts)):
        return b"", 0
    at = 0
    for number in range(0, len(parts), 2):
        head, body = parts[number : number + 2]
        at += len(head) + len(body)
        if at >= written:
            missing = at - written
            tail = bytes(body[-missing:]) if 0 < missing <= len(body) else b""
            if missing > len(body):
                tail = bytes(head[len(body) - missing :]) + bytes(body)
            return tail, sum(map(len, parts[number + 3 :: 2]))
    return b"", 0
