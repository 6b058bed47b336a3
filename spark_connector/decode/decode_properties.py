"""The property strings of many records at once: named properties as columns, all of them as a map.

The strings are copied into one block, each behind a separator of its own, so that in the block
every pair begins behind a 0x02 and ends before the next one. The reader's rules are those of
``remoting/protocol/message/properties.py``: the name ends at the first 0x01, a pair with an empty
name or value does not count, of duplicates the last one wins, and what is not UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from .arrow_arrays import from_numbers
from .record_arrays import Array, RecordArrays, gather

__all__ = ["PropertyTable", "is_utf8"]

_WORDS: Final = {4: "<u4", 8: "<u8"}
"""Names of so many bytes are compared as numbers: KEYS, TAGS, UNIQ_KEY."""
_MAX_NAMES: Final = 256
"""With more different names a table of records by names would have more holes than entries."""


class PropertyTable:
    """Names and values of the properties of some records."""

    def __init__(self, records: RecordArrays) -> None:
        begins, ends = records.properties_at - 1, records.ends
        block = gather(records.octets, begins, ends, pa.binary())
        offsets, data = (
            np.frombuffer(part, kind)
            for part, kind in zip(block.buffers()[1:], (np.int32, np.uint8), strict=True)
        )
        if not data.flags.writeable:
            data = data.copy()
        first = offsets[: len(records)]
        data[first] = 2
        if is_utf8(data):
            self._take_apart(data, first)
        else:
            separators = np.flatnonzero(data == 2)
            first = np.searchsorted(separators, first)  # they keep their order, not their places
            data = np.frombuffer(data.tobytes().decode("utf-8", "replace").encode(), np.uint8)
            self._take_apart(data, np.flatnonzero(data == 2)[first])
        self._of_size: dict[int, tuple[Array, Array]] = {}

    def _take_apart(self, data: Array, first: Array) -> None:
        """``first``: where the separators in front of the first pairs stand."""
        self._data = data
        marks = np.flatnonzero(data < 3).astype(np.int32)
        kinds = data[marks]
        ends = np.append(marks[1:], np.int32(len(data)))
        if (
            not len(marks) % 2
            and (kinds[::2] == 2).all()
            and (kinds[1::2] == 1).all()
            and (ends - marks > 1).all()
        ):
            separators = marks[::2]
            offsets = np.empty(2 * len(marks), np.int32)
            offsets[::2] = marks + 1
            offsets[1::2] = ends
        else:
            separators, offsets = _plain_pairs(data)
        each, rest = divmod(len(separators), len(first))
        firsts: Array = np.arange(len(first)) * each
        if rest or not each or (separators[::each] != first).any():
            firsts = np.searchsorted(separators, first)
        self._firsts = np.append(firsts, len(separators))
        """Number of the first pair of each record, and at last how many pairs there are."""
        self._offsets = offsets
        self._begins, self._sizes = offsets[::4], offsets[1::4] - offsets[::4]
        self._pieces = pa.Array.from_buffers(
            pa.string(), max(0, len(offsets) - 1), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        """Four for every pair: name, 0x01, value, 0x02."""

    def column(self, name: str) -> pa.Array:
        """The values of one property, null where a record does not have it."""
        pairs = self._pair_of_each(name)
        missing = pairs < 0
        return self._pieces.take(
            from_numbers(4 * pairs + 2, missing=missing if missing.any() else None)
        )

    def _pair_of_each(self, name: str) -> Array:
        """The number of each record's pair with this name, or -1."""
        found = self._pairs_named(name.encode())
        count, firsts = len(self._firsts) - 1, self._firsts
        if len(found) == count and (firsts[:-1] <= found).all() and (found < firsts[1:]).all():
            return found
        pairs = np.full(count, -1, np.int64)
        records: Array = np.searchsorted(firsts, found, "right") - 1
        pairs[records] = found  # of duplicates the last one stays
        return pairs

    def _pairs_named(self, name: bytes) -> Array:
        """Numbers of the pairs with this name."""
        size = len(name)
        kind = _name_type(size)
        if size not in self._of_size:
            found = np.flatnonzero(self._sizes == size)
            everywhere = np.ndarray(
                (max(0, len(self._data) - size + 1),), kind, self._data, 0, (1,)
            )
            self._of_size[size] = found, everywhere[self._begins[found]] if len(found) else found
        found, names = self._of_size[size]
        return found[names == np.frombuffer(name, kind)[0]] if len(found) else found

    def maps(self) -> pa.Array:
        """All properties of every record."""
        numbers = np.arange(len(self._begins))
        names = self._pieces.take(from_numbers(4 * numbers))
        firsts = self._firsts
        if (repeated := _without_repeated(names, firsts)) is not None:
            numbers, firsts = repeated
            names = names.take(from_numbers(numbers))
        values = self._pieces.take(from_numbers(4 * numbers + 2))
        return pa.MapArray.from_arrays(from_numbers(firsts.astype(np.int32)), names, values)


