"""Batches of many producers that are stored together (with numpy).

Batches are alike when they are of one topic, and all their messages have bodies of one length and properties that differ in
nothing but the value of the unique key (``even_batch``). Their items stand one behind the other like those of one batch, and
are worked on at once, whatever their queues are. What is written is byte for byte what ``MessageWriter.put_batch`` writes
for one after the other. Whatever is not as usual is left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..remoting.protocol.record import MAGIC, head_struct
from .batch_layout import BatchLayout
from .group_writer import GroupWriter

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["BatchGroup", "BatchGroupResult", "BatchGroupWriter"]

_HEAD: Final = head_struct(0)
_MAX_BYTES: Final = 1 << 20
"""Larger groups gain nothing, and would be in memory three times."""


class BatchGroup(NamedTuple):
    """Batches of one topic. Columns are arrays of numpy with an entry for each batch."""

    topic: str
    queue_ids: Any
    bodies: Sequence[bytes | memoryview]
    properties: bytes
    """Those of each batch itself, which all its messages get."""
    born_hosts: bytes
    """Packed IPv4 addresses, one after the other."""
    born_timestamps: Any
    store_timestamp: int
    sys_flag: int
    """Neither of a transaction nor of an IPv6 host."""
    reconsume_times: int


class BatchGroupResult(NamedTuple):
    """Where the messages lie now."""

    phy_offsets: Any
    """Of all messages."""
    counts: list[int]
    """Messages of each batch."""
    queue_offsets: list[int]
    """The number in its queue of the first message of each batch."""
    size: int
    """Bytes of all records."""


class BatchGroupWriter(GroupWriter):
    """See the module."""

    def put(self, group: BatchGroup) -> BatchGroupResult | None:
        """Store them all, in their order. None, and nothing written: put them one by one."""
        sizes = list(map(len, group.bodies))
        if not 0 < min(sizes) <= max(sizes) <= self._writer.max_body or sum(sizes) > _MAX_BYTES:
            return None
        topic_field = self._topic_field(group.topic, int(group.queue_ids[0]), group.store_timestamp)
        if topic_field is None:
            return None
        data = b"".join(group.bodies)
        layout = self._writer.batches.even_layout(data, group.properties, topic_field, _HEAD.size)
        if layout is None or any(size % layout.item_size for size in sizes):
            return None
        counts = [size // layout.item_size for size in sizes]
        each = numpy.array(counts)
        queue_ids, total = group.queue_ids.repeat(each), sum(counts) * layout.record_size
        queues = self._find_room(group.topic, queue_ids, total)
        if queues is None:
            return None
        queue_offsets = queues.offsets()
        records = layout.with_columns(
            data,
            self._head(group, layout),
            self._log.max_phy_offset,
            queue_id=queue_ids,
            queue_offset=queue_offsets,
            born_timestamp=group.born_timestamps.repeat(each),
            born_host=numpy.frombuffer(group.born_hosts, "V8").repeat(each),
        )
        if records is None or records.columns is None:
            return None
        keys, phy_offsets = records.columns
        if not self._write(
            group.topic, queues, records.data, phy_offsets, layout.record_size, layout.tags_code, keys, group.store_timestamp
        ):
            return None
        firsts = queue_offsets[each.cumsum() - each].tolist()
        return BatchGroupResult(phy_offsets, counts, firsts, total)

    def _head(self, group: BatchGroup, layout: BatchLayout) -> bytes:
        """Of each record, but for what differs."""
        return _HEAD.pack(
            layout.record_size, MAGIC, 0, 0, layout.shape.flag, 0, 0, group.sys_flag, 0, bytes(8), group.store_timestamp,
            self._store_host, group.reconsume_times, 0, layout.shape.body_size,
        )  # fmt: skip
