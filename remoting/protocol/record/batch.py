"""The body of a batch send: a plain concatenation of items (message-encoding.md §4.4;
MessageDecoder).

=============== ==== ==========================================================
field           size
=============== ==== ==========================================================
totalSize       4    22 + n + p; ignored by the reader, as in the original
magic           4    0, ignored
bodyCRC         4    0, ignored; the broker computes it
flag            4    the user's flag
bodyLength      4    n
body            n    never compressed
propertiesLen   2    p
properties      p    property string
=============== ==== ==========================================================

The broker stores every item as a record of its own, with the batch's properties appended to the
item's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from ..message.properties import MAX_PROPERTIES_BYTES, MessageError
from .layout import BATCH_ITEM, BATCH_ITEM_OVERHEAD

MOST_ITEMS: Final = 0x10000
"""Of a batch, whatever it weighs."""
_PROPERTIES_LENGTH: Final = struct.Struct(">H")


class BatchError(MessageError):
    """The body of a batch is not a sequence of items."""


class BatchItem(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(items: Iterable[BatchItem]) -> bytes:
    """Join the items. Raises MessageError for properties over 32767 bytes."""
    parts: list[bytes] = []
    for item in items:
        flag, body, properties = item.flag, item.body, item.properties
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise MessageError(
                f"the properties take {len(properties)} bytes, the limit is {MAX_PROPERTIES_BYTES}"
            )
        total = BATCH_ITEM_OVERHEAD + len(body) + len(properties)
        parts += (
            BATCH_ITEM.pack(total, 0, 0, flag, len(body)),
            body,
            _PROPERTIES_LENGTH.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def decode_batch(data: bytes | memoryview, *, max_items: int = MOST_ITEMS) -> list[BatchItem]:
    """Cut a batch body into its items.

    Raises BatchError when an item reaches over the end, when a length is negative in the original's
    signed reading, or when there are more than ``max_items``. An empty body has no items.
    """
    data = bytes(data)  # slices of bytes are half the price of slices of a view
    end = len(data)
    items: list[BatchItem] = []
    at = 0
    while at < end:
        body_at = at + BATCH_ITEM.size
        if body_at > end:
            raise BatchError(
                f"the batch ends inside of item {len(items)} at byte {at}: {end - at} bytes are "
                "left"
            )
        _total, _magic, _crc, flag, body_size = BATCH_ITEM.unpack_from(data, at)
        properties_at = body_at + body_size + 2
        if properties_at > end:
            raise BatchError(
                f"item {len(items)} at byte {at} says body length {body_size}, beyond the end "
                f"({end})"
            )
        properties_size = data[properties_at - 2] << 8 | data[properties_at - 1]
        at = properties_at + properties_size
        if properties_size > MAX_PROPERTIES_BYTES or at > end:
            raise BatchError(
                f"item {len(items)} says properties length {properties_size}, beyond the end "
                f"({end})"
            )
        items.append(BatchItem(flag, data[body_at : properties_at - 2], data[properties_at:at]))
    if len(items) > max_items:
        raise BatchError(f"the batch holds {len(items)} messages, more than {max_items}")
    return items
