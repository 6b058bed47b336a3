"""Where everything lies in a buffer full of records: an array of numpy for each field instead of an
object for each record.

The records are found by ``remoting/protocol/record/scan``, which also says what most of their
fields are; the others are read here, from where ``record/layout`` says that they lie. Records of
all kinds are found (hosts of IPv4 and IPv6, both magics); whatever is not in order makes
``find_records`` give up, and the record loop (``decode_slow``) tells what it is.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.record import Records, body_crc, head_struct, scan
from ...remoting.protocol.record.layout import V6_HOSTS, host_sizes, offset_of
from ...remoting.protocol.record.scan import scan_stretches
from .arrow_arrays import from_numbers

__all__ = ["RecordArrays", "find_in_stretches", "find_records", "gather", "interleave"]

Array = Any
"""A numpy array."""

_HEAD_SIZE: Final = head_struct(0).size
_HOSTS_AT: Final = offset_of("born_host")
_HOST_SIZES: Final = tuple(zip(host_sizes(0), host_sizes(V6_HOSTS), strict=True))
"""Of born and store host: with IPv4, with IPv6."""

_EVENS: Final = from_numbers(np.arange(0, 1 << 15, 2, dtype=np.int32))


class RecordArrays(msgspec.Struct, frozen=True):
    """Entry ``i`` of every array belongs to record ``i``. Positions are bytes of ``octets``."""

    octets: Array
    names: list[str]
    """The topics that ``topics`` counts."""
    starts: Array
    ends: Array
    phy_offset: Array
    queue_id: Array
    queue_offset: Array
    sys_flag: Array
    store_timestamp: Array
    body_at: Array
    body_end: Array
    topics: Array
    properties_at: Array

    @classmethod
    def of(cls, records: Records) -> RecordArrays:
        """What a scan has found, at least one record."""
        starts, body_at = _array(records.at), _array(records.body_at)
        return cls(
            octets=np.frombuffer(records.data, np.uint8),
            names=records.names,
            starts=starts,
            ends=starts + _array(records.sizes),
            phy_offset=_array(records.phy_offsets),
            queue_id=_array(records.queue_ids),
            queue_offset=_array(records.queue_offsets),
            sys_flag=_array(records.sys_flags),
            store_timestamp=_array(records.store_timestamps),
            body_at=body_at,
            body_end=body_at + _array(records.body_sizes),
            topics=_array(records.topics),
            properties_at=_array(records.properties_at),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str, dtype: type[np.generic]) -> Array:
        """A number out of the heads, of the type that it has there."""
        if (found := getattr(self, name, None)) is not None:
            return found.astype(dtype)
        kind = np.dtype(dtype).newbyteorder(">")
        everywhere = np.ndarray((len(self.octets) - kind.itemsize + 1,), kind, self.octets, 0, (1,))
        return everywhere[self._place_of(name)].astype(dtype)

    def host_edges(self, born: bool) -> tuple[Array, Array]:
        """Where the packed hosts lie."""
        bit = MessageSysFlag.BORN_HOST_V6 if born else MessageSysFlag.STORE_HOST_V6
        v4, v6 = _HOST_SIZES[0 if born else 1]
        sizes = np.where(self.sys_flag & int(bit), v6, v4)
        if born:
            begins = self._place_of("born_host")
            return begins, begins + sizes
        ends = self._place_of("reconsume_times")
        return ends - sizes, ends

    def _place_of(self, name: str) -> Array:
        """Where a field begins that lies in front of the hosts, or behind both: these are as long
        as the kind of record."""
        at = offset_of(name)
        return self.starts + at if at <= _HOSTS_AT else self.body_at - (_HEAD_SIZE - at)

    def select(self, wanted: Array | slice) -> RecordArrays:
        """Only some of the records: a mask, their numbers, or from which one to which."""
        return RecordArrays(
            self.octets,
            self.names,
            *(getattr(self, name)[wanted] for name in self.__struct_fields__[2:]),
        )


def _array(column: Any) -> Array:
    """A column of a scan, which is not copied."""
    return np.frombuffer(column, np.int64)


def find_records(data: Any, *, check_crc: bool = False) -> RecordArrays | None:
    """All records that lie one after the other in ``data``; ``None`` when anything is wrong with
    one of them, or there is none.
    """
    found = scan(data, crc=body_crc if check_crc else None, any_version=True)
    return RecordArrays.of(found.records) if len(found.records) and found.end == len(data) else None


def find_in_stretches(
    data: Any, begins: list[int], ends: list[int], *, check_crc: bool = False
) -> RecordArrays | None:
    """All records of some stretches of ``data``, one stretch after the other; ``None`` as above."""
    records = scan_stretches(data, begins, ends, check_crc=check_crc)
    whole = len(records) and int(_array(records.sizes).sum()) == sum(ends) - sum(begins)
    return RecordArrays.of(records) if whole else None


def interleave(octets: Array, begins: Array, ends: Array, *, kind: Any) -> pa.Array:
    """An Arrow array over ``octets``, without a copy, whose elements are the wanted pieces and in
    turn what Arrow takes for the gaps behind them. Nothing but the pieces must be looked at: they
    may lie in any order.
    """
    count = len(begins)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2] = begins
    offsets[1::2] = ends
    offsets[-1] = len(octets)  # Arrow wants to see that the last one is not less than the first
    return pa.Array.from_buffers(
        kind, 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(octets)]
    )


def gather(octets: Array, begins: Array, ends: Array, kind: Any) -> pa.Array:
    """Copies of pieces of ``octets``, in order, as Arrow's binary or string."""
    count = len(begins)
    if not count:
        return pa.nulls(0, kind)
    if count <= len(_EVENS):
        evens = _EVENS.slice(0, count)
    else:
        evens = from_numbers(np.arange(0, 2 * count, 2, dtype=np.int32))
    return interleave(octets, begins, ends, kind=kind).take(evens)
