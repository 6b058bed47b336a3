"""One index file: where the messages with a key lie (classes IndexFile, IndexHeader;
consumequeue-index.md §3).

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

Items come in the order of the commit log. The seconds of item 1 are those since the end of the file
before, as in the original, and say nothing: its time is beginTimestamp.

Pure: the buffer (a mapping) is given from outside; no view of it outlives a call. It is touched to
put items into it, or to cut them, as far as it is reserved: header, slots and the items that are
there or are put. Else it is only read, and that has a way of its own: the files are sparse, and no
hole may be touched (``mapped_file``).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from sys import byteorder
from typing import TYPE_CHECKING, Any, Final

from ...remoting.protocol.leaves import chain_items

if TYPE_CHECKING:
    Column = array[int]

HEADER_SIZE: Final = 40
SLOT_SIZE: Final = 4
ITEM_SIZE: Final = 20
ITEM: Final = struct.Struct(">iqii")
_HEADER: Final = struct.Struct(">qqqqii")
_SLOT: Final = struct.Struct(">i")
_CHUNK: Final = 4096
PAUSE_AFTER: Final = 250
"""Items: a millisecond where each has to be read, 0.1 where they are mapped."""
_BULK_BYTES: Final = 4096
"""From so many on ``write`` is faster than the buffer, where each page is a page fault."""
Read = Callable[[int, int], bytes]
"""``read(position, length)``: some bytes of a file."""
Fits = Callable[[int, int], bool]
"""``fits(hash, phy_offset)``: there is a message for an item."""


def index_file_size(slots: int, items: int) -> int:
    """Length in bytes."""
    return HEADER_SIZE + slots * SLOT_SIZE + items * ITEM_SIZE


class IndexFile:
    """Slots and items in a buffer. The header is read once and written after every ``put``."""

    def __init__(
        self,
        buffer: Any,
        slots: int,
        items: int,
        write: Callable[[int, bytes], bool] | None = None,
        read: Read | None = None,
    ) -> None:
        """``items`` counts the unused item 0. ``write``: another way to have bytes at a position of
        the buffer; False when it does not work. ``read``: how to get at them when the buffer may
        have holes."""
        self.begin_timestamp: int
        self.end_timestamp: int
        self.begin_phy_offset: int
        self.end_phy_offset: int
        self.slots_used: int
        self._buffer: Final = buffer
        self._slots: Final = slots
        self._write: Final = write
        self._read: Final[Read] = read or (
            lambda position, length: buffer[position : position + length]
        )
        self._max_count: Final[int] = items
        self._items_at: Final = HEADER_SIZE + slots * SLOT_SIZE
        (
            self.begin_timestamp, self.end_timestamp, self.begin_phy_offset, self.end_phy_offset,
            self.slots_used, count,
        ) = _HEADER.unpack(self._read(0, HEADER_SIZE))  # fmt: skip
        self.count: int = min(max(count, 1), items)
        """Number of the next item."""

    @property
    def free_items(self) -> int:
        """How many items still fit."""
        return self._max_count - self.count

    @property
    def end(self) -> int:
        """Where the next item goes: what lies in front of it has to be reserved for a ``cut``."""
        return self._item_at(self.count)

    def room(self, reserved: int) -> int:
        """How many items may be put into the first ``reserved`` bytes."""
        return min(self.free_items, max(0, reserved - self.end) // ITEM_SIZE)

    def follow(self, previous: IndexFile) -> None:
        """A new file behind a full one begins with what that one ends with."""
        self.begin_timestamp = self.end_timestamp = previous.end_timestamp
        self.begin_phy_offset = self.end_phy_offset = previous.end_phy_offset
        self._write_header()

    def put(self, hashes: Column, phy_offsets: Column, timestamps: Column) -> None:
        """Append items, at most ``free_items``: ``KeyEntries`` made the columns."""
        if not hashes:
            return
        with memoryview(self._buffer) as whole, whole[HEADER_SIZE : self._items_at] as slots:
            items, used = chain_items(
                slots, self.count, self.begin_timestamp, hashes, phy_offsets, timestamps
            )
        if self.count == 1:
            self.begin_timestamp, self.begin_phy_offset = timestamps[0], phy_offsets[0]
        self._append(items)
        self.count += len(hashes)
        self.slots_used += used
        self.end_phy_offset, self.end_timestamp = phy_offsets[-1], timestamps[-1]
        self._write_header()

    def _append(self, items: bytes) -> None:
        at = self._items_at + self.count * ITEM_SIZE
        if self._write is None or len(items) < _BULK_BYTES or not self._write(at, items):
            self._buffer[at : at + len(items)] = items

    def _write_header(self) -> None:
        _HEADER.pack_into(
            self._buffer, 0, self.begin_timestamp, self.end_timestamp, self.begin_phy_offset,
            self.end_phy_offset,
            self.slots_used, self.count,
        )  # fmt: skip

    # -- reading

    def items(self, first: int = 1) -> Iterator[tuple[int, int, int, int]]:
        """Items in order: hash, physical offset, seconds, number of the next older item in the
        slot."""
        while first < self.count:
            stop = min(first + _CHUNK, self.count)
            yield from ITEM.iter_unpack(
                self._read(self._item_at(first), (stop - first) * ITEM_SIZE)
            )
            first = stop

    def _item(self, number: int) -> tuple[int, int, int, int]:
        return ITEM.unpack(self._read(self._item_at(number), ITEM_SIZE))

    def _item_at(self, number: int) -> int:
        return self._items_at + number * ITEM_SIZE

    def overlaps(self, begin: int, end: int) -> bool:
        """Items of a time range may be here."""
        return self.count > 1 and begin <= self.end_timestamp and end >= self.begin_timestamp

    def find(self, hashed: int, begin: int, end: int) -> Iterator[int | None]:
        """Where messages with a hash lie that were stored in a range of time (ms), the newest
        first; to a second.

        Yields ``None`` after every ``PAUSE_AFTER`` items in which there was none, so that the
        caller can do something else.
        """
        (number,) = _SLOT.unpack(
            self._read(HEADER_SIZE + hashed % self._slots * SLOT_SIZE, SLOT_SIZE)
        )
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

    def cut(
        self, phy_offset: int, fits: Fits, on_damage: Callable[[], None] = lambda: None
    ) -> int | None:
        """Forget the items of messages at or behind an offset, and everything from the first
        damaged item on; ``on_damage`` is called before that.

        Returns where the message of a damaged item in front of the offset may begin: what lies
        there has to be put again.
        """
        kept, damaged_from, newest = self._intact_below(phy_offset)
        while (
            kept
        ):  # the first one behind what is certain may be torn, and look like one in front of it
            hashed, item_offset, _, older = self._item(kept)
            if fits(hashed, item_offset):
                break
            newest[hashed % self._slots] = older
            kept -= 1
            damaged_from = max(self.begin_phy_offset, 0) if not kept else self._end_of(kept)[0]
        if damaged_from is not None:
            on_damage()
        self.end_phy_offset, self.end_timestamp = self._end_of(kept)
        self.count = kept + 1
        self._write_slots(newest)
        self._write_header()
        return damaged_from

    def _intact_below(self, limit: int) -> tuple[int, int | None, array[int]]:
        """Number of the last item to keep, where damage begins, and the number of each slot's
        newest item up to there."""
        last, slots = max(self.begin_phy_offset, 0), self._slots
        newest = array("i", bytes(slots * SLOT_SIZE))
        for number, (hashed, phy_offset, seconds, older) in enumerate(self.items(), 1):
            if phy_offset >= limit:
                return number - 1, None, newest
            slot = hashed % slots
            empty = hashed == phy_offset == seconds == older == 0
            # An item that a start had forgotten, and that is back since a sector of new ones was
            # lost, may look like the next one; what it follows is another one by now.
            if empty or hashed < 0 or phy_offset < last or seconds < 0 or older != newest[slot]:
                return number - 1, last, newest
            newest[slot], last = number, phy_offset
        return self.count - 1, None, newest

    def _write_slots(self, newest: array[int]) -> None:
        """From the items alone: a page of slots may be older or newer on the disk than the
        items."""
        self.slots_used = self._slots - newest.count(0)
        if byteorder == "little":
            newest.byteswap()
        self._buffer[HEADER_SIZE : self._items_at] = newest.tobytes()

    def _end_of(self, number: int) -> tuple[int, int]:
        """Where the message of an item lies and when, to a second, it was stored at the latest."""
        if number < 1:
            return self.begin_phy_offset, self.begin_timestamp
        _, phy_offset, seconds, _ = self._item(number)
        latest = self.begin_timestamp + (seconds * 1000 + 999 if number > 1 else 0)
        return phy_offset, min(latest, self.end_timestamp) if self.end_timestamp > 0 else latest
