"""A consume queue: where the messages of one queue of one topic lie in the commit log (class
ConsumeQueue).

Units of 20 bytes, big-endian; message number n has the unit at byte 20·n (consumequeue-index.md
§1)::

    0    8  physical offset in the commit log
    8    4  size of the record
    12   8  tags code: Java hash of the tags, or the delivery time in SCHEDULE_TOPIC_XXXX

A filler unit (size 0x7FFFFFFF) stands for messages that are not there: in front of the first one
when a queue does not begin at a file's start, and for records that were lost. Otherwise physical
offsets only grow: searches rely on it.

One file, though over 400 lines: whatever writes, reads, searches or cuts units keeps the same few
numbers in step (first, next, what is reserved, what is on the disk).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Final

from ...remoting.protocol.record import QueueEnd, layout, topic_field
from ..disk.mapped_file import MappedFile
from ..disk.mapped_file_queue import MappedFileQueue
from ..disk.mapping_limit import MappingLimit
from ..model.config import CQ_UNIT_SIZE
from ..model.errors import BrokenPromiseError, StoreFileError
from .consume_queue_ext import ConsumeQueueExt, is_ext_address

CQ_UNIT: Final = layout.QUEUE_UNIT
FILLER_SIZE: Final = layout.FILLER_SIZE
MOST_NUMBER: Final = 1 << 58
"""No message has that number or a higher one: its unit would lie behind 2^63, where no file has a
name."""
_RESERVE_AHEAD: Final = 64 << 10
_BULK_BYTES: Final = 4096
_BULK_RESERVE_AHEAD: Final = 512 << 10
"""Reserved at once for who writes so many: asking for disk space costs as much as writing some
hundred units."""
_CHUNK_UNITS: Final = 1000
_FILLERS_AT_ONCE: Final = 1 << 16
_NEAR_UNITS: Final = 64
"""At the end of a queue, looked at together."""
_READS_TO_MAP: Final = 16
_UNITS_AT_ONCE: Final = 256
"""Read when an address of the extension is looked for."""
"""A file that is read so often is mapped."""

Edges = dict[int, tuple[int, int, int]]  # units by their numbers


class ConsumeQueue(QueueEnd):
    """The units of one queue.

    Its end lies inside of one file, reserved: the store's hot path writes there itself
    (``put_record``); everything else goes through the methods. A queue that is not used for a while
    is not mapped (``MappingLimit``).
    """

    __slots__ = (
        "_edges",
        "_known_end",
        "_mappings",
        "_reads",
        "_seen_behind",
        "_seen_offset",
        "_used",
        "base",
        "ext",
        "files",
        "flushed_offset",
        "min_offset",
        "topic",
        "watched",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        files: MappedFileQueue,
        mappings: MappingLimit | None = None,
    ) -> None:
        super().__init__()
        self.topic: Final = topic
        self.queue_id = queue_id
        self.files: Final = files
        self.topic_field = topic_field(topic)
        self.min_offset: int = 0
        """Number of the first message that is still there."""
        self.flushed_offset: int = 0
        """Units below are on the disk, as far as this process knows."""
        self.watched: bool = False
        """Somebody waits for messages: see MessageStore.watch."""
        self.ext: ConsumeQueueExt | None = None
        """Bitmaps of the messages, see there; None without (``enableConsumeQueueExt``)."""
        self.base: int = 0
        self._mappings: Final = mappings or MappingLimit()
        self._edges: Edges = {}
        """First and last unit as ``accept`` got them, until something is written."""
        self._known_end = (0, -1)
        self._seen_behind: tuple[int, bytes] | None = None
        """A number, and the units from there on, behind the end, as ``accept`` got them; until
        something is written."""
        self._reads = 0
        """Of files that are not mapped."""
        self._used = False
        self._seen_offset = 0

    # -- writing

    def make_room(self, count: int = 1, ahead: int = _RESERVE_AHEAD) -> None:
        """Make the next ``count`` units writable, and some more of the file, and point ``buffer``
        at the first of them. Raises OutOfSpaceError.

        The units may lie in several files; ``position`` and ``limit`` are about the first one.
        """
        start = self.max_offset * CQ_UNIT_SIZE
        stop = start + count * CQ_UNIT_SIZE
        file = self.files.find(start)
        if not self.files.files:
            self.files.remove_leftovers()  # its units would be found behind ours
        if file is None or stop > file.start + file.reserved:
            file_end = start - start % self.files.file_size + self.files.file_size
            file = self.files.reserve(start, max(stop, min(start + ahead, file_end)))
        self._point_at(file.start)
        for base in range(file.end, stop, self.files.file_size):
            following = self.files.find(base)
            assert following is not None, "just reserved"
            following.random = True
            following.map_now()  # who writes into the first one must come to the end

    def has_room(self, count: int) -> bool:
        """The next ``count`` units are writable, and in one file."""
        return self.position + count * CQ_UNIT_SIZE <= self.limit

    def _point_at(self, base: int) -> None:
        file = self.files.find(base)
        assert file is not None
        self._mappings.add(file, self)
        file.random = True
        self._used, self._seen_offset = (
            False,
            self.max_offset + 1,
        )  # the unit that it is mapped for does not count
        self._edges = {}
        self._seen_behind = None
        self.base = base
        self.buffer = file.map
        self.position = self.max_offset * CQ_UNIT_SIZE - base
        self.limit = file.reserved - file.reserved % CQ_UNIT_SIZE

    def append(self, unit: bytes) -> None:
        """Write one unit. Raises OutOfSpaceError, then nothing has changed."""
        if self.position >= self.limit:
            if self._seen_behind is not None and self._lies_behind(unit):
                return
            self.make_room()
        self.buffer[self.position : self.position + CQ_UNIT_SIZE] = unit
        self.position += CQ_UNIT_SIZE
        self.max_offset += 1

    def _lies_behind(self, data: bytes) -> int:
        """How many bytes of these units a kill has left there: they belong to the queue again."""
        assert self._seen_behind is not None
        first, units = self._seen_behind
        begin = (self.max_offset - first) * CQ_UNIT_SIZE
        there = units[begin : begin + len(data)]
        same = len(there) - len(there) % CQ_UNIT_SIZE
        while there[:same] != data[:same]:
            same -= CQ_UNIT_SIZE
        if same:
            self.max_offset += same // CQ_UNIT_SIZE
            self._known_end = (
                self.max_offset,
                end_of(*CQ_UNIT.unpack(data[same - CQ_UNIT_SIZE : same])),
            )
        return same

    def extend(self, units: list[bytes]) -> None:
        """Write several units. Raises OutOfSpaceError, then nothing has changed."""
        self.extend_bytes(b"".join(units))

    def extend_bytes(self, data: bytes) -> None:
        """The same for units that are joined already."""
        count = len(data) // CQ_UNIT_SIZE
        if not self.has_room(count):
            self.make_room(count)
        while data:
            if self.position >= self.limit:
                self.make_room()
            part = data[: self.limit - self.position]
            self.buffer[self.position : self.position + len(part)] = part
            self.position += len(part)
            self.max_offset += len(part) // CQ_UNIT_SIZE
            data = data[len(part) :]

    def extend_much(self, data: bytes) -> None:
        """The same without the mapping where that is faster: every page of it would be a fault.
        Raises StoreFileError."""
        if self.position >= self.limit and self._seen_behind is not None:
            data = data[self._lies_behind(data) :]
            if not data:
                return
        count = len(data) // CQ_UNIT_SIZE
        if not self.has_room(count):
            self.make_room(count, _BULK_RESERVE_AHEAD)
        file = (
            self.files.find(self.base)
            if len(data) >= _BULK_BYTES and self.has_room(count)
            else None
        )
        if file is None:
            self.extend_bytes(data)
            return
        self._mappings.write(file, self.position, data)
        self.position += len(data)
        self.max_offset += count

    def begin_at(self, offset: int) -> None:
        """Start an empty queue at a number other than 0: the file is filled up to there with filler
        units. One whose topic was deleted begins at 0. Raises OutOfSpaceError, StoreFileError; then
        it is empty still, and the next call tries again. Raises BrokenPromiseError: it has
        messages, whose numbers would be given again."""
        if offset and self.max_offset > self.min_offset:
            raise BrokenPromiseError(f"{self} cannot begin at {offset}: it has messages")
        self.clear()
        size = self.files.file_size
        start = offset * CQ_UNIT_SIZE
        self.max_offset = self.min_offset = (start - start % size) // CQ_UNIT_SIZE
        if missing := offset - self.max_offset:
            self.extend([CQ_UNIT.pack(0, FILLER_SIZE, 0)] * missing)
        self.min_offset = offset

    def fill_to(self, offset: int, phy_offset: int) -> None:
        """Write filler units for messages that were lost, so that the next unit gets its right
        number."""
        while self.max_offset < offset:
            self.extend(
                [CQ_UNIT.pack(phy_offset, FILLER_SIZE, 0)]
                * min(offset - self.max_offset, _FILLERS_AT_ONCE)
            )

    def overwrite(self, offset: int, units: bytes) -> None:
        """Write other units in the place of some that are there. Raises StoreFileError; then some
        of them may be."""
        self._edges, self._known_end = {}, (0, -1)
        at, end = offset * CQ_UNIT_SIZE, offset * CQ_UNIT_SIZE + len(units)
        try:
            while at < end and (file := self.files.find(at)) is not None:
                part = units[at - offset * CQ_UNIT_SIZE : file.end - offset * CQ_UNIT_SIZE]
                file.write(at - file.start, part)
                file.end_writing()
                at += len(part)
        finally:
            self.sync_again(offset)  # afterwards: a thread may be syncing just now

    # -- syncing, in a thread

    def to_sync(self) -> tuple[int, int]:
        """The numbers, from and to, of units that may not be on the disk. They count as being there
        from now on, so that what is overwritten while they are synced does not; ``sync_again``
        takes it back.
        """
        with self.files.disk.counting:
            begin, end = self.flushed_offset, self.max_offset
            self.flushed_offset = max(begin, end)
        return begin, end

    def sync_again(self, offset: int) -> None:
        """The units from a number on may not be on the disk."""
        with self.files.disk.counting:
            self.flushed_offset = min(self.flushed_offset, offset)

    # -- reading

    def units(self, offset: int, max_units: int) -> bytes:
        """Units from ``offset`` on: at most to the end of the file they lie in. Empty when they are
        not there.
        """
        if not self.min_offset <= offset < self.max_offset:
            return b""
        size = min(max_units, self.max_offset - offset) * CQ_UNIT_SIZE
        position = offset * CQ_UNIT_SIZE
        self._used = True
        at = position - self.base
        if at >= 0 and self.limit:  # in the file that is written to
            return bytes(self.buffer[at : at + size])
        file = self.files.find(position)
        if file is None:
            return b""
        if not file.mapped:
            self._reads += 1
            if self._reads < _READS_TO_MAP:
                return file.read_unmapped(position - file.start, size)
            self._map_to_read(file)
        return file.read(position - file.start, size)

    def _map_to_read(self, file: MappedFile) -> None:
        """Map one file, and besides the one that is written to no other."""
        self._reads = 0
        for other in self.files.files:
            if other.mapped and not (self.limit and other.start == self.base):
                other.close()
                self._mappings.forget(other)
        self._mappings.add(file, self)
        self._used = False
        file.random = True
        file.map_now()

    def read_bytes(self, position: int, size: int) -> bytes:
        """Some bytes, without a mapping that is not there; empty where there is no file."""
        file = self.files.find(position)
        if file is None:
            return b""
        return (
            file.read(position - file.start, size)
            if file.mapped
            else file.read_unmapped(position - file.start, size)
        )

    def last_ext_address(self) -> int | None:
        """What the last unit says that points into the extension. None without one."""
        number = self.max_offset
        while number > self.min_offset:
            first = max(self.min_offset, number - _UNITS_AT_ONCE)
            codes: list[int] = [
                code for _, _, code in CQ_UNIT.iter_unpack(self.read_units(first, number))
            ]
            found = next((code for code in reversed(codes) if is_ext_address(code)), None)
            if found is not None:
                return found
            number = first
        return None

    def first_ext_address(self) -> int | None:
        """The same of the first one, among the first few hundred."""
        units = self.units(self.min_offset, _UNITS_AT_ONCE)
        return next(
            (code for _, _, code in CQ_UNIT.iter_unpack(units) if is_ext_address(code)), None
        )

    def read_units(self, first: int, stop: int) -> bytes:
        """The units [first, stop), which may lie in several files; nothing is mapped for it."""
        at, end, data = first * CQ_UNIT_SIZE, stop * CQ_UNIT_SIZE, b""
        while at < end and (file := self.files.find(at)) is not None:
            data += file.read_unmapped(at - file.start, min(end, file.end) - at)
            at = min(end, file.end)
        return data

    # -- MappingOwner

    def was_used(self) -> bool:
        """Units were written or read since the last question."""
        used = self._used or self.max_offset > self._seen_offset
        self._used, self._seen_offset = False, self.max_offset
        return used

    def unmap(self, file: MappedFile) -> None:
        """Let go of the mapping of a file. It is mapped again when it is needed."""
        if self.ext is not None:
            self.ext.close()
        if file.start == self.base:
            self.buffer = b""
            self.position = self.limit = 0
        file.close()

    def unit(self, offset: int) -> tuple[int, int, int] | None:
        """Physical offset, size and tags code of one message, None when it is not there."""
        data = self.units(offset, 1)
        return CQ_UNIT.unpack(data) if data else None

    def first_of_next_file(self, offset: int) -> int:
        """Number of the first unit in the file behind the one of ``offset``."""
        per_file = self.files.file_size // CQ_UNIT_SIZE
        return offset - offset % per_file + per_file

    def first_where(self, wanted: Callable[[int, int], bool]) -> int:
        """The first number in [min_offset, max_offset) for which ``wanted(phy_offset, size)``
        holds, else max_offset.

        A binary search: from the first such unit on it must hold for all.
        """
        return self._search(self.min_offset, self.max_offset, wanted)

    def _search(self, low: int, high: int, wanted: Callable[[int, int], bool]) -> int:
        while low < high:
            middle = (low + high) // 2
            phy_offset, size, _ = self.raw_unit(middle)
            if wanted(phy_offset, size):
                high = middle
            else:
                low = middle + 1
        return low

    def count_below(self, phy_offset: int) -> int:
        """The number behind the last unit of a record below a physical offset. What lies behind may
        be anything."""
        return self.first_where(lambda phy, size: _is_behind(phy, size, phy_offset))

    def count_until(self, phy_offset: int) -> int:
        """The number behind the last unit of a record that ends at or below a physical offset.
        Quick where few lie behind."""
        first = max(self.min_offset, self.max_offset - _NEAR_UNITS)
        units = self.units(first, _NEAR_UNITS)
        count = len(units) // CQ_UNIT_SIZE

        def end(position: int) -> int:
            return end_of(*CQ_UNIT.unpack_from(units, position))

        positions = range(0, len(units), CQ_UNIT_SIZE)
        if count and end(positions[-1]) <= phy_offset:
            near = count
        else:
            near = bisect.bisect_right(positions, phy_offset, key=end)
        if 0 < near < count:
            return first + near
        low, high = (first + near, self.max_offset) if near else (self.min_offset, first)
        return self._search(low, high, lambda phy, size: end_of(phy, size) > phy_offset)

    def end_phy_offset(self) -> int:
        """Where the commit log goes on behind the last message of this queue; -1 for an empty
        queue."""
        return self.known_end() if self.max_offset > self.min_offset else -1

    def known_end(self) -> int:
        """The same, remembered until something is written, and also when all messages have expired;
        -1 without a unit. Raises StoreFileError.
        """
        if self._known_end[0] != self.max_offset:
            data = self.read_bytes((self.max_offset - 1) * CQ_UNIT_SIZE, CQ_UNIT_SIZE)
            self._known_end = (self.max_offset, end_of(*CQ_UNIT.unpack(data)) if data else -1)
        return self._known_end[1]

    def first_phy_offset(self) -> int:
        """Where the first unit points to, be it expired; there must be one."""
        return self.raw_unit(self.files.start // CQ_UNIT_SIZE)[0]

    def raw_unit(self, offset: int) -> tuple[int, int, int]:
        """What the files hold for a number that they reach, be it in front of the first message or
        behind the last."""
        unit = self._edges.get(offset)
        return unit or CQ_UNIT.unpack(self.read_bytes(offset * CQ_UNIT_SIZE, CQ_UNIT_SIZE))

    def first_message(self) -> tuple[int, int, int] | None:
        """Number, physical offset and size of the first message, behind the filler units of lost
        ones; None without one."""
        if self.max_offset <= self.min_offset:
            return None
        phy_offset, size, _ = self.raw_unit(self.min_offset)
        if size != FILLER_SIZE:
            return self.min_offset, phy_offset, size
        offset = self.min_offset
        while units := self.units(offset, _CHUNK_UNITS):
            for phy_offset, size, _ in CQ_UNIT.iter_unpack(units):
                if size != FILLER_SIZE:
                    return offset, phy_offset, size
                offset += 1
        return None

    def has_unit(self, offset: int, phy_offset: int, size: int) -> bool:
        """Whether the files hold this unit, be it behind the end."""
        data = self.read_bytes(offset * CQ_UNIT_SIZE, CQ_UNIT_SIZE) if offset >= 0 else b""
        return len(data) == CQ_UNIT_SIZE and CQ_UNIT.unpack(data)[:2] == (phy_offset, size)

    def unit_behind(self) -> tuple[int, int]:
        """Physical offset and size of what the files hold behind the last message; zeros, or a unit
        that is not believed. (0, 0) where they end."""
        data = self.read_bytes(self.max_offset * CQ_UNIT_SIZE, CQ_UNIT_SIZE)
        return CQ_UNIT.unpack(data)[:2] if len(data) == CQ_UNIT_SIZE else (0, 0)

    # -- opening, recovery, deleting

    def load(self) -> None:
        """Take in the files; what they hold is only known after ``accept``. Raises StoreFileError
        for files that do not fit; those behind a missing one are left to recovery.
        """
        self.files.load(derived=True)
        self.accept(self.files.start // CQ_UNIT_SIZE)

    def accept(self, end: int, edges: Edges | None = None, behind: bytes | None = None) -> None:
        """The units below number ``end`` are believed (``QueueSurvey``). ``edges``: the first and
        the last one, if they were read; ``behind``: all units that follow in the file, if that is
        known.
        """
        self.min_offset = self.files.start // CQ_UNIT_SIZE
        self.max_offset = self.flushed_offset = end
        self.limit = self.position = 0
        self._edges = edges or {}
        self._known_end = (end, end_of(*edges[end - 1])) if edges else (0, -1)
        self._seen_behind = None if behind is None else (end, behind)

    def cut(self, phy_offset: int) -> None:
        """Forget the units of records at or behind a physical offset; the bytes stay until
        ``finish``."""
        if self.max_offset > self.min_offset and _is_behind(
            *self.raw_unit(self.max_offset - 1)[:2], phy_offset
        ):
            self.max_offset = self.count_below(phy_offset)
            self._seen_behind = None
        self._forget_behind()

    def keep(self, count: int) -> None:
        """Forget the units from number ``count`` on, and the files behind a missing one; the bytes
        stay until ``finish``."""
        self.files.drop_behind_hole()
        self.max_offset = min(self.max_offset, max(count, self.files.start // CQ_UNIT_SIZE))
        self._seen_behind = None
        self._forget_behind()

    def _forget_behind(self) -> None:
        self.flushed_offset = min(self.flushed_offset, self.max_offset)
        if self._known_end[0] != self.max_offset:
            self._known_end = (0, -1)
        self.limit = self.position = 0

    def finish(self) -> bool:
        """End of recovery: nothing may lie behind the last unit; True when something did."""
        end = self.max_offset * CQ_UNIT_SIZE
        found = bool(self.files.behind_hole)
        self.files.drop_behind_hole()
        found |= bool(self.files.drop_from(end + 1))
        last = self.files.find(end)
        first, behind = self._seen_behind or (self.max_offset, b"?")
        if last is not None and first * CQ_UNIT_SIZE + len(behind) > end:
            found |= last.clear_from(end - last.start)
        self._seen_behind = None
        return found

    def correct_min_offset(self, min_phy_offset: int) -> None:
        """After the commit log has lost its oldest files: skip units that point below, and filler
        units in front. Without a file there is no unit: it goes on where a file begins.
        """
        self.min_offset = self.files.start // CQ_UNIT_SIZE if self.files.files else self.max_offset
        if self.min_offset < self.max_offset and not _is_kept(
            *self.raw_unit(self.min_offset)[:2], min_phy_offset
        ):
            self.min_offset = self.first_where(
                lambda phy_offset, size: _is_kept(phy_offset, size, min_phy_offset)
            )

    def find_min_offset(self, min_phy_offset: int) -> int:
        """The ``min_offset`` that a commit log from ``min_phy_offset`` on asks for. For a worker
        thread: maps nothing, changes nothing. Raises StoreFileError, also when the queue was
        deleted meanwhile.
        """
        low, high = self.min_offset, self.max_offset
        files = tuple(self.files.files)
        unit = low  # looked at first: mostly nothing has expired
        while low < high:
            position = unit * CQ_UNIT_SIZE
            index = (position - files[0].start) // self.files.file_size if files else 0
            if not 0 <= index < len(files):
                raise StoreFileError(self.files.directory, "has lost files")
            data = files[index].read_unmapped(position - files[index].start, CQ_UNIT_SIZE)
            phy_offset, size, _ = CQ_UNIT.unpack(data)
            if _is_kept(phy_offset, size, min_phy_offset):
                high = unit
            else:
                low = unit + 1
            unit = (low + high) // 2
        return low

    def clear(self) -> None:
        """Delete all units: the queue is as new."""
        if self.ext is not None:
            self.ext.clear()
        for file in self.files.files:
            self._mappings.forget(file)
        self.files.delete()
        self._edges = {}
        self._known_end = (0, -1)
        self._seen_behind = None
        self.buffer = b""
        self.base = self.position = self.limit = 0
        self.max_offset = self.min_offset = self.flushed_offset = 0

    def close(self) -> None:
        """Unmap; the queue can be read again, which maps again."""
        if self.ext is not None:
            self.ext.close()
        self.buffer = b""
        self._edges = {}
        self.position = self.limit = 0
        for file in self.files.files:
            if file.mapped:
                file.close()
                self._mappings.forget(file)

    def __repr__(self) -> str:
        return (
            f"ConsumeQueue({self.topic!r}, {self.queue_id}, {self.min_offset}..{self.max_offset})"
        )


def end_of(phy_offset: int, size: int, _code: int = 0) -> int:
    """Where the log goes on behind the record of a unit."""
    return phy_offset if size == FILLER_SIZE else phy_offset + size


def _is_behind(phy_offset: int, size: int, limit: int) -> bool:
    """Fillers at the limit stand for messages that were lost in front of it."""
    return phy_offset + (size != FILLER_SIZE) > limit or size <= 0


def _is_kept(phy_offset: int, size: int, min_phy_offset: int) -> bool:
    return phy_offset >= min_phy_offset and not (phy_offset == 0 and size == FILLER_SIZE)
