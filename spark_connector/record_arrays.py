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
from .decode_slow import MAGIC_V2

__all__ = ["RecordArrays", "find_records", "gather", "interleave"]

Array = Any
"""A numpy array."""

_BORN_V6: Final = int(MessageSysFlag.BORN_HOST_V6)
_STORE_V6: Final = int(MessageSysFlag.STORE_HOST_V6)
_V6: Final = _BORN_V6 | _STORE_V6
_SIZE: Final = struct.Struct(">i")
_MAX_BUFFER: Final = 2**31 - 1
"""Positions are 32-bit numbers: Arrow's binary and string have no other ones."""

_EVENS: Final = pa.array(np.arange(0, 1 << 15, 2, dtype=np.int32))


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
    topic_at: Array
    topic_end: Array
    ends: Array

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str, dtype: type[np.generic]) -> Array:
        """A number out of the heads, in the machine's own byte order."""
        return self.heads[name].astype(dtype)

    @property
    def body_end(self) -> Array:
        return self.body_at + self.heads["body_size"]

    @property
    def properties_at(self) -> Array:
        return self.topic_end + 2

    def select(self, wanted: Array) -> RecordArrays:
        """Only some of the records: a mask or their numbers."""
        return RecordArrays(self.octets, *(getattr(self, name)[wanted] for name in self.__struct_fields__[1:]))


def find_records(data: Any, starts: list[int] | None = None) -> RecordArrays | None:
    """All records that lie one after the other in ``data``; ``None`` when anything is wrong with one of them.

    ``starts``: where they begin, if that is known already. Then only these are looked at, and there may be gaps.
    """
    if starts is None:
        starts, end = _chain(data)
        if end != len(data):
            return None
    octets = np.frombuffer(data, np.uint8)
    begins = np.array(starts, np.int64)
    heads = _heads(octets, begins, 0)
    kinds = heads["sys_flag"] & _V6
    shift: Array = 0
    if kinds.any():
        for kind in np.unique(kinds):
            numbers = np.flatnonzero(kinds == kind)
            if begins[numbers[-1]] + _HEADS[int(kind)].itemsize > len(octets):
                return None
            for_kind = _heads(octets, begins[numbers], int(kind))
            for name in ("store_timestamp", "reconsume_times", "body_size"):
                heads[name][numbers] = for_kind[name]
        shift = 12 * ((kinds & _BORN_V6 != 0).astype(np.int64) + (kinds & _STORE_V6 != 0))
    return _with_lengths(octets, begins, heads, begins + (_HEADS[0].itemsize + shift))


def _chain(data: Any) -> tuple[list[int], int]:
    """Where records begin, as their sizes lead from one to the next, and where that ends."""
    unpack = _SIZE.unpack_from
    starts: list[int] = []
    add = starts.append
    at, last = 0, len(data) - MIN_RECORD_SIZE
    while at <= last:
        (size,) = unpack(data, at)
        if size < MIN_RECORD_SIZE:
            break
        add(at)
        at += size
    return starts, at


def _heads(octets: Array, begins: Array, kind: int) -> Array:
    """The heads at some places: a view of one at every byte, of which the wanted ones are copied at once."""
    head = _HEADS[kind]
    everywhere = np.ndarray((len(octets) - head.itemsize + 1,), f"V{head.itemsize}", octets, 0, (1,))
    return everywhere[begins].view(head)


def _with_lengths(octets: Array, begins: Array, heads: Array, body_at: Array) -> RecordArrays | None:
    """Checks that body, topic and properties make up every record; ``None`` when not."""
    ends = begins + heads["size"]
    magic = heads["magic"]
    long_topic = magic == MAGIC_V2
    topic_at = body_at + heads["body_size"] + 1
    if any_long := bool(long_topic.any()):
        topic_at += long_topic
    if not (((magic == MAGIC) | long_topic).all() and (heads["body_size"] >= 0).all() and (topic_at + 2 <= ends).all()):
        return None
    topic_size = octets[topic_at - 1].astype(np.int64)
    if any_long:
        topic_size += np.where(long_topic, octets[topic_at - 2].astype(np.int64) << 8, 0)
    topic_end = topic_at + topic_size
    if not (topic_end + 2 <= ends).all():
        return None
    properties_size = octets[topic_end].astype(np.int64) << 8 | octets[topic_end + 1]
    if not (topic_end + 2 + properties_size == ends).all():
        return None
    return RecordArrays(octets, heads, begins, body_at, topic_at, topic_end, ends)


def interleave(octets: Array, *edges: Array, kind: Any) -> pa.Array:
    """An Arrow array over ``octets``, without a copy, whose elements are what lies between the edges: with two edges
    (begins, ends) the wanted pieces and the gaps behind them in turn, to be taken with ``take``.
    """
    offsets = np.empty((len(edges[0]), len(edges)), np.int32)
    for number, edge in enumerate(edges):
        offsets[:, number] = edge
    count = max(0, offsets.size - 1)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


def gather(octets: Array, begins: Array, ends: Array, kind: Any) -> pa.Array:
    """Copies of pieces of ``octets``, in order, as Arrow's binary or string."""
    count = len(begins)
    if not count:
        return pa.array([], kind)
    evens = _EVENS.slice(0, count) if count <= len(_EVENS) else pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))
    return interleave(octets, begins, ends, kind=kind).take(evens)
