"""Where everything lies in a buffer full of records: one array for each field instead of one object for each record.

Records of all kinds are found here (hosts of IPv4 and IPv6, both magics); whatever is not in order makes ``find_records``
give up, and the record loop (``decode_slow``) tells what it is.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from ..remoting.protocol.record import MAGIC, MIN_RECORD_SIZE, head_struct
from ..remoting.protocol.sys_flag import MessageSysFlag
from .arrow_arrays import from_numbers
from .decode_slow import MAGIC_V2

__all__ = ["RecordArrays", "find_in_stretches", "find_records", "gather", "interleave"]

Array = Any
"""A numpy array."""

_BORN_V6: Final = int(MessageSysFlag.BORN_HOST_V6)
_STORE_V6: Final = int(MessageSysFlag.STORE_HOST_V6)
_V6: Final = _BORN_V6 | _STORE_V6
_SIZE: Final = struct.Struct(">i")
_MAX_BUFFER: Final = 2**31 - 1
"""Positions are 32-bit numbers: Arrow's binary and string have no other ones."""

_MANY_STRETCHES: Final = 64
"""A step in so many stretches takes less time than as many steps in a loop."""
_STEPS: Final = 8

_EVENS: Final = from_numbers(np.arange(0, 1 << 15, 2, dtype=np.int32))


def _head_type(kind: int) -> np.dtype[Any]:
    """The head of a record as numpy has it (layout: ``remoting/protocol/record.py``); ``kind`` are the IPv6 bits."""
    born = 20 if kind & _BORN_V6 else 8
    store = 20 if kind & _STORE_V6 else 8
    fields = [
        ("size", ">i4", 0), ("magic", ">u4", 4), ("crc", ">u4", 8), ("queue_id", ">i4", 12), ("flag", ">i4", 16),
        ("queue_offset", ">i8", 20), ("phy_offset", ">i8", 28), ("sys_flag", ">i4", 36), ("born_timestamp", ">i8", 40),
        ("store_timestamp", ">i8", 48 + born), ("reconsume_times", ">i4", 56 + born + store),
        ("body_size", ">i4", 68 + born + store),
    ]  # fmt: skip
    names, formats, offsets = zip(*fields, strict=True)
    kind_size = head_struct(kind).size
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": kind_size})


_HEADS: Final = {kind: _head_type(kind) for kind in (0, _BORN_V6, _STORE_V6, _V6)}


class RecordArrays(msgspec.Struct, frozen=True):
    """Entry ``i`` of every array belongs to record ``i``. Positions are bytes of ``octets``."""

    octets: Array
    heads: Array
    starts: Array
    body_at: Array
    body_end: Array
    topic_at: Array
    topic_end: Array
    ends: Array

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str, dtype: type[np.generic]) -> Array:
        """A number out of the heads, in the machine's own byte order."""
        return self.heads[name].astype(dtype)

    @property
    def properties_at(self) -> Array:
        return self.topic_end + 2

    def select(self, wanted: Array) -> RecordArrays:
        """Only some of the records: a mask or their numbers."""
        return RecordArrays(self.octets, *(getattr(self, name)[wanted] for name in self.__struct_fields__[1:]))


def find_records(data: Any, starts: Array | list[int] | None = None) -> RecordArrays | None:
    """All records that lie one after the other in ``data``; ``None`` when anything is wrong with one of them.

    ``starts``: where they begin, in any order, if that is known already. Only these are looked at, and there may be gaps.
    """
    if starts is None:
        starts, end = _chain(data, 0, len(data))
        if end != len(data):
            return None
    octets = np.frombuffer(data, np.uint8)
    begins = np.asarray(starts, np.int64)
    heads = _heads(octets, begins, 0)
    kinds = heads["sys_flag"].astype(np.int32) & _V6
    shift: Array = 0
    if kinds.any():
        for kind in np.unique(kinds):
            numbers = np.flatnonzero(kinds == kind)
            if begins[numbers].max() + _HEADS[int(kind)].itemsize > len(octets):
                return None
            for_kind = _heads(octets, begins[numbers], int(kind))
            for name in ("store_timestamp", "reconsume_times", "body_size"):
                heads[name][numbers] = for_kind[name]
        shift = 12 * ((kinds & _BORN_V6 != 0).astype(np.int64) + (kinds & _STORE_V6 != 0))
    return _with_lengths(octets, begins, heads, begins + (_HEADS[0].itemsize + shift))