def _plain_pairs(data: Array) -> tuple[Array, Array]:
    """The separators in front of the pairs that count, and the edges of these pairs: of pieces four
    for every one."""
    separators, equals = np.flatnonzero(data == 2), np.flatnonzero(data == 1)
    begins, ends = separators + 1, np.append(separators[1:], len(data))
    names_end = np.append(equals, len(data))[np.searchsorted(equals, begins)]
    usable = (begins < names_end) & (names_end < ends - 1)
    begins, names_end, ends = begins[usable], names_end[usable], ends[usable]
    return separators[usable], np.stack((begins, names_end, names_end + 1, ends), axis=1).astype(
        np.int32
    ).ravel()


def _name_type(size: int) -> str:
    """What numpy compares names of so many bytes as."""
    return _WORDS.get(size, f"S{size}")


def is_utf8(data: Array) -> bool:
    """Whether the bytes are UTF-8."""
    if not len(data) or data.max() < 0x80:
        return True
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data)]
    )
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _without_repeated(names: pa.Array, firsts: Array) -> tuple[Array, Array] | None:
    """Which pairs count, of every name in a record the last one, and where each record begins among
    them.

    ``None``: all of them, no record has a name twice. (What a batch brings along it has from its
    messages and once more from its header: the name WAIT.)
    """
    counts = np.diff(firsts)
    if not len(names):
        return None
    if _uniform(names, counts):
        of_first = names.slice(0, int(counts[0])).to_pylist()
        kept = np.array(sorted({name: place for place, name in enumerate(of_first)}.values()))
        if len(kept) == len(of_first):
            return None
        return (firsts[:-1, None] + kept).ravel(), np.arange(len(firsts)) * len(kept)
    encoded = names.dictionary_encode()
    codes, many = (
        np.frombuffer(encoded.indices.buffers()[1], np.int32)[: len(names)],
        len(encoded.dictionary),
    )
    keys = np.repeat(np.arange(len(counts)) * many, counts) + codes
    if many > _MAX_NAMES:
        _, from_behind = np.unique(keys[::-1], return_index=True)
        numbers = np.sort(len(keys) - 1 - from_behind)
        return None if len(numbers) == len(keys) else (numbers, np.searchsorted(numbers, firsts))
    table = np.full(len(counts) * many, -1)
    table[keys] = np.arange(len(keys))  # of several the last one stays
    there = table >= 0
    numbers = table[there]
    if len(numbers) == len(keys):
        return None
    return numbers, np.append(0, np.cumsum(there.reshape(len(counts), many).sum(axis=1)))


def _uniform(names: pa.Array, counts: Array) -> bool:
    """All records have the same names in the same order: compared as bytes, which is cheaper than a
    look-up of each."""
    records, each = len(counts), int(counts[0])
    if (counts != each).any() or not each:
        return False
    offsets = np.frombuffer(names.buffers()[1], np.int32)[: len(names) + 1]
    sizes = np.diff(offsets).reshape(records, each)
    if (sizes != sizes[0]).any():
        return False
    octets = np.frombuffer(names.buffers()[2], np.uint8)[: offsets[-1]].reshape(records, -1)
    return bool((octets == octets[0]).all())
