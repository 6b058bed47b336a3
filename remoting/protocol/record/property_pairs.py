"""The pairs of many property strings that lie in one buffer, without an object for each.

The rules are those of ``message/properties.py``. Strings that are not ASCII, or have very many
pairs, are left to others: for those the answer is ``None``.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from ..leaves import leaf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    Column = array[int]

__all__ = ["property_edges", "property_maps"]

_MOST_PAIRS: Final = 64
_MOST_OF_DATA: Final = 2**31 - 1
_MOST_OCTETS: Final = _MOST_OF_DATA - 16
_Pair = tuple[int, int, int, int]
"""Begin and end of the name, and of the value."""


class _NotPlain(Exception):
    """One of the strings is for others."""


@leaf
def property_edges(
    data: Buffer, begins: Buffer, ends: Buffer, names: list[bytes], /
) -> list[Column] | None:
    """Begins and ends of the values of these properties, a column of each for every name in turn; 0
    where a string does not have one.

    ``begins`` and ``ends`` of the strings are 64-bit numbers. Raises ValueError where they do not
    lie in ``data``.
    """
    view, strings = _strings(data, begins, ends)
    if len(view) > _MOST_OF_DATA or len(names) > _MOST_PAIRS:
        return None
    columns = [array("i", bytes(4 * len(strings))) for _ in range(2 * len(names))]
    numbers = {name: number for number, name in reversed([*enumerate(names)])}
    try:
        for row, string in enumerate(strings):
            for name_at, name_end, at, end in _pairs(view, *string):
                if (number := numbers.get(bytes(view[name_at:name_end]))) is not None:
                    columns[2 * number][row], columns[2 * number + 1][row] = at, end
    except _NotPlain:
        return None
    return columns


@leaf
def property_maps(
    data: Buffer, begins: Buffer, ends: Buffer, /
) -> tuple[Column, Column, Column, Column, Column] | None:
    """All pairs of all strings, as Arrow has maps: which pair is the first of each string, and at
    last how many there are; where each name begins, and the last one ends, among all of them; their
    bytes; and the same of the values. Of pairs of one name only the last one is there.

    ``begins`` and ``ends`` as above. Raises ValueError.
    """
    view, strings = _strings(data, begins, ends)
    if len(view) > _MOST_OF_DATA or sum(end - begin for begin, end in strings) > _MOST_OCTETS:
        return None
    firsts, name_ends, value_ends = array("i", [0]), array("i", [0]), array("i", [0])
    names, values = array("B"), array("B")
    try:
        for string in strings:
            last: dict[bytes, bytes] = {}
            for name_at, name_end, at, end in _pairs(view, *string):
                name = bytes(view[name_at:name_end])
                last.pop(name, None)
                last[name] = bytes(view[at:end])
            for name, value in last.items():
                names.frombytes(name)
                values.frombytes(value)
                name_ends.append(len(names))
                value_ends.append(len(values))
            firsts.append(len(name_ends) - 1)
    except _NotPlain:
        return None
    return firsts, name_ends, names, value_ends, values


def _strings(data: Buffer, begins: Buffer, ends: Buffer) -> tuple[memoryview, list[_Edges]]:
    view = memoryview(data).cast("B")
    columns = [memoryview(each).cast("B").cast("q") for each in (begins, ends)]
    if len(columns[0]) != len(columns[1]):
        raise ValueError("every string has a beginning and an end")
    strings = list(zip(*columns, strict=True))
    for row, (begin, end) in enumerate(strings):
        if not 0 <= begin <= end <= len(view):
            raise ValueError(f"string {row} is not in {len(view)} bytes")
    return view, strings


_Edges = tuple[int, int]


def _pairs(view: memoryview, begin: int, end: int) -> Iterator[_Pair]:
    text = bytes(view[begin:end])
    if not text.isascii():
        raise _NotPlain
    count, at = 0, begin
    for part in text.split(b"\x02"):
        name, _, value = part.partition(b"\x01")
        if name and value:
            if (count := count + 1) > _MOST_PAIRS:
                raise _NotPlain
            yield at, at + len(name), at + len(name) + 1, at + len(part)
        at += len(part) + 1
