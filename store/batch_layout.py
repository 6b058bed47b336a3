"""What the items of a batch have in common, and what their records have: layouts that many messages are copied by at once.

The usual producer's properties differ in nothing but the value of the unique key. Of such batches ``even_batch`` does those
whose bodies have one length, ``alike_batch`` the others; ``batch_records`` does everything else item by item.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..remoting.protocol.batch import BATCH_ITEM_OVERHEAD
from .index_keys import UNIQUE_KEY_AT, UNIQUE_KEY_FIRST

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = [
    "BODY_AT",
    "FLAG_AND_BODY_SIZE",
    "HAS_NUMPY",
    "BatchLayout",
    "LaidOut",
    "Shape",
    "shape_of",
    "structure",
    "usual_keys",
]

HAS_NUMPY: Final = numpy is not None
FLAG_AND_BODY_SIZE: Final = struct.Struct(">12xiI").unpack_from
"""Of an item."""
BODY_AT: Final = BATCH_ITEM_OVERHEAD - 2
_FEWEST_EVEN: Final = 8
_FEWEST: Final = 16
"""For fewer items it does not pay."""
_LARGEST: Final = 4096
"""Bytes: a layout is kept, and takes about as many as an item."""


class Shape(NamedTuple):
    """What the first item says that every item is like."""

    flag: int
    body_size: int
    """0: of any length."""
    key_size: int
    rest: bytes
    """The properties behind the unique key."""


def shape_of(data: bytes) -> Shape | None:
    """The shape that the items of a batch may have; None when they have none, or too few of them to make it pay."""
    if len(data) < BODY_AT:
        return None
    flag, body_size = FLAG_AND_BODY_SIZE(data)
    properties_at = BATCH_ITEM_OVERHEAD + body_size
    end = properties_at + int.from_bytes(data[properties_at - 2 : properties_at], "big")
    even = body_size and not len(data) % end and end <= _LARGEST
    if len(data) < end * (_FEWEST_EVEN if even else _FEWEST) or end - body_size > _LARGEST:
        return None
    key_end = data.find(b"\x02", properties_at, end)
    key_size = key_end - properties_at - UNIQUE_KEY_AT
    if key_size <= 0 or not data.startswith(UNIQUE_KEY_FIRST, properties_at):
        return None
    rest = data[key_end:end]
    return Shape(flag, body_size if even else 0, key_size, rest) if data.endswith(rest) else None


class LaidOut(NamedTuple):
    """Records one after the other, and what goes with them."""

    data: bytes | bytearray
    phy_offsets: Sequence[int]
    """Where each begins."""
    units: bytes
    """What the consume queue gets."""
    keys: Sequence[bytes]
    """The unique keys, if there are no ``columns``."""
    columns: tuple[Any, Any] | None
    """With numpy: the unique keys, a row of bytes for each, and where the records begin."""


class BatchLayout:
    """The layout of items of one shape, and of their records in one topic."""

    def __init__(self, shape: Shape, head_size: int, topic_field: bytes, behind_key: bytes, tags_code: int) -> None:
        """``head_size``: of a record; ``behind_key``: all properties that are stored behind the unique key."""
        self.shape: Final = shape
        self.behind_key: Final = behind_key
        self.tags_code: Final = tags_code
        own_size = UNIQUE_KEY_AT + shape.key_size + len(shape.rest)
        properties_size = UNIQUE_KEY_AT + shape.key_size + len(behind_key)
        self._before_key = own_size.to_bytes(2, "big") + UNIQUE_KEY_FIRST
        self._stored_before_key = topic_field + properties_size.to_bytes(2, "big") + UNIQUE_KEY_FIRST
        self.item_size: Final = BATCH_ITEM_OVERHEAD + shape.body_size + own_size
        self.record_size: Final = head_size + shape.body_size + len(topic_field) + 2 + properties_size

    def records(self, data: bytes, head: bytes, queue_offset: int, phy_offset: int) -> LaidOut | None:
        """The records of a batch. ``head``: that of each, but for what differs. None when an item has another shape, or its
        key other than ASCII characters.
        """
        raise NotImplementedError


def usual_keys(joined: bytes) -> bool:
    """No separator is in them, and nothing but ASCII: those the index hashes many at a time."""
    return joined.isascii() and b"\x02" not in joined


def structure(size: int, /, **fields: tuple[str, int]) -> Any:
    """The type of ``size`` bytes with these fields: format and place of each."""
    formats, offsets = zip(*fields.values(), strict=True)
    return numpy.dtype({"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": size})
