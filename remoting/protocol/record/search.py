"""Where records may begin behind something that is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .layout import MAGIC, MIN_RECORD_SIZE, glance, offset_of

_MAGIC_BYTES: Final = MAGIC.to_bytes(4, "big")
_MAGIC_AT: Final = offset_of("magic")
_SIZE_AND_PLACE: Final = glance("store_size", "phy_offset")
LOOKED_AT: Final = _SIZE_AND_PLACE.size
"""So much of a record has to be there for ``possible_records`` to see it."""


def possible_records(
    data: Any, start: int, place: int | None, end: int | None = None
) -> Iterator[int]:
    """Every place from byte ``start`` on, of bytes or a mapping, with the magic of a record; and,
    where ``place`` is the physical offset of ``data[0]``, with its own offset. All of what is
    looked at lies in front of ``end``.
    """
    end = len(data) if end is None else end
    at = start - 1
    while (at := data.find(_MAGIC_BYTES, at + 1 + _MAGIC_AT, end - 1) - _MAGIC_AT) >= start:
        if place is None:
            yield at
        elif end - at >= LOOKED_AT:
            size, own_place = _SIZE_AND_PLACE.unpack_from(data, at)
            if own_place == place + at and size >= MIN_RECORD_SIZE:
                yield at


def next_record(data: Any, start: int, place: int, end: int | None = None) -> int | None:
    """The first of them."""
    return next(possible_records(data, start, place, end), None)
