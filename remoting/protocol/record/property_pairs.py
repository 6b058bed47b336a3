"""The pairs of many property strings that lie in one buffer, without an object for each.

The rules are those of ``message/properties.py``. Strings that are not ASCII, or have very many
pairs, are left to others: for those the answer is ``None``.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from ..leaves import leaf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    Column = array[int]

__all__ = ["Maps", "Texts", "property_columns"]

_MOST_PAIRS: Final = 64
_MOST_OF_DATA: Final = 2**31 - 1
_MOST_OCTETS: Final = _MOST_OF_DATA - 16
Texts = tuple["Column | None", "Column", "Column"]
"""A bit for each that is there, ``None`` where all are; where the first one begins, and each one
ends; the bytes."""
Maps = tuple["Column", "Column", "Column", "Column", "Column"]
"""Which pair is the first of each string, and at last how many there are; of the names, and of the
values, what ``Texts`` has behind its bits."""


class _NotPlain(Exception):
    """One of the strings is for others."""


@leaf
def property_columns(
    data: Buffer, begins: Buffer, ends: Buffer, names: list[bytes], with_maps: bool, /
) -> tuple[list[Texts], Maps | None] | None:
    """The values of the properties of these names, and if they are asked for all pairs of all
    strings, as Arrow has texts and maps. Of pairs of one name only the last one counts.

    ``begins`` and ``ends`` of the strings are 64-bit numbers. Raises ValueError where they do not
    lie in ``data``.
    """
    view, strings = _strings(data, begins, ends)
    octets = sum(end - begin for begin, end in strings)
    if len(view) > _MOST_OF_DATA or octets > _MOST_OCTETS or len(names) > _MOST_PAIRS:
        return None
    try:
        all_pairs = [_pairs(bytes(view[begin:end])) for begin, end in strings]
    except _NotPlain:
        return None
    columns = [_texts([pairs.get(name) for pairs in all_pairs]) for name in names]
    if not with_maps:
        return columns, None
    firsts = array("i", accumulate(map(len, all_pairs), initial=0))
    keys = [name for pairs in all_pairs for name in pairs]
    values = [value for pairs in all_pairs for value in pairs.values()]
    return columns, (firsts, *_texts(keys)[1:], *_texts(values)[1:])


def _texts(values: Sequence[bytes | None]) -> Texts:
    there = array("B", bytes((len(values) + 7) // 8))
    for row, value in enumerate(values):
        if value is not None:
            there[row >> 3] |= 1 << (row & 7)
    plain = [value or b"" for value in values]
    ends = array("i", accumulate(map(len, plain), initial=0))
    return there if None in values else None, ends, array("B", b"".join(plain))


def _strings(
    data: Buffer, begins: Buffer, ends: Buffer
) -> tuple[memoryview, list[tuple[int, int]]]:
    view = memoryview(data).cast("B")
    columns = [memoryview(each).cast("B").cast("q") for each in (begins, ends)]
    if len(columns[0]) != len(columns[1]):
        raise ValueError("every string has a beginning and an end")
    strings = list(zip(*columns, strict=True))
    for row, (begin, end) in enumerate(strings):
        if not 0 <= begin <= end <= len(view):
            raise ValueError(f"string {row} is not in {len(view)} bytes")
    return view, strings


def _pairs(text: bytes) -> dict[bytes, bytes]:
    """In the order of the places that count."""
    if not text.isascii():
        raise _NotPlain
    found: dict[bytes, bytes] = {}
    count = 0
    for part in text.split(b"\x02"):
        name, _, value = part.partition(b"\x01")
        if name and value:
            if (count := count + 1) > _MOST_PAIRS:
                raise _NotPlain
            found.pop(name, None)
            found[name] = value
    return found
