"""A batch body becomes records (class MessageExtBatchEncoder of the original).

The layout of the body is that of ``remoting.protocol.record.batch``. First it is measured, which
finds out whether it is a batch at all; then, where there is space for everything, it is written, a
stretch at a time.
"""

from __future__ import annotations

from typing import Final

from ..leaves import KeyEntries, leaf
from ..message.properties import MAX_PROPERTIES_BYTES, tags_code_of
from .batch import MOST_ITEMS, BatchError, decode_batch
from .encode import record_of, with_hosts
from .ends import LogEnd, QueueEnd, write_at
from .entry import entry_head
from .layout import BATCH_ITEM, QUEUE_UNIT, RecordHead

_SEPARATOR: Final = 2
_MOST_AT_ONCE: Final = 1024
_MOST_BYTES: Final = 1 << 19
"""Of records in one call, which takes a quarter of a millisecond."""


@leaf
def batch_size(data: bytes | memoryview, shared: bytes, /) -> tuple[int, int] | None:
    """How many items a batch has, and how many bytes their bodies take together with their merged
    properties. ``None``: it cannot be stored, see ``batch_problem``.

    ``shared`` are the properties of the batch, appended to those of every item.
    """
    data = bytes(data)  # slices of bytes are half the price of slices of a view
    at, count, contents = 0, 0, 0
    while at < len(data):
        place = _place_of_item(data, at)
        if place is None:
            return None
        _, body_at, properties_at, at = place
        properties_size = at - properties_at + len(shared)
        if shared and at > properties_at and data[at - 1] != _SEPARATOR:
            properties_size += 1
        if properties_size > MAX_PROPERTIES_BYTES:
            return None
        contents += properties_at - 2 - body_at + properties_size
        count += 1
    return (count, contents) if 0 < count <= MOST_ITEMS else None


def item_size(data: bytes | memoryview, at: int, shared: bytes) -> int:
    """Of the item at byte ``at`` of such a batch, the bytes of its body and its merged
    properties."""
    place = _place_of_item(data, at)
    assert place is not None, "the batch was measured"
    _, body_at, properties_at, end = place
    return (
        properties_at - 2 - body_at + len(merged_properties(bytes(data[properties_at:end]), shared))
    )


def batch_problem(data: bytes | memoryview) -> BatchError:
    """Why a batch cannot be stored: in the words of its decoder, who does not know what is appended
    to an item."""
    try:
        items = decode_batch(data)
    except BatchError as error:
        return error
    what = (
        "the properties of an item are too long together with the batch's"
        if items
        else "the batch holds no message"
    )
    return BatchError(what)


@leaf
def put_batch(
    log: LogEnd,
    queue: QueueEnd,
    keys: KeyEntries | None,
    position: int,
    queue_offset: int,
    data: bytes | memoryview,
    at: int,
    shared: bytes,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    reconsume_times: int,
    /,
) -> tuple[int, int, bytes]:
    """Write records of a batch that ``batch_size`` has measured, from its byte ``at`` on, to
    ``position`` and behind it, not too many at once, and tell the index of their keys. The ends
    stay where they are.

    They are written one after the other, so that a kill leaves no gap in front of a whole one.
    Where the next item begins, where its record goes, and the units of these. With heads
    (``LogEnd.head``) it stops in front of an entry that reaches behind ``limit``, for which the
    caller makes space: it may begin another file, in the middle of the batch. Raises ValueError for
    hosts of other lengths than 8 and 20, where a record has no space, where there is no item, and
    for properties that are too long; some of them are written then.
    """
    data = bytes(data)
    sys_flag = with_hosts(sys_flag, born_host, log.store_host)
    topic_field, queue_id, units = queue.topic_field, queue.queue_id, list[bytes]()
    topic = topic_field[1:].decode()
    stop = position + _MOST_BYTES
    index = log.index + queue_offset - queue.max_offset
    while at < len(data) and len(units) < _MOST_AT_ONCE and position < stop:
        place = _place_of_item(data, at)
        if place is None:
            raise ValueError("not the body of a batch")
        flag, body_at, properties_at, end = place
        properties = merged_properties(data[properties_at:end], shared)
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise ValueError("the properties are too long")
        phy_offset = log.base + position + log.head
        body = data[body_at : properties_at - 2]
        head = RecordHead(
            0, 0, 0, queue_id, flag, queue_offset + len(units), phy_offset, sys_flag,
            born_timestamp, born_host, store_timestamp, log.store_host, reconsume_times, 0, 0,
        )  # fmt: skip
        record = record_of(head, body, topic_field, properties)
        size = len(record)
        if log.head:
            if log.head + size > log.limit - position:
                break
            record = entry_head(index + len(units), log.term, log.base + position, size) + record
        write_at(log.buffer, position, record)
        units.append(QUEUE_UNIT.pack(phy_offset, size, tags_code_of(properties)))
        if keys is not None:
            keys.add(topic, properties, phy_offset, store_timestamp, sys_flag)
        at = end
        position += len(record)
    return at, position, b"".join(units)


def _place_of_item(data: bytes | memoryview, at: int) -> tuple[int, int, int, int] | None:
    """Its flag, where its body and its properties begin, and where they end. ``None``: none begins
    here."""
    body_at = at + BATCH_ITEM.size
    if body_at + 2 > len(data):
        return None
    _, _, _, flag, body_size = BATCH_ITEM.unpack_from(data, at)
    properties_at = body_at + body_size + 2
    if properties_at > len(data):
        return None
    end = properties_at + (data[properties_at - 2] << 8 | data[properties_at - 1])
    return (flag, body_at, properties_at, end) if end <= len(data) else None


def merged_properties(own: bytes, shared: bytes) -> bytes:
    """Properties of a batch item, then those of the batch, which win (message-encoding.md §4.4)."""
    if not own or not shared:
        return own or shared
    return own + shared if own.endswith(b"\x02") else own + b"\x02" + shared
