"""Writing many messages that are alike at once: a column for each field of their records (with numpy).

They are of one topic, with property strings of one length that differ in the unique key only; bodies may have any size. What
is written is byte for byte what ``MessageWriter.put_message`` writes for one after the other, in the same order: first room
is looked for, then come the records, then the units of the queues, then the new end of the log. Whatever is not as usual (no
room in this file, a queue that is not there, a limit) is left to ``put_message``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..remoting.protocol.properties import MAX_PROPERTIES_BYTES
from ..remoting.protocol.record import MAGIC, crc32, head_struct
from .group_writer import GroupWriter

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["HAS_NUMPY", "AlikeMessages", "AlikeResult", "AlikeWriter"]

HAS_NUMPY: Final = numpy is not None

_HEAD: Final = head_struct(0)
_HEAD_FIELDS: Final = {
    "size": (">i4", 0), "crc": (">u4", 8), "queue_id": (">i4", 12), "queue_offset": (">i8", 20), "phy_offset": (">i8", 28),
    "born_timestamp": (">i8", 40), "born_host": ("V8", 48), "body_size": (">i4", 84),
}  # fmt: skip
"""The fields of a record's head (``remoting.protocol.record``) that are not the same in all of them, and where they are."""
_MAX_BYTES: Final = 1 << 20
"""Larger groups gain nothing, and would be in memory twice."""


class AlikeMessages(NamedTuple):
    """Messages of one topic. Columns are arrays of numpy with an entry, or a row, for each."""

    topic: str
    queue_ids: Any
    bodies: Sequence[bytes | memoryview]
    properties: bytes
    """The encoded property string of one of them."""
    key_at: tuple[int, int]
    """Where in it the value of UNIQ_KEY stands, which is the only key."""
    keys: Any
    """That value of each: rows of bytes, ASCII."""
    born_hosts: bytes
    """Packed IPv4 addresses, one after the other."""
    born_timestamps: Any
    store_timestamp: int
    tags_code: int
    flag: int
    sys_flag: int
    """Neither of a transaction nor of an IPv6 host."""
    reconsume_times: int


class AlikeResult(NamedTuple):
    """Where the messages lie now."""

    phy_offsets: Any
    queue_offsets: Any
    size: int
    """Bytes of all records."""


class AlikeWriter(GroupWriter):
    """See the module."""

    def put(self, messages: AlikeMessages) -> AlikeResult | None:
        """Store them all, in their order. None, and nothing written: put them one by one."""
        writer, bodies, properties = self._writer, messages.bodies, messages.properties
        topic_field = self._topic_field(messages.topic, int(messages.queue_ids[0]), messages.store_timestamp)
        if topic_field is None:
            return None
        tail = topic_field + len(properties).to_bytes(2, "big") + properties
        body_sizes = numpy.fromiter(map(len, bodies), numpy.int64, len(bodies))
        sizes = body_sizes + (_HEAD.size + len(tail))
        largest, total = int(body_sizes.max()), int(sizes.sum())
        if (
            largest > writer.max_body
            or len(properties) > MAX_PROPERTIES_BYTES
            or largest + _HEAD.size + len(tail) > writer.max_record
            or total > _MAX_BYTES
            or (queues := self._find_room(messages.topic, messages.queue_ids, total)) is None
        ):
            return None
        phy_offsets, queue_offsets = sizes.cumsum() - sizes + self._log.max_phy_offset, queues.offsets()
        records = self._records(messages, tail, sizes, body_sizes, phy_offsets, queue_offsets)
        if not self._write(
            messages.topic, queues, records, phy_offsets, sizes, messages.tags_code, messages.keys, messages.store_timestamp
        ):
            return None
        return AlikeResult(phy_offsets, queue_offsets, total)

    def _records(
        self, messages: AlikeMessages, tail: bytes, sizes: Any, body_sizes: Any, phy_offsets: Any, queue_offsets: Any
    ) -> bytes:
        """All records. What stands between two bodies, the tail of a record and the head of the next one, is a row of a
        table whose rows differ in some columns only."""
        count, bodies = len(sizes), messages.bodies
        head = _HEAD.pack(
            0, MAGIC, 0, 0, messages.flag, 0, 0, messages.sys_flag, 0, bytes(8), messages.store_timestamp, self._store_host,
            messages.reconsume_times, 0, 0,
        )  # fmt: skip
        width = len(tail) + len(head)
        between = numpy.empty((count + 1, width), numpy.uint8)  # the first one has no tail, the last one no head
        between[:] = numpy.frombuffer(tail + head, numpy.uint8)
        key_at = len(tail) - len(messages.properties) + messages.key_at[0]
        between[1:, key_at : key_at + messages.keys.shape[1]] = messages.keys
        heads = between.reshape(-1).view(_head_type(len(tail), width))[:-1]
        heads["size"] = sizes
        heads["crc"] = numpy.fromiter(map(crc32, bodies), numpy.uint32, count) & 0x7FFFFFFF
        heads["queue_id"] = messages.queue_ids
        heads["queue_offset"] = queue_offsets
        heads["phy_offset"] = phy_offsets
        heads["born_timestamp"] = messages.born_timestamps
        heads["born_host"] = numpy.frombuffer(messages.born_hosts, "V8")
        heads["body_size"] = body_sizes
        pieces: list[bytes | memoryview] = [b""] * (2 * count + 1)
        pieces[0::2] = between.reshape(-1).view(f"V{width}").tolist()
        pieces[1::2] = bodies
        pieces[0] = pieces[0][len(tail) :]
        pieces[-1] = pieces[-1][: len(tail)]
        return b"".join(pieces)


_HEAD_TYPES: Final[dict[tuple[int, int], Any]] = {}
_MAX_HEAD_TYPES: Final = 1000


def _head_type(start: int, width: int) -> Any:
    """The changing fields of a head that begins at ``start`` in a row."""
    known = _HEAD_TYPES.get((start, width))
    if known is None:
        if len(_HEAD_TYPES) >= _MAX_HEAD_TYPES:
            _HEAD_TYPES.clear()
        formats = [kind for kind, _ in _HEAD_FIELDS.values()]
        offsets = [start + at for _, at in _HEAD_FIELDS.values()]
        layout: Any = {"names": list(_HEAD_FIELDS), "formats": formats, "offsets": offsets, "itemsize": width}
        known = _HEAD_TYPES[start, width] = numpy.dtype(layout)
    return known
