"""Where records begin, proved by what they say of themselves: size, magic and the own place in the log.

``chained`` proves many at once (with numpy; without it there are none) and stops in front of the first thing that is in any
way unusual: the end of what is there, a blank record, a broken one. Who calls it looks at that one by one.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from ..remoting.protocol.record import MAGIC, MIN_RECORD_SIZE

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["FEW", "RECORD_HEAD", "Buffer", "chained"]

Buffer = bytes | memoryview

RECORD_HEAD: Final = struct.Struct(">iI20xq")
"""Size, magic and the physical offset of a record."""
_FIRST_OF_MAGIC: Final = MAGIC >> 24
_MAGIC_AT: Final = 4
_PHY_OFFSET_AT: Final = 28
FEW: Final = 64
"""Fewer records than that are faster one by one."""


def chained(data: Buffer, base: int) -> tuple[Any, int] | None:
    """Where in ``data`` its first records begin (an array), and where the last of them ends; ``base`` is the physical offset
    of ``data``. ``None``: too few to care.

    Every place that has the magic and its own offset is found first; then they are records as far as each ends where the
    next one begins.
    """
    last = len(data) - RECORD_HEAD.size
    if numpy is None or last < 0 or len(data) < FEW * RECORD_HEAD.unpack_from(data)[0]:
        return None
    octets = numpy.frombuffer(data, numpy.uint8)
    places = numpy.flatnonzero(octets[_MAGIC_AT : last + _MAGIC_AT + 1] == _FIRST_OF_MAGIC)
    places = places[numbers_at(data, ">i8", places + _PHY_OFFSET_AT) == places + base]
    sizes_and_magics = numbers_at(data, ">i8", places)
    are_magics = sizes_and_magics & 0xFFFFFFFF == MAGIC
    if not are_magics.all():
        places, sizes_and_magics = places[are_magics], sizes_and_magics[are_magics]
    if not len(places) or places[0]:
        return None
    sizes = sizes_and_magics >> 32
    ends = places + sizes
    good = sizes >= MIN_RECORD_SIZE
    good[:-1] &= ends[:-1] == places[1:]
    good[-1] &= ends[-1] <= len(data)
    count = len(good) if good.all() else int(good.argmin())
    return (places[:count], int(ends[count - 1])) if count else None


def numbers_at(data: Buffer, kind: str, places: Any) -> Any:
    """The numbers that begin at any places; ``kind`` as numpy names it."""
    size = numpy.dtype(kind).itemsize
    return numpy.ndarray((len(data) - size + 1,), kind, data, 0, (1,))[places]
