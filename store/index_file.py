"""One index file: where the messages with a key lie (classes IndexFile, IndexHeader; consumequeue-index.md §3).

A hash table with chains, in a file of fixed length; big-endian::

    0                        40  header
    40                       slots x 4
    40 + slots x 4           items x 20, item 0 is never used

    header  0   8  beginTimestamp   store time of the first item
            8   8  endTimestamp     ... of the last item
            16  8  beginPhyOffset   where the message of the first item lies in the commit log
            24  8  endPhyOffset     ... of the last item
            32  4  hashSlotCount    slots in use
            36  4  indexCount       number of the next item; the first one is 1
    slot    0   4  number of the newest item in this slot, 0 for none
    item    0   4  hash of "topic#key", not negative; the slot is hash % slots
            4   8  where the message lies
            12  4  seconds from beginTimestamp to its store time, rounded down
            16  4  number of the next older item in the slot, 0 for none

Items come in the order of the commit log. The seconds of item 1 are those since the end of the file before, as in the
original, and say nothing: its time is beginTimestamp.

Pure: the buffer (a mapping) is given from outside; no view of it outlives a call. It is touched to put items into it, or to
cut them, when it is fully reserved. Else it is only read, and that has a way of its own: the original makes sparse files, of
which no hole may be touched (``mapped_file``).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from sys import byteorder
from typing import Any, Final

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["HEADER_SIZE", "ITEM", "PAUSE_AFTER", "Fits", "IndexFile", "index_file_size"]

HEADER_SIZE: Final = 40
SLOT_SIZE: Final = 4
ITEM_SIZE: Final = 20
ITEM: Final = struct.Struct(">iqii")
_HEADER: Final = struct.Struct(">qqqqii")
_SLOT: Final = struct.Struct(">i")
_INT_MAX: Final = 0x7FFFFFFF
_CHUNK: Final = 4096
PAUSE_AFTER: Final = 250
"""Items: a millisecond where each has to be read, 0.1 where they are mapped."""
_MANY: Final = 16
"""From so many items on numpy is faster than the loop."""
_MANY_BYTES: Final = 4096
"""From so many on ``write`` is faster than the buffer, where each page is a page fault."""
Read = Callable[[int, int], bytes]
"""``read(position, length)``: some bytes of a file."""
Fits = Callable[[int, int], bool]
"""``fits(hash, phy_offset)``: there is a message for an item."""
_ITEM_TYPE: Final = [("hash", ">i4"), ("phy_offset", ">i8"), ("seconds", ">i4"), ("older", ">i4")]


def index_file_size(slots: int, items: int) -> int:
    """Length in bytes."""
    return HEADER_SIZE + slots * SLOT_SIZE + items * ITEM_SIZE


class IndexFile:
    """Slots and items in a buffer. The header is read once and written after every ``put``."""

    __slots__ = (
        "_buffer",
        "_items_at",
        "_max_count",
        "_read",
        "_slots",
        "_write",
        "begin_phy_offset",
        "begin_timestamp",
        "count",
        "end_phy_offset",
        "end_timestamp",
        "slots_used",
    )

    def __init__(
        self,
        buffer: Any,
        slots: int,
        items: int,
        write: Callable[[int, bytes], bool] | None = None,
        read: Read | None = None,
    ) -> None:
        """``items`` counts the unused item 0. ``write``: another way to have bytes at a position of the buffer; False when
        it does not work. ``read``: how to get at them when the buffer may have holes."""
        self.begin_timestamp: int
        self.end_timestamp: int
        self.begin_phy_offset: int
        self.end_phy_offset: int
        self.slots_used: int
        self._buffer: Final = buffer
        self._slots: Final = slots
        self._write: Final = write
        self._read: Final[Read] = read or (lambda position, length: buffer[position : position + length])
        self._max_count: Final[int] = items
        self._items_at: Final = HEADER_SIZE + slots * SLOT_SIZE
        (
            self.begin_timestamp, self.end_timestamp, self.begin_phy_offset, self.end_phy_offset, self.slots_used, count,
        ) = _HEADER.unpack(self._read(0, HEADER_SIZE))  # fmt: skip
        self.count: int = min(max(count, 1), items)
        """Number of the next item."""

    @property
    def room(self) -> int:
        """How many items still fit."""
        return self._max_count - self.count

    def follow(self, previous: IndexFile) -> None:
        """A new file behind a full one begins with what that one ends with."""
        self.begin_timestamp = self.end_timestamp = previous.end_timestamp
        self.begin_phy_offset = self.end_phy_offset = previous.end_phy_offset
        self._write_header()

    def put(self, hashes: Sequence[int], phy_offsets: Sequence[int], timestamps: Sequence[int]) -> None:
        """Append items, at most ``room``; all three have one entry for each."""
        if not len(hashes):
            return
        single = len(hashes)
        if numpy is not None and single >= _MANY:
            single = 1 if self.count == 1 else 0  # what the first item of a file begins is needed by the others
        self._put_one_by_one([int(hashed) for hashed in hashes[:single]], phy_offsets[:single], timestamps[:single])
        if single < len(hashes):
            self._put_at_once(hashes[single:], phy_offsets[single:], timestamps[single:])
        self.end_phy_offset, self.end_timestamp = int(phy_offsets[-1]), int(timestamps[-1])
        self._write_header()

    def _put_one_by_one(self, hashes: Sequence[int], phy_offsets: Sequence[int], timestamps: Sequence[int]) -> None:
        buffer, slots, number = self._buffer, self._slots, self.count
        pack, unpack_slot, pack_slot = ITEM.pack, _SLOT.unpack_from, _SLOT.pack_into
        begin = self.begin_timestamp
        used = 0
        parts: list[bytes] = []
        for hashed, phy_offset, timestamp in zip(hashes, phy_offsets, timestamps, strict=True):
            slot_at = HEADER_SIZE + hashed % slots * SLOT_SIZE
            (older,) = unpack_slot(buffer, slot_at)
            if older <= 0 or older > number:
                older = 0
                used += 1
            seconds = (timestamp - begin) // 1000 if begin > 0 and timestamp > begin else 0
            parts.append(pack(hashed, phy_offset, seconds if seconds < _INT_MAX else _INT_MAX, older))
            pack_slot(buffer, slot_at, number)
            if number == 1:
                self.begin_timestamp = begin = int(timestamp)
                self.begin_phy_offset = int(phy_offset)
            number += 1
        self._append(b"".join(parts))
        self.count = number
        self.slots_used += used

    def _put_at_once(self, hashes: Sequence[int], phy_offsets: Sequence[int], timestamps: Sequence[int]) -> None:
        """The same with numpy."""
        hashed = numpy.asarray(hashes, numpy.uint32)
        count = len(hashed)
        places = (hashed - hashed // self._slots * self._slots).astype(numpy.intp)  # ``%`` takes three times as long
        numbers = numpy.arange(self.count, self.count + count, dtype=numpy.int32)
        as_stored = numbers.astype(">i4")
        slots = numpy.frombuffer(self._buffer, ">i4", self._slots, HEADER_SIZE)  # a view: gone before this returns
        older = slots.take(places, mode="wrap").astype(numpy.int32)
        slots[places] = as_stored
        stayed = slots.take(places, mode="wrap")
        if stayed.tobytes() != as_stored.tobytes():
            _link_twins(slots, places, numbers, older, stayed.astype(numpy.int32))
        del slots
        valid = (older - 1).view(numpy.uint32) < numbers.view(numpy.uint32)  # 0 < older <= number
        items = numpy.empty(count, _ITEM_TYPE)
        items["hash"], items["phy_offset"], items["older"] = hashed, _array(phy_offsets), older * valid
        items["seconds"] = self._seconds(timestamps)
        self._append(items.tobytes())
        self.count += count
        self.slots_used += count - int(numpy.count_nonzero(valid))

    def _append(self, items: bytes) -> None:
        at = self._items_at + self.count * ITEM_SIZE
        if self._write is None or len(items) < _MANY_BYTES or not self._write(at, items):
            self._buffer[at : at + len(items)] = items

    def _seconds(self, timestamps: Sequence[int]) -> Any:
        """Of many items that are not the first one: an array, or 0."""
        if self.begin_timestamp <= 0:
            return 0
        passed = _array(timestamps) - self.begin_timestamp
        if passed.max() < 1000:
            return 0
        passed //= 1000
        return passed.clip(0, _INT_MAX, out=passed)

    def _write_header(self) -> None:
        _HEADER.pack_into(
            self._buffer, 0, self.begin_timestamp, self.end_timestamp, self.begin_phy_offset, self.end_phy_offset,
            self.slots_used, self.count,
        )  # fmt: skip

    # -- reading

    def items(self, first: int = 1) -> Iterator[tuple[int, int, int, int]]:
        """Items in order: hash, physical offset, seconds, number of the next older item in the slot."""
        while first < self.count:
            stop = min(first + _CHUNK, self.count)
            yield from ITEM.iter_unpack(self._read(self._item_at(first), (stop - first) * ITEM_SIZE))
            first = stop

    def _item(self, number: int) -> tuple[int, int, int, int]:
        return ITEM.unpack(self._read(self._item_at(number), ITEM_SIZE))

    def _item_at(self, number: int) -> int:
        return self._items_at + number * ITEM_SIZE

    def overlaps(self, begin: int, end: int) -> bool:
        """Items of a time range may be here."""
        return self.count > 1 and begin <= self.end_timestamp and end >= self.begin_timestamp

    def find(self, hashed: int, begin: int, end: int) -> Iterator[int | None]:
        """Where messages with a hash lie that were stored in a range of time (ms), the newest first; to a second.

        Yields ``None`` after every ``PAUSE_AFTER`` items in which there was none, so that the caller can do something else.
        """
        (number,) = _SLOT.unpack(self._read(HEADER_SIZE + hashed % self._slots * SLOT_SIZE, SLOT_SIZE))
        pause = PAUSE_AFTER
        while 0 < number < self.count:
            found, phy_offset, seconds, older = self._item(number)
            earliest = self.begin_timestamp + (seconds * 1000 if number > 1 else 0)
            if seconds < 0 or earliest + 999 < begin:
                return
            pause -= 1
            if found == hashed and earliest <= end:
                pause = PAUSE_AFTER
                yield phy_offset
            elif not pause:
                pause = PAUSE_AFTER
                yield None
            if older >= number:
                return
            number = older

    def items_at_end(self) -> int:
        """How many of the last items belong to the last message."""
        count = 0
        for number in range(self.count - 1, 0, -1):
            if self._item(number)[1] != self.end_phy_offset:
                break
            count += 1
        return count

    # -- after a crash

    def cut(self, phy_offset: int, fits: Fits) -> int | None:
        """Forget the items of messages at or behind an offset, and everything from the first damaged item on.

        Returns where the message of a damaged item in front of the offset may begin: what lies there has to be put again.
        """
        kept, damaged_from = self._intact_below(phy_offset)
        while kept:  # the first one behind what is certain may be torn, and look like one in front of it
            hashed, item_offset, _, _ = self._item(kept)
            if fits(hashed, item_offset):
                break
            kept -= 1
            damaged_from = max(self.begin_phy_offset, 0) if not kept else self._end_of(kept)[0]
        self.end_phy_offset, self.end_timestamp = self._end_of(kept)
        self.count = kept + 1
        self._rebuild_slots()
        self._write_header()
        return damaged_from

    def _intact_below(self, limit: int) -> tuple[int, int | None]:
        """Number of the last item to keep, and where damage begins."""
        last = max(self.begin_phy_offset, 0)
        for number, (hashed, phy_offset, seconds, older) in enumerate(self.items(), 1):
            if phy_offset >= limit:
                return number - 1, None
            empty = hashed == phy_offset == seconds == older == 0
            if empty or hashed < 0 or phy_offset < last or seconds < 0 or not 0 <= older < number:
                return number - 1, last
            last = phy_offset
        return self.count - 1, None

    def _rebuild_slots(self) -> None:
        """From the items alone: a page of slots may be older or newer on the disk than the items."""
        slots = self._slots
        values = array("i", bytes(slots * SLOT_SIZE))
        for number, (hashed, *_) in enumerate(self.items(), 1):
            values[hashed % slots] = number
        self.slots_used = slots - values.count(0)
        if byteorder == "little":
            values.byteswap()
        self._buffer[HEADER_SIZE : self._items_at] = values.tobytes()

    def _end_of(self, number: int) -> tuple[int, int]:
        """Where the message of an item lies and when, to a second, it was stored at the latest."""
        if number < 1:
            return self.begin_phy_offset, self.begin_timestamp
        _, phy_offset, seconds, _ = self._item(number)
        latest = self.begin_timestamp + (seconds * 1000 + 999 if number > 1 else 0)
        return phy_offset, min(latest, self.end_timestamp) if self.end_timestamp > 0 else latest


def _array(numbers: Sequence[int]) -> Any:
    """Of 64 bit numbers."""
    return numbers if isinstance(numbers, numpy.ndarray) else numpy.fromiter(numbers, numpy.int64, len(numbers))


def _link_twins(slots: Any, places: Any, numbers: Any, older: Any, stayed: Any) -> None:
    """Some of the items that were put at once share a slot: each has the one before it as the older one, and the last one
    stays there. ``stayed``: the number that each found in its slot afterwards.
    """
    shared = stayed != numbers
    shared[stayed[shared] - numbers[0]] = True
    twins = numpy.flatnonzero(shared)
    twins = twins[places[twins].argsort(kind="stable")]
    follows = places[twins[1:]] == places[twins[:-1]]
    older[twins[1:][follows]] = numbers[twins[:-1][follows]]
    last = twins[numpy.append(~follows, True)]
    slots[places[last]] = numbers[last]
