"""A batch body becomes records (class MessageExtBatchEncoder of the original).

The layout of the body is that of ``remoting.protocol.batch``; the checks and errors are those of ``decode_batch``. Hot: the
usual batch goes column by column (``batch_layout``), others item by item, in one pass over the bytes. Neighbours mostly
differ in their unique key only, so what becomes of the pairs behind it is remembered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, NamedTuple

from ..remoting.protocol.batch import BatchError, decode_batch
from ..remoting.protocol.properties import MAX_PROPERTIES_BYTES, tags_code_of
from ..remoting.protocol.record import MAGIC, crc32, head_struct
from .alike_batch import AlikeLayout
from .batch_layout import BODY_AT, FLAG_AND_BODY_SIZE, HAS_NUMPY, BatchLayout, Shape, shape_of
from .consume_queue import ConsumeQueue
from .even_batch import EvenLayout, PackedLayout
from .index_keys import UNIQUE_KEY_AT, UNIQUE_KEY_FIRST, only_key
from .indexing import PendingMessage

__all__ = ["BatchEncoder", "BatchRecords", "merged_properties"]

_PROPERTIES_SIZES: Final = tuple(struct.pack(">H", number) for number in range(1024))
_MEANINGFUL: Final = frozenset((b"TAGS", b"KEYS", b"UNIQ", b""))
"""How the names begin that are looked for, and no name at all."""
_MAX_KNOWN: Final = 10_000
_MAX_KNOWN_LENGTH: Final = 500
_MAX_SHARED: Final = 10
_MAX_LAYOUTS: Final = 500

Known = tuple[bytes, int, bool]
"""What stands behind the unique key in the end, the tags code, and that there is no other key."""


class BatchRecords(NamedTuple):
    """Records that lie one after the other, and what goes with them."""

    data: bytes | bytearray
    offsets: Sequence[int]
    """Where in the commit log each begins."""
    units: bytes
    """What the consume queue gets."""
    tags_codes: Sequence[int]
    """All that occur."""
    pending: list[PendingMessage]
    """What the index gets, if there is no ``columns``."""
    columns: tuple[Any, Any] | None = None
    """Keys and offsets for ``Indexing.note_keys``."""


class BatchEncoder:
    """Makes the records of a store."""

    def __init__(self, store_host: bytes, *, with_numpy: bool = HAS_NUMPY) -> None:
        """``store_host``: packed."""
        self._store_host: Final = store_host
        self._even_layout: Final[type[BatchLayout]] = EvenLayout if with_numpy else PackedLayout
        self._alike_layout: Final[type[BatchLayout] | None] = AlikeLayout if with_numpy else None
        self._layouts: dict[tuple[Shape, bytes, bytes, int], BatchLayout | None] = {}
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
        head, topic = head_struct(sys_flag), queue.topic
        same = sys_flag, born_timestamp, born_host, store_timestamp, self._store_host, reconsume_times, 0
        layout = self._layout_of(data, shared, queue.topic_field, head.size)
        if layout is not None:
            flag, body_size, key_size, _ = layout.shape
            packed = head.pack(layout.record_size, MAGIC, 0, queue.queue_id, flag, 0, 0, *same, body_size)
            found = layout.records(data, packed, queue.max_offset, phy_offset)
            if found is not None:
                pending: list[PendingMessage] = []
                if found.columns is None:
                    texts = [UNIQUE_KEY_FIRST + key + layout.behind_key for key in found.keys]
                    fields = repeat(store_timestamp), repeat(sys_flag), repeat(UNIQUE_KEY_AT + key_size)
                    pending = list(zip(found.phy_offsets, repeat(topic), texts, *fields, strict=False))
                return BatchRecords(found.data, found.phy_offsets, found.units, (layout.tags_code,), pending, found.columns)
        packed = head.pack(0, MAGIC, 0, queue.queue_id, 0, 0, 0, *same, 0)
        return self._one_by_one(data, shared, queue, phy_offset, packed, (topic, store_timestamp, sys_flag))

    def even_layout(self, data: bytes, shared: bytes, topic_field: bytes, head_size: int) -> EvenLayout | None:
        """The layout of a body whose items have one length, also one that was put together of several batches; None when
        it has none. Then nothing but its first and its last item was looked at: ``with_columns`` looks at all."""
        layout = self._layout_of(data, shared, topic_field, head_size)
        return layout if isinstance(layout, EvenLayout) else None

    def _layout_of(self, data: bytes, shared: bytes, topic_field: bytes, head_size: int) -> BatchLayout | None:
        """Of a batch that may have one; ``None``: go item by item."""
        shape = shape_of(data)
        if shape is None or len(shared) > _MAX_KNOWN_LENGTH:
            return None
        known_as = shape, shared, topic_field, head_size
        try:
            return self._layouts[known_as]
        except KeyError:
            layout, layout_type = None, self._even_layout if shape.body_size else self._alike_layout
            behind, tags_code, single = self._behind(shape.rest, shared)
            if layout_type is not None and single and UNIQUE_KEY_AT + shape.key_size + len(behind) <= MAX_PROPERTIES_BYTES:
                layout = layout_type(shape, head_size, topic_field, behind, tags_code)
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts[known_as] = layout
            return layout

    def _one_by_one(
        self, data: bytes, shared: bytes, queue: ConsumeQueue, phy_offset: int, head: bytes, fields: tuple[str, int, int]
    ) -> BatchRecords:
        """The records of any batch. ``head``: zeros where their heads differ; ``fields``: topic, store time and sysFlag."""
        magic, queue_id, same = head[4:8], head[12:16], head[36:-4]
        pack_head, topic_field, queue_offset = _head_packer(len(same)), queue.topic_field, queue.max_offset
        overhead = len(head) + len(topic_field) + 2
        topic, store_timestamp, sys_flag = fields
        parts: list[bytes] = []
        units: list[int] = []
        offsets: list[int] = []
        pending: list[PendingMessage] = []
        known_rests = self._known_with(shared)
        at, end = 0, len(data)
        while at < end:
            body_at = at + BODY_AT
            if body_at > end:
                raise _broken(data)
            flag, body_size = FLAG_AND_BODY_SIZE(data, at)
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

    def _behind(self, rest: bytes, shared: bytes) -> Known:
        known_rests = self._known_with(shared)
        return known_rests.get(rest) or self._learn(known_rests, rest, shared)

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
