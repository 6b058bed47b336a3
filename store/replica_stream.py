"""A slave's end of the stream from its master, without I/O (class HAClient; ha.md §4; the bytes: replication.py).

Whole records only are handed on: each is checked to continue the chain (its magic, its size, its own offset) before a byte
of it reaches the log, and a batch that does not start where the last one ended is refused. So nothing is ever overwritten,
and a connection that is cut anywhere leaves a log that ends with a record. Where the master's log is damaged the bytes up to
its next record are handed on as they came, together with that: offsets stay what they are.

Bytes are received into one buffer (``room``, ``came``), where the heads of batches are squeezed out, and go to the log from
there::

    | records | half a record | head | bytes ... | head | bytes ..      what ``came`` finds
    | records | half a record bytes ... bytes .. |                      what it looks at
              0                                                         where that is after the next ``room``
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from ..remoting.protocol.record import BLANK_MAGIC, BLANK_SIZE, MAGIC, MIN_RECORD_SIZE, head_struct, size_and_magic
from ..remoting.protocol.record.verdict import size_by_lengths
from .record_chain import HEAD_SIZE, MANY_AT_ONCE, RECORD_HEAD, Places, chained, next_record
from .replication import BATCH_HEAD, REPORT, ReplicationError, ReplicationSettings

__all__ = ["REPORT_S", "ROOM_BYTES", "Piece", "SlaveSide"]

ROOM_BYTES: Final = 1 << 20
"""Size of the buffer; a longer record makes it larger for as long as it takes. Without numpy less of it is filled at once
while records are short and of different sizes: what is received at once should take a millisecond.
"""
_SHORT_RECORD: Final = 512
_LEAST_ROOM: Final = 64 << 10
_SLOW_ROOM: Final = ROOM_BYTES if MANY_AT_ONCE else _LEAST_ROOM
"""What is filled at once then; one by one a MiB of the shortest would take the loop 15 ms."""
REPORT_S: Final = 0.005
"""Reports come at most that often while more has come already than is taken at once."""
_BODY_SIZE: Final = struct.Struct(">i")
_SYS_FLAG_AT: Final = 39
_MOST_BESIDE_BODY: Final = MIN_RECORD_SIZE + 2 * 12 + 255 + 32767
"""Of a record: head, hosts of IPv6, topic, properties."""
_LAST_OFFSET: Final = 2**63 - 1
_LONGEST_RECORD: Final = 64 << 20
"""What is held of a record that has not come to its end; a frame that could have brought it is 16 MiB at most."""


class Piece(NamedTuple):
    """Whole records of one file, side by side."""

    phy_offset: int
    data: bytes | memoryview
    """A view is good until the next ``room``."""
    starts: Any
    """Where in ``data`` they begin, as ``chained`` tells; a blank record and what is damaged are not among them."""


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
        self.late: bool = False
        """There was something to report, but ``report`` put it off for some milliseconds."""
        self._file_size: Final = file_size
        self._longest: Final = min(file_size, _LONGEST_RECORD)
        self._settings: Final = settings
        self._buffer = memoryview(bytearray(ROOM_BYTES))
        self._done = 0
        """In front of that the buffer has what was handed on."""
        self._held = 0
        """Up to there it has bytes of the log."""
        self._needed = BLANK_SIZE
        """So much has to be held before it is worth looking at it again."""
        self._room = 0
        """Size of the last ``room``."""
        self._more = False
        """It was filled: more has come already."""
        self._slow = False
        """The last records were short, and not of one size."""
        self._looked_up_to = 0
        """No record begins in front of that: something damaged lies there."""
        self._head = b""
        self._body_left = 0
        self._heard_at = now
        self._reported_at = now

    # -- the stream

    def room(self) -> memoryview:
        """Where the next bytes of the connection go. Pieces that were handed out before are not good any more."""
        begin, held = self._done, self._held - self._done
        size = max(ROOM_BYTES, self._needed + _LEAST_ROOM)
        too_large = size < len(self._buffer) and held <= ROOM_BYTES // 2
        if too_large or held + _LEAST_ROOM > len(self._buffer):
            old, self._buffer = self._buffer, memoryview(bytearray(size))
            self._buffer[:held] = old[begin : begin + held]
        elif begin:
            self._buffer[:held] = self._buffer[begin : begin + held]
        self._done, self._held = 0, held
        room = self._buffer[held : held + _SLOW_ROOM] if self._slow else self._buffer[held:]
        self._room = len(room)
        return room

    def came(self, count: int, now: float) -> list[Piece]:
        """So many bytes were put into the last ``room``; the records to write. Raises ReplicationError, then none of them
        counts.
        """
        self._heard_at = now
        self._more = count == self._room
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

    def receive(self, data: bytes | memoryview, now: float) -> list[Piece]:
        """The same for bytes that lie elsewhere; the pieces have bytes of their own."""
        pieces: list[Piece] = []
        while data:
            room = self.room()
            part, data = data[: len(room)], data[len(room) :]
            room[: len(part)] = part
            pieces += [each._replace(data=bytes(each.data)) for each in self.came(len(part), now)]
        return pieces

    def _begin_batch(self, offset: int, size: int) -> None:
        if not 0 <= size <= self._file_size:
            raise ReplicationError(f"the master announces a batch of {size} bytes, the files have {self._file_size}")
        if self.received == 0 and size:
            if not 0 <= offset <= _LAST_OFFSET - self._file_size or offset % self._file_size:
                raise ReplicationError(
                    f"the master starts at {offset}, where no file of {self._file_size} bytes begins: "
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
        at = unlike = 0
        self._needed = BLANK_SIZE
        while at < len(data):
            left = self._file_size - (base + at) % self._file_size
            rest = data[at : at + left]
            starts, size = self._intact(rest, base + at)
            if not size:
                blank = left <= self._longest and _begins_with_blank(rest)
                size = self._blank(data[at:], base + at, left) if blank else self._unusual(rest, base + at, left)
                if size > len(rest):
                    self._needed = self._holdable(base + at, size)
                    break
            unlike += 0 if isinstance(starts, range) else len(starts)
            pieces.append(Piece(base + at, rest[:size], starts))
            at += size
        self._done = at
        self._slow = unlike * _SHORT_RECORD > at
        return pieces

    def _intact(self, data: memoryview, phy_offset: int) -> tuple[Any, int]:
        """The whole records that ``data`` begins with, as ``chained`` tells. Each proves the size of the one in front of it;
        the last one has to have lengths that make up its size.
        """
        if phy_offset < self._looked_up_to:
            return [], 0
        starts, size = chained(data, phy_offset)
        if size:
            last = int(starts.array[-1]) if isinstance(starts, Places) else starts[-1]
            if size_by_lengths(data, last) != size - last:
                starts = Places(starts.array[:-1], starts.heads[:-1]) if isinstance(starts, Places) else starts[:-1]
                size = last
                self._looked_up_to = phy_offset + last + 1
        return starts, size

    def _unusual(self, data: memoryview, phy_offset: int, left: int) -> int:
        """How long that is which is no whole record, in a file that has ``left`` bytes more: a record that has not come to
        its end, or something damaged; or how much is needed to see what it is. Raises ReplicationError when the master has
        files of another size.
        """
        if len(data) < BLANK_SIZE:
            return BLANK_SIZE
        size, magic = size_and_magic(data, 0)
        if magic == MAGIC and phy_offset >= self._looked_up_to:
            if len(data) < HEAD_SIZE:
                return HEAD_SIZE
            if RECORD_HEAD.unpack_from(data)[2] == phy_offset and _may_have(size, data):
                end = size_by_lengths(data, 0)
                if not end and len(data) < left:
                    return min(_needed_for_lengths(data, size), left)
                if end in (0, size):
                    if size > left:
                        raise self._other_files(phy_offset, size, left)
                    return size
        return self._damaged(data, phy_offset, left)

    def _blank(self, data: memoryview, phy_offset: int, left: int) -> int:
        """How long a blank is, or how much is needed to see it: to the end of its file. Where it has another size it is
        damaged, unless the next record begins where it says. Raises ReplicationError then: the master has other files.
        """
        size, _ = size_and_magic(data, 0)
        if size == left:
            return left
        start = max(BLANK_SIZE, min(size, left), self._looked_up_to - phy_offset)
        found = next_record(data, phy_offset, start)
        if found == size:
            raise self._other_files(phy_offset, size, left)
        if found is None and len(data) < size + RECORD_HEAD.size <= self._longest:
            self._looked_up_to = phy_offset + max(start, len(data) - RECORD_HEAD.size + 1)
            return len(data) + 1
        return left

    def _damaged(self, data: memoryview, phy_offset: int, left: int) -> int:
        """How long that is which is damaged: up to the next record, which has to come first, or to the end of the file. Of
        more than any record has no more is held than of one.
        """
        start = max(1, self._looked_up_to - phy_offset)
        found = next_record(data, phy_offset, start)
        if found is None and len(data) < left:
            looked_at = max(start, len(data) - RECORD_HEAD.size + 1)
            self._looked_up_to = phy_offset + looked_at
            return len(data) + 1 if len(data) < self._longest else looked_at
        return left if found is None else found

    @staticmethod
    def _other_files(phy_offset: int, size: int, left: int) -> ReplicationError:
        return ReplicationError(
            f"the master's file has {size} bytes more at {phy_offset}, that of this slave {left}: "
            "mappedFileSizeCommitLog must be that of the master"
        )

    def _holdable(self, phy_offset: int, size: int) -> int:
        """Raises ReplicationError when more would have to be held than any record has."""
        if size > self._longest:
            raise ReplicationError(f"the record at {phy_offset} has {size} bytes, more than {self._longest}")
        return size

    # -- reports

    def wrote(self, end: int, flushed: int) -> None:
        """The log ends at ``end`` now, and is on the disk up to ``flushed``."""
        self.written = max(self.written, end)
        self.flushed = max(self.flushed, min(flushed, end))

    def report(self, now: float) -> bytes | None:
        """What to tell the master, when there is news or it has heard nothing for a while. With ``late`` ask again soon."""
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


def _begins_with_blank(data: memoryview) -> bool:
    return len(data) >= BLANK_SIZE and size_and_magic(data, 0)[1] == BLANK_MAGIC


def _may_have(size: int, head: memoryview) -> bool:
    """Whether a record of this size can have a body as long as its head says. One that cannot is not waited for."""
    fields = head_struct(head[_SYS_FLAG_AT])
    body_size = _BODY_SIZE.unpack_from(head, fields.size - _BODY_SIZE.size)[0] if len(head) >= fields.size else 0
    return bool(0 <= body_size <= size - MIN_RECORD_SIZE and size - body_size <= _MOST_BESIDE_BODY)


def _needed_for_lengths(data: memoryview, size: int) -> int:
    """How much of a record of that size has to be held to see the next of the lengths that make up its size."""
    fields = head_struct(data[_SYS_FLAG_AT])
    if len(data) < fields.size:
        return fields.size
    topic_at: int = fields.size + _BODY_SIZE.unpack_from(data, fields.size - _BODY_SIZE.size)[0]
    needed = topic_at + 1 if len(data) <= topic_at else topic_at + 3 + data[topic_at]
    return min(size, max(needed, MIN_RECORD_SIZE))