def find_in_stretches(data: Any, begins: list[int], ends: list[int]) -> RecordArrays | None:
    """All records of some stretches of ``data``, one stretch after the other; ``None`` as above."""
    if len(begins) >= _MANY_STRETCHES:
        starts = _side_by_side(np.frombuffer(data, np.uint8), np.array(begins, np.int64), np.array(ends, np.int64))
        return None if starts is None else find_records(data, starts)
    every: list[int] = []
    for begin, end in zip(begins, ends, strict=True):
        some, at = _chain(data, begin, end)
        if at != end:
            return None
        every += some
    return find_records(data, every)


def _chain(data: Any, at: int, end: int) -> tuple[list[int], int]:
    """Where records begin, as their sizes lead from one to the next, and where that ends."""
    unpack = _SIZE.unpack_from
    starts: list[int] = []
    add = starts.append
    last = end - MIN_RECORD_SIZE
    while at <= last:
        (size,) = unpack(data, at)
        if size < MIN_RECORD_SIZE:
            break
        add(at)
        at += size
    return starts, at


def _side_by_side(octets: Array, begins: Array, ends: Array) -> Array | None:
    """The same for many stretches, a step in all of them at once; ``None`` when one of them does not end with a record.

    A stretch that is through goes on over whatever follows: what lies behind its end is left out afterwards.
    """
    sizes = np.ndarray((len(octets) - _SIZE.size + 1,), ">u4", octets, 0, (1,))
    last, final = ends - MIN_RECORD_SIZE, len(sizes) - 1
    at, steps = begins, [begins]
    while (going := at <= last).any():
        before = at
        for _ in range(_STEPS):
            at = at + sizes[np.minimum(at, final)]
            steps.append(at)
        if (going & (at <= last) & (at - before < _STEPS * MIN_RECORD_SIZE)).any():
            return None  # sizes that lead nowhere
    places = np.array(steps).T
    inside = places <= last[:, None]
    behind = places[np.arange(len(begins)), inside.sum(axis=1)]
    return places[inside] if (behind == ends).all() else None


def _heads(octets: Array, begins: Array, kind: int) -> Array:
    """The heads at some places: a view of one at every byte, of which the wanted ones are copied at once."""
    head = _HEADS[kind]
    everywhere = np.ndarray((len(octets) - head.itemsize + 1,), f"V{head.itemsize}", octets, 0, (1,))
    return everywhere[begins].view(head)


def _with_lengths(octets: Array, begins: Array, heads: Array, body_at: Array) -> RecordArrays | None:
    """Checks that body, topic and properties make up every record; ``None`` when not."""
    ends = begins + heads["size"].astype(np.int64)
    magic = heads["magic"].astype(np.uint32)
    body_size = heads["body_size"].astype(np.int64)
    body_end = body_at + body_size
    topic_at = body_end + 1
    any_long = False
    if not (magic == MAGIC).all():
        long_topic = magic == MAGIC_V2
        if not ((magic == MAGIC) | long_topic).all():
            return None
        any_long = True
        topic_at += long_topic
    if body_size.min() < 0 or ends.max() > len(octets) or not (topic_at + 2 <= ends).all():
        return None
    topic_end = topic_at + octets[topic_at - 1]
    if any_long:
        topic_end += np.where(long_topic, octets[topic_at - 2].astype(np.int64) << 8, 0)
    properties_at = topic_end + 2
    if not (properties_at <= ends).all():
        return None
    lengths = np.ndarray((len(octets) - 1,), ">u2", octets, 0, (1,))
    if not (properties_at + lengths[topic_end] == ends).all():
        return None
    return RecordArrays(octets, heads, begins, body_at, body_end, topic_at, topic_end, ends)


def interleave(octets: Array, begins: Array, ends: Array, *, kind: Any) -> pa.Array:
    """An Arrow array over ``octets``, without a copy, whose elements are the wanted pieces and in turn what Arrow takes for
    the gaps behind them. Nothing but the pieces must be looked at: they may lie in any order.
    """
    count = len(begins)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2] = begins
    offsets[1::2] = ends
    offsets[-1] = len(octets)  # Arrow wants to see that the last one is not less than the first
    return pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


def gather(octets: Array, begins: Array, ends: Array, kind: Any, *, missing: Array | None = None) -> pa.Array:
    """Copies of pieces of ``octets``, in order, as Arrow's binary or string; null where they are ``missing``."""
    count = len(begins)
    if not count:
        return pa.nulls(0, kind)
    if missing is not None and missing.any():
        evens = from_numbers(np.arange(0, 2 * count, 2, dtype=np.int32), missing=missing)
    elif count <= len(_EVENS):
        evens = _EVENS.slice(0, count)
    else:
        evens = from_numbers(np.arange(0, 2 * count, 2, dtype=np.int32))
    return interleave(octets, begins, ends, kind=kind).take(evens)
