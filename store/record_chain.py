"""Where records begin, proved by what they say of themselves: size, magic and the own place in the log.

``chained`` proves many at once (with numpy; without it one after the other) and stops in front of the first thing that is in
any way unusual: the end of what is there, a blank record, a broken one. Who calls it looks at that.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from ..remoting.protocol.record import MAGIC, MIN_RECORD_SIZE

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["FEW", "MANY_AT_ONCE", "RECORD_HEAD", "Buffer", "chained", "numbers_at"]

Buffer = bytes | memoryview

RECORD_HEAD: Final = struct.Struct(">iI20xq")
"""Size, magic and the physical offset of a record."""
_FIRST_OF_MAGIC: Final = MAGIC >> 24
_MAGIC_AT: Final = 4
_PHY_OFFSET_AT: Final = 28
MANY_AT_ONCE: Final = numpy is not None
FEW: Final = 64
"""Fewer records than that are faster one by one."""
_SHORT: Final = 448
"""Shorter records of different sizes are found faster by looking for their magic everywhere."""


def chained(data: Buffer, base: int) -> tuple[Any, int]:
    """Where in ``data`` its first records begin (a range, a list or an array), and where the last of them ends; ``base`` is
    the physical offset of ``data``. There may be more behind them: ask again from there, until there are none.

    A log mostly has records of one size, for a while at least: where the first one ends the next one is expected, and so on,
    and all these places are looked at at once. If fewer than half of them are right, the sizes differ.
    """
    size = RECORD_HEAD.unpack_from(data)[0] if len(data) >= RECORD_HEAD.size else 0
    if numpy is not None and MIN_RECORD_SIZE <= size <= len(data) // FEW:
        whole = len(data) // size
        count = _of_one_size(data, base, size, whole)
        if count * 2 >= whole:
            return range(0, count * size, size), count * size
        if size < _SHORT and (found := _found(data, base))[1]:
            return found
    return _walked(data, base)


def _of_one_size(data: Buffer, base: int, size: int, whole: int) -> int:
    """How many records of that size there are side by side; so many would fit."""
    heads = numpy.ndarray((whole,), ">i8", data, 0, (size,))
    places = numpy.ndarray((whole,), ">i8", data, _PHY_OFFSET_AT, (size,))
    good = heads == (size << 32 | MAGIC)
    good &= places == numpy.arange(base, base + whole * size, size)
    return whole if good.all() else int(good.argmin())


def _found(data: Buffer, base: int) -> tuple[Any, int]:
    """Every place that has the magic and its own offset; they are records as far as each ends where the next one begins."""
    last = len(data) - RECORD_HEAD.size
    octets = numpy.frombuffer(data, numpy.uint8)
    places = numpy.flatnonzero(octets[_MAGIC_AT : last + _MAGIC_AT + 1] == _FIRST_OF_MAGIC)
    places = places[numbers_at(data, ">i8", places + _PHY_OFFSET_AT) == places + base]
    sizes_and_magics = numbers_at(data, ">i8", places)
    are_magics = sizes_and_magics & 0xFFFFFFFF == MAGIC
    if not are_magics.all():
        places, sizes_and_magics = places[are_magics], sizes_and_magics[are_magics]
    if not len(places) or places[0]:
        return [], 0
    sizes = sizes_and_magics >> 32
    ends = places + sizes
    good = sizes >= MIN_RECORD_SIZE
    good[:-1] &= ends[:-1] == places[1:]
    good[-1] &= ends[-1] <= len(data)
    count = len(good) if good.all() else int(good.argmin())
    return (places[:count], int(ends[count - 1])) if count else ([], 0)


def _walked(data: Buffer, base: int) -> tuple[list[int], int]:
    """From one to the next."""
    unpack, at, length, last = RECORD_HEAD.unpack_from, 0, len(data), len(data) - RECORD_HEAD.size
    starts: list[int] = []
    add = starts.append
    while at <= last:
        size, magic, phy_offset = unpack(data, at)
        end = at + size
        if magic != MAGIC or phy_offset != base + at or size < MIN_RECORD_SIZE or end > length:
            break
        add(at)
        at = end
    return starts, at


def numbers_at(data: Buffer, kind: str, places: Any) -> Any:
    """The numbers that begin at any places; ``kind`` as numpy names it."""
    size = numpy.dtype(kind).itemsize
    return numpy.ndarray((len(data) - size + 1,), kind, data, 0, (1,))[places]
