"""Where records begin, proved by what they say of themselves: size, magic and the own place in the log.

``chained`` proves many at once (with numpy; without it one after the other) and stops in front of the first thing that is in
any way unusual: the end of what is there, a blank record, a broken one. Who calls it looks at that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from sys import byteorder
from typing import Any, Final

from ..remoting.protocol.record import MAGIC, MIN_RECORD_SIZE, head_struct

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = [
    "FEW",
    "HEAD_SIZE",
    "MANY_AT_ONCE",
    "RECORD_HEAD",
    "Buffer",
    "Places",
    "chained",
    "copies_at",
    "first_false",
    "next_record",
    "numbers_at",
]

Buffer = bytes | memoryview

_SIZE: Final = struct.Struct(">i")
RECORD_HEAD: Final = struct.Struct(">iI20xq")
"""Size, magic and the physical offset of a record."""
HEAD_SIZE: Final = head_struct(0).size
"""Of what is in front of the body; more when it has addresses of IPv6."""
_FIRST_OF_MAGIC: Final = MAGIC >> 24
_MAGIC_BYTES: Final = MAGIC.to_bytes(4, "big")
_MAGIC: Final = int.from_bytes(MAGIC.to_bytes(4, "big"), byteorder)
_MAGIC_AT: Final = 4
_WORD: Final = 8
_WHICH_BYTE: Final = 0x0001020304050607
"""Times 1 << 8n it has n as its highest byte."""
_PHY_OFFSET_AT: Final = 28
MANY_AT_ONCE: Final = numpy is not None
FEW: Final = 64
"""Fewer records than that are faster one by one."""
_SHORT: Final = 768
"""Shorter records of different sizes are found faster by looking for their magic everywhere."""


class Places:
    """Where records of different sizes begin; they have been looked at already."""

    __slots__ = ("array", "heads")

    def __init__(self, array: Any, heads: Any) -> None:
        self.array: Final = array
        self.heads: Final = heads
        """The first ``HEAD_SIZE`` bytes of each."""

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[int]:
        return iter(self.array.tolist())


def chained(data: Buffer, base: int) -> tuple[Any, int]:
    """Where in ``data`` its first records begin (a range, a list or ``Places``), and where the last of them ends; ``base``
    is the physical offset of ``data``. There may be more behind them: ask again from there, until there are none.

    A log mostly has records of one size, for a while at least: where the first one ends the next one is expected, and so on,
    and all these places are looked at at once. If fewer than half of them are right, the sizes differ.
    """
    size = RECORD_HEAD.unpack_from(data)[0] if len(data) >= RECORD_HEAD.size else 0
    if numpy is not None and MIN_RECORD_SIZE <= size <= len(data) // FEW:
        whole = len(data) // size
        if RECORD_HEAD.unpack_from(data, size)[0] == size and (
            whole <= 2 * FEW or _of_one_size(data, base, size, FEW) == FEW
        ):
            count = _of_one_size(data, base, size, whole)
            if count * 2 >= whole:
                return range(0, count * size, size), count * size
        places = _with_first_of_magic(data) if size < _SHORT else None
        if places is None:
            places = _stepped(data)
        if (found := _proved(data, base, places))[1]:
            return found
    return _walked(data, base)


def _of_one_size(data: Buffer, base: int, size: int, whole: int) -> int:
    """How many records of that size there are side by side; so many would fit."""
    heads = numpy.ndarray((whole,), ">i8", data, 0, (size,))
    places = numpy.ndarray((whole,), ">i8", data, _PHY_OFFSET_AT, (size,))
    good = heads == (size << 32 | MAGIC)
    good &= places == numpy.arange(base, base + whole * size, size)
    return first_false(good)


def _with_first_of_magic(data: Buffer) -> Any:
    """Every place behind which the magic of a record may stand: its first byte does. None when that is at many more than
    there can be records."""
    octets = numpy.frombuffer(data, numpy.uint8)
    octets = octets[_MAGIC_AT : len(data) - MIN_RECORD_SIZE + _MAGIC_AT + 1]
    return _places_of(octets, _FIRST_OF_MAGIC, len(data) // MIN_RECORD_SIZE)


def _stepped(data: Buffer) -> Any:
    """Where records begin if each has the size that it says."""
    unpack, at, last = _SIZE.unpack_from, 0, len(data) - MIN_RECORD_SIZE
    places: list[int] = []
    add = places.append
    while at <= last:
        add(at)
        (size,) = unpack(data, at)
        if size < MIN_RECORD_SIZE:
            break
        at += size
    return numpy.array(places, numpy.int64)


def _proved(data: Buffer, base: int, places: Any) -> tuple[Any, int]:
    """Places, in order, where there may be records: those that are, as far as each ends where the next one begins."""
    if not len(places):
        return [], 0
    heads = copies_at(data, places, HEAD_SIZE)
    fits = numpy.ndarray(len(places), ">i8", heads, _PHY_OFFSET_AT, HEAD_SIZE) == places + base
    fits &= numpy.ndarray(len(places), "u4", heads, _MAGIC_AT, HEAD_SIZE) == _MAGIC
    if first_false(fits) < len(fits):
        places, heads = places[fits], heads[fits]
    if not len(places) or places[0]:
        return [], 0
    sizes = numpy.ndarray(len(places), ">i4", heads, 0, HEAD_SIZE).astype(numpy.int64)
    ends = places + sizes
    good = sizes >= MIN_RECORD_SIZE
    good[:-1] &= ends[:-1] == places[1:]
    good[-1] &= ends[-1] <= len(data)
    count = first_false(good)
    return (Places(places[:count], heads[:count]), int(ends[count - 1])) if count else ([], 0)


def _places_of(octets: Any, wanted: int, most: int) -> Any:
    """Where a byte occurs, in order: eight at once are looked at, for most have none. None when more than ``most`` have."""
    flags = numpy.empty(len(octets) + -len(octets) % _WORD, numpy.bool_)
    flags[len(octets) :] = False
    numpy.equal(octets, wanted, out=flags[: len(octets)])
    words = flags.view("<u8")
    (numbers,) = (words != 0).nonzero()
    if len(numbers) > most:
        return None
    words = words[numbers]
    found = []
    while len(words):
        first = words & (0 - words)  # its byte is 1, all others are 0
        found.append(numbers * _WORD + (first * _WHICH_BYTE >> 56).view(numpy.int64))
        words ^= first
        (several,) = words.nonzero()
        numbers, words = numbers[several], words[several]
    if len(found) < 2:
        return found[0] if found else numbers
    places = numpy.concatenate(found)
    places.sort(kind="stable")  # fast, as nearly all are in order
    return places


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


def next_record(data: Buffer, base: int, start: int) -> int | None:
    """Where in ``data`` the next record begins, from ``start`` on: behind something that is none."""
    octets = bytes(data[start:])
    at = -1
    while (at := octets.find(_MAGIC_BYTES, at + 1)) >= 0:
        begin = at - _MAGIC_AT
        if begin >= 0 and len(octets) - begin >= RECORD_HEAD.size:
            size, _, phy_offset = RECORD_HEAD.unpack_from(octets, begin)
            if phy_offset == base + start + begin and size >= MIN_RECORD_SIZE:
                return start + begin
    return None


def first_false(flags: Any) -> int:
    """How many are true in front."""
    at = flags.tobytes().find(0)  # the cheapest way to find out: mostly all are
    return len(flags) if at < 0 else int(at)


def copies_at(data: Buffer, places: Any, size: int) -> Any:
    """The bytes that begin at any places."""
    return numpy.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))[places]


def numbers_at(data: Buffer, kind: str, places: Any) -> Any:
    """The numbers that begin at any places; ``kind`` as numpy names it."""
    size = numpy.dtype(kind).itemsize
    return numpy.ndarray((len(data) - size + 1,), kind, data, 0, (1,))[places]
