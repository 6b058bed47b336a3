"""Arrow columns into items of batch bodies, all rows at once (the layout stands in
``remoting.protocol.record.batch``).

An item is a head of 20 bytes, the body, the length of the property string and that string; a leaf
joins these pieces row by row, so that the items of neighbouring rows lie next to each other in one
buffer, ready to be sent as they are. No object is made per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...client.errors import MessageError
from ...client.producer.message_ids import next_message_id
from ...remoting.protocol.message.properties import MAX_PROPERTIES_BYTES, RESERVED_PROPERTIES
from ...remoting.protocol.record.batch_items import join_items
from .dedup import SPARK_DEDUP_ID

__all__ = ["Items", "MessageIds", "encode_items", "value_ends"]

_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_HEAD_DIGITS: Final = 28
_LAST_DIGITS: Final = 4
_SEPARATOR: Final = b"\x02"


class Items(NamedTuple):
    """Rows as items of a batch body."""

    items: Any
    """A BinaryArray: one item per row."""
    body_sizes: Any
    """Bytes of each body, int32."""


def encode_items(
    batch: Any,
    ids: tuple[str, Any],
    dedup: tuple[str, Any] | None = None,
    *,
    drop_reserved: bool | None = False,
) -> Items:
    """All rows of a RecordBatch. ``ids`` and ``dedup`` are what all message ids and all dedup ids
    begin with, and their rest; ``drop_reserved`` None: of rows that were read from a topic.

    Raises ``MessageError`` for a row that no broker would take, or whose properties a reader would
    misread.
    """
    names = batch.schema.names
    body = _binary(batch.column("body"))
    body_ends = value_ends(body)
    body_sizes = np.diff(body_ends)
    if body.null_count or not body_sizes.all():
        raise _no_body(body)
    head, last = ids
    pieces: list[Any] = [_texts(f"UNIQ_KEY\x01{head}".encode(), last)]
    if dedup is not None:
        scope, rest = dedup
        pieces.append(f"\x02{SPARK_DEDUP_ID}\x01{scope}".encode())
        pieces.append(rest if isinstance(rest, range) else _texts(b"", rest))
    if "keys" in names:
        pieces.append(_pair("KEYS", _keys(batch.column("keys"))))
    if "tags" in names:
        pieces.append(_pair("TAGS", batch.column("tags")))
    if "properties" in names:
        properties = batch.column("properties")
        if drop_reserved is None:
            drop_reserved = "queueOffset" in names
            if drop_reserved and (written := batch.column("queueOffset").is_null()).true_count:
                _own_properties(properties.filter(written), drop_reserved=False)
        own = _own_properties(properties, drop_reserved=drop_reserved)
        pieces.append(_texts(b"", own))
    flags = None
    if "flag" in names:
        given = pc.cast(pc.fill_null(batch.column("flag"), 0), pa.int32())
        flags = given.to_numpy(zero_copy_only=False)
    ends, data, longest = join_items(body_ends, _data_of(body), flags, pieces)
    if longest > MAX_PROPERTIES_BYTES:
        raise MessageError(
            f"the properties of a row take {longest} bytes, the limit is {MAX_PROPERTIES_BYTES}"
        )
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    items = pa.BinaryArray.from_buffers(pa.binary(), batch.num_rows, buffers)
    return Items(items, body_sizes)


class MessageIds:
    """Ids that no other message has, as a producer makes them (UNIQ_KEY), many at once. One thread
    calls it."""

    MOST: Final = 1 << 16
    """Ids of one call; what is asked for within a millisecond must not be more either."""

    def __init__(self) -> None:
        self._next = 0
        self._last: Any = None

    def take(self, now_ms: int, count: int) -> tuple[str, Any]:
        """``count`` ids: the 28 hexadecimal digits for process and time that they all begin with,
        then numbers of 4, as binary."""
        if self._last is None:
            self._last = _last_digits(2 * self.MOST)
        last = self._last.slice(self._next, count)
        self._next = (self._next + count) % self.MOST
        return next_message_id(now_ms)[:_HEAD_DIGITS], last


def _last_digits(count: int) -> Any:
    """Those of numbers that count up."""
    numbers = np.arange(count)
    places = range(_LAST_DIGITS - 1, -1, -1)
    digits = np.stack([_HEX[numbers >> 4 * place & 15] for place in places], 1)
    ends = np.arange(0, digits.size + 1, _LAST_DIGITS, dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(digits)]
    return pa.BinaryArray.from_buffers(pa.binary(), count, buffers)


# --- columns
# --------------------------------------------------------------------------------------------------


def _binary(column: Any) -> Any:
    return column if column.type == pa.binary() else pc.cast(column, pa.binary())


def _no_body(bodies: Any) -> MessageError:
    empty = pc.equal(pc.fill_null(pc.binary_length(bodies), 0), 0)
    row = pc.index(empty, True).as_py()
    return MessageError(
        f'row {row} has no body: brokers refuse messages without one; filter("length(body) > 0")'
    )


def _keys(column: Any) -> Any:
    if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
        return column
    each = column.flatten()
    if each.null_count or pc.any(pc.equal(pc.binary_length(each), 0)).as_py() or _holds(each, " "):
        raise MessageError(
            "a key in the column keys is null or empty or holds a space, which separates keys"
        )
    return pc.binary_join(pc.cast(column, pa.list_(pa.string())), " ")


def _pair(name: str, column: Any) -> tuple[bytes, Any, Any]:
    """``0x02 name 0x01 value``, or nothing for rows without a value."""
    values = _binary(column)
    if _holds(values, "\x02"):
        raise MessageError(
            f"a value of the column {name.lower()} holds U+0002, which separates properties"
        )
    return _texts(f"\x02{name}\x01".encode(), values)


def _own_properties(column: Any, *, drop_reserved: bool) -> Any:
    """``0x02 name 0x01 value`` for every pair of the map of a row, one after the other."""
    offsets = np.asarray(column.offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    names, values = (
        _binary(side.slice(first, last - first)) for side in (column.keys, column.items)
    )
    offsets = offsets - first
    if column.null_count:  # a null may stand over pairs that are not meant
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if np.any(np.diff(offsets)[missing]):
            return _own_properties(
                pa.array(column.to_pylist(), column.type), drop_reserved=drop_reserved
            )
    keep = _checked_names(names, drop_reserved=drop_reserved)
    if values.null_count or (len(values) and pc.min(pc.binary_length(values)).as_py() == 0):
        raise MessageError(
            "a value in the column properties is null or empty: readers drop such a property; "
            "leave it out"
        )
    if _holds(values, "\x02"):
        raise MessageError(
            "a value of the column properties holds U+0002, which separates properties"
        )
    pairs = (
        _joined([_SEPARATOR, names, b"\x01", values]) if len(names) else pa.array([], pa.binary())
    )
    if keep is not None:
        pairs = pc.if_else(keep, pairs, pa.scalar(b"", pa.binary()))
    if not len(pairs):
        return pa.array([b""] * len(column), pa.binary())
    ends = np.ascontiguousarray(value_ends(pairs)[offsets])
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(ends), pairs.buffers()[2]]
    )


def _checked_names(names: Any, *, drop_reserved: bool) -> Any:
    """Which pairs to keep; None: all. Looks at every different name once."""
    different = [name.decode() for name in pc.unique(names).to_pylist()]
    for name in different:
        if not name or "\x01" in name or "\x02" in name:
            raise MessageError(
                f"property name {name!r}: it must not be empty or hold U+0001 or U+0002"
            )
    reserved = sorted(
        RESERVED_PROPERTIES.intersection(different) | {SPARK_DEDUP_ID}.intersection(different)
    )
    if not reserved:
        return None
    if not drop_reserved:
        raise MessageError(
            f"these property names are reserved: {', '.join(reserved)}; use the columns keys, "
            "tags and delayLevel or other "
            "names, or leave them out with the option reservedProperties=drop (for properties "
            "that were read from a topic)"
        )
    return pc.invert(
        pc.is_in(names, value_set=pa.array([name.encode() for name in reserved], pa.binary()))
    )


# --- pieces
# --------------------------------------------------------------------------------------------------


def _holds(column: Any, character: str) -> bool:
    """Whether that byte is anywhere in the values."""
    if not len(column):
        return False
    column = _binary(column)
    data = column.buffers()[2]
    if data is None:
        return False
    ends = value_ends(column)
    return bool((np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] == ord(character)).any())


def value_ends(column: Any) -> Any:
    """Where the first value of a BinaryArray begins in its data, then where each one ends."""
    return np.frombuffer(column.buffers()[1], np.int32)[
        column.offset : column.offset + len(column) + 1
    ]


def _data_of(column: Any) -> Any:
    return column.buffers()[2] or b""


def _texts(prefix: bytes, column: Any) -> tuple[bytes, Any, Any]:
    """As ``join_items`` has it."""
    if column.null_count:  # which may stand over bytes that are not meant
        column = pc.fill_null(column, b"")
    return prefix, value_ends(column), _data_of(column)


def _joined(pieces: Sequence[bytes | Any]) -> Any:
    scalars = [
        pa.scalar(piece, pa.binary()) if isinstance(piece, bytes) else piece for piece in pieces
    ]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))
