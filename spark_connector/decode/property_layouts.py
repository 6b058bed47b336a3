"""Properties of records that share a layout: most topics have one producer, or a few, that
sets the same properties.

Two property strings have the same layout when they are equally long and have their separators at
the same places; then what is found in the first one is found at the same places in all others. That
costs a third of taking each one apart (``decode_properties``), which is left for those that have
their layout for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from .decode_properties import PropertyTable, name_type
from .record_arrays import Array, RecordArrays, gather

__all__ = ["NamedProperties"]

_LEAST: Final = 64
_SHARE: Final = 16
"""A size that fewer records have, or a smaller share of them, is not looked at."""


class NamedProperties:
    """Some properties of some records."""

    def __init__(self, records: RecordArrays, names: Sequence[str]) -> None:
        self._octets: Final = records.octets
        self._edges: dict[str, tuple[Array, Array]] = {}
        """Begins and ends of values; 0 where a record does not have the property."""
        self._table: PropertyTable | None = None
        """In place of all this, when the records have little in common, or something is not
        UTF-8."""
        count = len(records)
        left = np.ones(count, bool)
        for rows, pairs in _layouts(records, [name.encode() for name in names]):
            if not self._edges:
                self._edges = {
                    name: (np.zeros(count, np.int64), np.zeros(count, np.int64)) for name in names
                }
            left[rows] = False
            places = {
                pair.name.decode(): pair for pair in pairs
            }  # of duplicates the last one stays
            at = records.properties_at[rows]
            for name in self._edges.keys() & places.keys():
                begins, ends = self._edges[name]
                begins[rows], ends[rows] = at + places[name].begin, at + places[name].end
        if not left.any():
            return
        others = PropertyTable(records if not self._edges else records.select(left))
        if not self._edges:
            self._table = others
        elif others.is_altered:
            self._table = PropertyTable(records)
        else:
            for name, (begins, ends) in self._edges.items():
                begins[left], ends[left] = others.edges(name)

    def column(self, name: str) -> pa.Array:
        """The values of one of the properties, null where a record does not have it."""
        if self._table is not None:
            return self._table.column(name)
        begins, ends = self._edges[name]
        return gather(self._octets, begins, ends, pa.string(), missing=begins == 0)


class _Pair(NamedTuple):
    """A property in a property string: its name, where that begins, and begin and end of the
    value."""

    name: bytes
    at: int
    begin: int
    end: int


def _layouts(records: RecordArrays, names: Sequence[bytes]) -> Iterator[tuple[Array, list[_Pair]]]:
    """Numbers of records that have the same layout, and the properties in it. Not all records are
    among them."""
    begins, name_sizes = records.properties_at, set(map(len, names))
    for size, rows in _frequent(records.ends - begins):
        everywhere = np.ndarray(
            (len(records.octets) - size + 1,), f"V{size}", records.octets, 0, (1,)
        )
        strings = everywhere[begins[rows]].view(np.uint8).reshape(len(rows), size)
        pairs = list(_pairs(strings[0].tobytes()))
        fits = _like_the_first(strings, [pair for pair in pairs if len(pair.name) in name_sizes])
        if fits.all():
            yield rows, pairs
        elif fits.sum() > len(rows) // 2:
            yield rows[fits], pairs


def _frequent(sizes: Array) -> list[tuple[int, Array]]:
    """Sizes that many have, and who has them; nothing when most have other ones."""
    counts = np.bincount(sizes)
    frequent = np.flatnonzero(counts >= max(_LEAST, len(sizes) // _SHARE))
    if counts[frequent].sum() < len(sizes) // 2 + 1:
        return []
    return [(size, np.flatnonzero(sizes == size)) for size in frequent.tolist() if size]


def _pairs(text: bytes) -> Iterator[_Pair]:
    """By the rules of ``remoting/protocol/message/properties.py``."""
    at = 0
    for part in text.split(b"\x02"):
        name, _, value = part.partition(b"\x01")
        if name and value:
            yield _Pair(name, at, at + len(name) + 1, at + len(part))
        at += len(part) + 1


def _like_the_first(strings: Array, pairs: Sequence[_Pair]) -> Array:
    """Which of the strings, all of one size, are ASCII and have separators and these names where
    the first one has them.

    Whether other names differ is no matter as long as none of them is as long as one that is looked
    for.
    """
    text = strings > 2  # 1 and 2 are the separators
    same = text == text[0]
    fits = np.ones(len(strings), bool) if same.all() else same.all(axis=1)
    for at in np.flatnonzero(~text[0]).tolist():
        fits &= strings[:, at] == strings[0, at]
    if strings.max() >= 0x80:
        fits &= (strings < 0x80).all(axis=1)
    for pair in pairs:
        kind = name_type(len(pair.name))
        names = np.ndarray((len(strings),), kind, strings, pair.at, (strings.shape[1],))
        fits &= names == np.frombuffer(pair.name, kind)[0]
    return fits
