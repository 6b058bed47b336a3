"""A slave's end of the stream from its master, without I/O (class HAClient; ha.md §4; the bytes:
replication.py).

Whole records only are handed on: each is checked to continue the chain (its magic, its size, its
own offset) before a byte of it reaches the log, and a batch that does not start where the last one
ended is refused. So nothing is ever overwritten, and a connection that is cut anywhere leaves a log
that ends with a record. Where the master's log is damaged the bytes up to its next record are
handed on as they came, together with that: offsets stay what they are.

Bytes are received into one buffer (``get_buffer``, ``buffer_updated``, as asyncio has them), where
the heads of batches are squeezed out, and go to the log from there::

    | records | half a record | head | bytes ... | head | bytes ..   what ``buffer_updated`` finds
    | records | half a record bytes ... bytes .. |                   what it looks at
              0                                                      where that is after the next
                                                                     ``get_buffer``
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...remoting.protocol.leaves import KIND
from ...remoting.protocol.record import (
    BLANK_SIZE,
    Reason,
    Records,
    Verdict,
    scan,
    size_and_magic,
    verdict_of,
)
from ...remoting.protocol.record.search import LOOKED_AT, next_record
from .replication import BATCH_HEAD, REPORT, ReplicationError, ReplicationSettings

BUFFER_BYTES: Final = 1 << 20
"""Size of the buffer; a longer record makes it larger for as long as it takes."""
_LEAST_BUFFER_BYTES: Final = 64 << 10
MOST_BUFFER_BYTES: Final = BUFFER_BYTES if KIND == "compiled" else _LEAST_BUFFER_BYTES
"""What is filled at once: what is received at once should take a millisecond. In Python a MiB of
the shortest records would take the loop 15 ms.
"""
REPORT_S: Final = 0.005
"""Reports come at most that often while more has come already than is taken at once."""
_LAST_OFFSET: Final = 2**63 - 1
_LONGEST_RECORD: Final = 64 << 20
"""What is held of a record that has not come to its end; a frame that could have brought it is 16
MiB at most."""


class Piece(NamedTuple):
    """Whole records of one file, side by side."""

    phy_offset: int
    data: bytes | memoryview
    """A view is good until the next ``get_buffer``."""
    records: Records | None = None
    """``None``: a blank, or something damaged."""
    verdict: Verdict | None = None
    """What is wrong with it, where the proof of that lies behind it (``Reason.SECTOR``)."""


class SlaveSide:
    """The master, seen from a slave whose log ends at ``end`` with a whole record (and is on the
    disk up to there if that is what it reports). ``end`` 0: the log is empty and may start with any
    file.
    """

    def __init__(self, end: int, file_size: int, settings: ReplicationSettings, now: float) -> None:
        self.written: int = end
        """End of the log."""
        self.flushed: int = end
        self.received: int = end
        """Behind the last byte that has come; what lies behind ``written`` is held until its record
        is whole."""
        self.acked: int = -1
        """The last report; -1 before the first."""
        self.late: bool = False
        """There was something to report, but ``report`` put it off for some milliseconds."""
        self._file_size: Final = file_size
        self._longest: Final = min(file_size, _LONGEST_RECORD)
        self._settings: Final = settings
        self._octets = bytearray(BUFFER_BYTES)
        self._buffer = memoryview(self._octets)
        self._done = 0
        """In front of that the buffer has what was handed on."""
        self._held = 0
        """Up to there it has bytes of the log."""
        self._needed = BLANK_SIZE
        """So much has to be held before it is worth looking at it again."""
        self._offered = 0
        """Size of the last ``get_buffer``."""
        self._more = False
        """It was filled: more has come already."""
        self._looked_up_to = 0
        """No record begins in front of that: something damaged lies there."""
        self._head = b""
        self._body_left = 0
        self._heard_at = now
        self._reported_at = now

    # -- the stream

    def get_buffer(self) -> memoryview:
        """Where the next bytes of the connection go. Pieces that were handed out before are not
        good any more."""
        begin, held = self._done, self._held - self._done
        size = max(BUFFER_BYTES, self._needed + _LEAST_BUFFER_BYTES)
        too_large = size < len(self._buffer) and held <= BUFFER_BYTES // 2
        if too_large or held + _LEAST_BUFFER_BYTES > len(self._buffer):
            old, self._octets = self._buffer, bytearray(size)
            self._buffer = memoryview(self._octets)
            self._buffer[:held] = old[begin : begin + held]
        elif begin:
            self._buffer[:held] = self._buffer[begin : begin + held]
        self._done, self._held = 0, held
        offered = self._buffer[held : held + MOST_BUFFER_BYTES]
        self._offered = len(offered)
        return offered

    def buffer_updated(self, count: int, now: float) -> list[Piece]:
        """So many bytes were put into the last ``get_buffer``; the records to write. Raises
        ReplicationError, then none of them counts.
        """
        self._heard_at = now
        self._more = count == self._offered
        buffer, put = self._buffer, self._held
        at, end = put, put + count
        while at < end:
            if left := self._body_left:
                size = left if left < end - at else end - at
                if at != put:
                    buffer[put : put + size] = buffer[at : at + size]
                put += size
                self._body_left = left - size
                self.received += size
            elif end - at >= BATCH_HEAD.size and not self._head:
                size = BATCH_HEAD.size
                self._begin_batch(*BATCH_HEAD.unpack_from(buffer, at))
            else:
                size = min(BATCH_HEAD.size - len(self._head), end - at)
                self._head += bytes(buffer[at : at + size])
                if len(self._head) == BATCH_HEAD.size:
                    head, self._head = self._head, b""
                    self._begin_batch(*BATCH_HEAD.unpack(head))
            at += size
        self._held = put
        return self._whole_records() if put >= self._needed else []

    def _begin_batch(self, offset: int, size: int) -> None:
        if not 0 <= size <= self._file_size:
            raise ReplicationError(
                f"the master announces a batch of {size} bytes, the files have {self._file_size}"
            )
        if self.received == 0 and size:
            if not 0 <= offset <= _LAST_OFFSET - self._file_size or offset % self._file_size:
                raise ReplicationError(
                    f"the master starts at {offset}, where no file of {self._file_size} bytes "
                    "begins: "
                    "mappedFileSizeCommitLog must be that of the master"
                )
            self.written = self.flushed = self.received = offset
        elif offset != self.received and self.received:
            raise ReplicationError(f"the master goes on at {offset}, this slave at {self.received}")
        self._body_left = size

    # -- the records in it

    def _whole_records(self) -> list[Piece]:
        """What lies behind them stays. Raises ReplicationError."""
        data = self._buffer[: self._held]
        base = self.received - self._held
        pieces: list[Piece] = []
        at = 0
        self._needed = BLANK_SIZE
        while at < len(data):
            left = self._file_size - (base + at) % self._file_size
            rest = data[at : at + left]
            records, size, verdict = scan(rest, base + at, left=left)
            if verdict.reason is Reason.MORE and 0 < verdict.size <= len(rest) - size and not size:
                records, size, verdict = scan(
                    rest[: verdict.size], base + at
                )  # nobody waits for the rest of its sector
            if size:
                pieces.append(Piece(base + at, rest[:size], records))
            else:
                size = self._unusual(at, base + at, left, verdict)
                if size > len(rest):
                    self._needed = self._holdable(base + at, size)
                    break
                found = verdict if verdict.reason is Reason.SECTOR else None
                pieces.append(Piece(base + at, rest[:size], verdict=found))
            at += size
        self._done = at
        return pieces

    def _unusual(self, at: int, phy_offset: int, left: int, verdict: Verdict) -> int:
        """How long that is which is no intact record, in a file that has ``left`` bytes more: a
        record that has not come to its end, or something damaged; or how much is needed to see what
        it is. Raises ReplicationError when the master has files of another size.
        """
        reason = verdict.reason
        if reason is Reason.MORE:
            return verdict.needed
        if reason is Reason.BLANK and left <= self._longest:
            return self._blank(at, phy_offset, verdict.size, left)
        if reason is Reason.SIZE:  # would it be a record if the file were longer?
            longer = verdict_of(self._buffer[: self._held], at, phy_offset, _LAST_OFFSET, crc=None)
            if longer is None or longer.needed > left:
                raise self._other_files(phy_offset, size_and_magic(self._buffer, at)[0], left)
            if longer.needed:
                return longer.needed
        if verdict.size and reason not in (Reason.BLANK, Reason.PLACE):
            return verdict.size
        return self._damaged(at, phy_offset, left)

    def _blank(self, at: int, phy_offset: int, size: int, left: int) -> int:
        """How long a blank is, or how much is needed to see it: to the end of its file. Where it
        has another size it is damaged, unless the next record begins where it says. Raises
        ReplicationError then: the master has other files.
        """
        if size == left:
            return left
        shown = self._held - at
        start = max(BLANK_SIZE, min(size, left), self._looked_up_to - phy_offset)
        found = self._next_record(at, start, phy_offset, shown)
        if found == size:
            raise self._other_files(phy_offset, size, left)
        if found is None and shown < size + LOOKED_AT <= self._longest:
            self._looked_up_to = phy_offset + max(start, shown - LOOKED_AT + 1)
            return shown + 1
        return left

    def _damaged(self, at: int, phy_offset: int, left: int) -> int:
        """How long that is which is damaged: up to the next record, which has to come first, or to
        the end of the file. Of more than any record has no more is held than of one.
        """
        shown = min(self._held - at, left)
        start = max(1, self._looked_up_to - phy_offset)
        found = self._next_record(at, start, phy_offset, shown)
        if found is None and shown < left:
            looked_at = max(start, shown - LOOKED_AT + 1)
            self._looked_up_to = phy_offset + looked_at
            return shown + 1 if shown < self._longest else looked_at
        return left if found is None else found

    def _next_record(self, at: int, start: int, phy_offset: int, shown: int) -> int | None:
        """How far behind ``at`` the next record begins; it is looked for from ``start`` on, counted
        from there too."""
        found = next_record(self._octets, at + start, phy_offset - at, at + shown)
        return None if found is None else found - at

    @staticmethod
    def _other_files(phy_offset: int, size: int, left: int) -> ReplicationError:
        return ReplicationError(
            f"the master's file has {size} bytes more at {phy_offset}, that of this slave {left}: "
            "mappedFileSizeCommitLog must be that of the master"
        )

    def _holdable(self, phy_offset: int, size: int) -> int:
        """Raises ReplicationError when more would have to be held than any record has."""
        if size > self._longest:
            raise ReplicationError(
                f"the record at {phy_offset} has {size} bytes, more than {self._longest}"
            )
        return size

    # -- reports

    def wrote(self, end: int, flushed: int) -> None:
        """The log ends at ``end`` now, and is on the disk up to ``flushed``."""
        self.written = max(self.written, end)
        self.flushed = max(self.flushed, min(flushed, end))

    def report(self, now: float) -> bytes | None:
        """What to tell the master, when there is news or it has heard nothing for a while. With
        ``late`` ask again soon."""
        end = self.written
        if self.acked >= 0 and self._settings.ack_after_flush:
            end = self.flushed
        passed = now - self._reported_at
        self.late = self._more and end > self.acked >= 0 and passed < REPORT_S
        if self.late or (end <= self.acked and passed < self._settings.heartbeat_s):
            return None
        self.acked = max(end, self.acked)
        self._reported_at = now
        return REPORT.pack(self.acked)

    def is_silent(self, now: float) -> bool:
        """Nothing was heard for too long."""
        return now - self._heard_at > self._settings.housekeeping_s
