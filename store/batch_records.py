"""A batch body becomes records (class MessageExtBatchEncoder of the original).

The layout of the body is that of ``remoting.protocol.batch``; the checks and errors are those of ``decode_batch``. Hot: one
pass over the bytes, item by item. Neighbours mostly differ in their unique key only, so what becomes of the pairs behind it
is remembered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ..remoting.protocol.batch import BATCH_ITEM_OVERHEAD, BatchError, decode_batch
from ..remoting.protocol.index_keys import UNIQUE_KEY_AT, UNIQUE_KEY_FIRST, only_key
from ..remoting.protocol.leaves import crc32
from ..remoting.protocol.leaves.pure_index import PendingMessage
from ..remoting.protocol.properties import MAX_PROPERTIES_BYTES, tags_code_of
from ..remoting.protocol.record import MAGIC, head_struct
from .consume_queue import ConsumeQueue

__all__ = ["BatchEncoder", "BatchRecords", "merged_properties"]

_FLAG_AND_BODY_SIZE: Final = struct.Struct(">12xiI").unpack_from
"""Of an item."""
_BODY_AT: Final = BATCH_ITEM_OVERHEAD - 2
_PROPERTIES_SIZES: Final = tuple(struct.pack(">H", number) for number in range(1024))
_MEANINGFUL: Final = frozenset((b"TAGS", b"KEYS", b"UNIQ", b""))
"""How the names begin that are looked for, and no name at all."""
_MAX_KNOWN: Final = 10_000
_MAX_KNOWN_LENGTH: Final = 500
_MAX_SHARED: Final = 10

Known = tuple[bytes, int, bool]
"""What stands behind the unique key in the end, the tags code, and that there is no other key."""


class BatchRecords(NamedTuple):
    """Records that lie one after the other, and what goes with them."""

    data: bytes
    offsets: Sequence[int]
    """Where in the commit log each begins."""
    units: bytes
    """What the consume queue gets."""
    tags_codes: Sequence[int]
    """Of each."""
    pending: list[PendingMessage]
    """What the index gets."""


class BatchEncoder:
    """Makes the records of a store."""

    def __init__(self, store_host: bytes) -> None:
        """``store_host``: packed."""
        self._store_host: Final = store_host
        self._known: dict[bytes, dict[bytes, Known]] = {}

    def encode(
        self,
        data: bytes,
        shared: bytes,
        queue: ConsumeQueue,
        phy_offset: int,
        *,
        sys_flag: int,
        born_host: bytes,
        born_timestamp: int,
        store_timestamp: int,
        reconsume_times: int,
    ) -> BatchRecords:
        """The records of a batch body for the end of a queue, the first one at ``phy_offset``. Nothing is written.

        ``shared`` are the properties of the batch, appended to those of every item. Raises BatchError when ``data`` is no
        batch or holds no item, or when an item has too many properties.
        """
        topic, topic_field = queue.topic, queue.topic_field
        head = head_struct(sys_flag).pack(
            0, MAGIC, 0, queue.queue_id, 0, 0, 0, sys_flag, born_timestamp, born_host, store_timestamp, self._store_host,
            reconsume_times, 0, 0,
        )  # fmt: skip
        magic, queue_id, same = head[4:8], head[12:16], head[36:-4]
        pack_head, queue_offset = _head_packer(len(same)), queue.max_offset
        overhead = len(head) + len(topic_field) + 2
        parts: list[bytes] = []
        units: list[int] = []
        offsets: list[int] = []
        pending: list[PendingMessage] = []
        known_rests = self._known_with(shared)
        at, end = 0, len(data)
        while at < end:
            body_at = at + _BODY_AT
            if body_at > end:
                raise _broken(data)
            flag, body_size = _FLAG_AND_BODY_SIZE(data, at)
            item_at = body_at + body_size + 2  # where its properties begin
            if item_at > end:
                raise _broken(data)
            at = item_at + (data[item_at - 2] << 8 | data[item_at - 1])
            if at > end:
                raise _broken(data)
            key_at = data.find(b"\x02", item_at, at)
            if key_at > 0 and data.startswith(UNIQUE_KEY_FIRST, item_at):
                rest = data[key_at:at]
                known = known_rests.get(rest)
                if known is None:
                    known = self._learn(known_rests, rest, shared)
                behind, tags_code, single = known
                properties = data[item_at:key_at] + behind
                keys_end = key_at - item_at if single and key_at - item_at > UNIQUE_KEY_AT else 0
            else:
                properties = merged_properties(data[item_at:at], shared)
                tags_code, keys_end = tags_code_of(properties), 0
            properties_size = len(properties)
            if properties_size > MAX_PROPERTIES_BYTES:
                decode_batch(data)  # the item alone may be too long
                raise BatchError(f"the properties of an item take {properties_size} bytes together with the batch's")
            body = data[body_at : item_at - 2]
            size = overhead + body_size + properties_size
            parts += (
                pack_head(size, magic, crc32(body) & 0x7FFFFFFF, queue_id, flag, queue_offset, phy_offset, same, body_size),
                body,
                topic_field,
                _PROPERTIES_SIZES[properties_size] if properties_size < 1024 else properties_size.to_bytes(2, "big"),
                properties,
            )
            units += (phy_offset, size, tags_code)
            offsets.append(phy_offset)
            pending.append((phy_offset, topic, properties, store_timestamp, sys_flag, keys_end))
            queue_offset += 1
            phy_offset += size
        if not offsets:
            raise BatchError("the batch holds no message")
        packed_units = struct.pack(">" + "qiq" * len(offsets), *units)
        return BatchRecords(b"".join(parts), offsets, packed_units, units[2::3], pending)

    def _known_with(self, shared: bytes) -> dict[bytes, Known]:
        known = self._known.get(shared)
        if known is None:
            if len(self._known) >= _MAX_SHARED:
                self._known.clear()
            known = self._known[shared] = {}
        return known

    @classmethod
    def _learn(cls, known_rests: dict[bytes, Known], rest: bytes, shared: bytes) -> Known:
        """Neither the tags code nor whether there are other keys depends on the value of the unique key, or on a pair behind
        it that is none of these. The ids of a Spark sink stand there, which never come again."""
        if rest[1:5] in _MEANINGFUL:
            return cls._look_through(known_rests, rest, shared)
        next_at = rest.find(b"\x02", 1)
        if next_at < 0:
            next_at = len(rest)
        behind = rest[next_at:]
        text, tags_code, single = known_rests.get(behind) or cls._look_through(known_rests, behind, shared)
        known = rest[:next_at] + text, tags_code, single
        if len(rest) <= _MAX_KNOWN_LENGTH and len(known_rests) < _MAX_KNOWN:
            known_rests[rest] = known
        return known

    @staticmethod
    def _look_through(known_rests: dict[bytes, Known], rest: bytes, shared: bytes) -> Known:
        behind = merged_properties(rest or b"\x02", shared) if rest or shared else b""
        properties = UNIQUE_KEY_FIRST + b"0" + (behind or b"\x02")
        known = behind, tags_code_of(properties), only_key(properties) is not None
        if len(rest) <= _MAX_KNOWN_LENGTH:
            if len(known_rests) >= _MAX_KNOWN:
                known_rests.clear()
            known_rests[rest] = known
        return known


@lru_cache
def _head_packer(same: int) -> Callable[..., bytes]:
    """Makes the head of a record of what differs and what does not: ``same`` bytes of that are in one piece."""
    return struct.Struct(f">i4sI4siqq{same}si").pack


def _broken(data: bytes) -> BatchError:
    """What is wrong with a body, in the words of its decoder."""
    try:
        decode_batch(data)
    except BatchError as error:
        return error
    return BatchError("the body of the batch cannot be read")


def merged_properties(own: bytes, shared: bytes) -> bytes:
    """Properties of a batch item, then those of the batch, which win (message-encoding.md §4.4)."""
    if not own or not shared:
        return own or shared
    return own + shared if own.endswith(b"\x02") else own + b"\x02" + shared
