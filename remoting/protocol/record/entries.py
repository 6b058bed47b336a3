"""Entries that are believed: their heads lead from one to the next. For who wrote them, or has
looked at them before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..leaves import leaf
from .entry import ENTRY_HEAD, ENTRY_MAGIC, INDEX_UNIT
from .layout import MIN_RECORD_SIZE

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LEAST: Final = ENTRY_HEAD.size + MIN_RECORD_SIZE


@leaf
def entry_units(data: Buffer, at: int, end: int, index: int, place: int, /) -> tuple[bytes, int]:
    """The index units of the entries that lie side by side in ``data[at:end]``, whose first one has
    that index, and where in ``data`` they end: in front of a blank, of nothing, of another index or
    position, or of an entry that reaches over ``end``. ``data[0]`` is at ``place`` of the log.
    Raises ValueError where ``data`` is shorter.
    """
    view, units = memoryview(data), list[bytes]()
    if not 0 <= at <= end <= len(view):
        raise ValueError("the entries do not lie in the data")
    while end - at >= _LEAST:
        magic, size, own_index, term, pos, *_ = ENTRY_HEAD.unpack_from(view, at)
        if (
            magic != ENTRY_MAGIC
            or own_index != index
            or pos != place + at
            or not _LEAST <= size <= end - at
        ):
            break
        units.append(INDEX_UNIT.pack(magic, pos, size, index, term))
        at += size
        index += 1
    return b"".join(units), at
