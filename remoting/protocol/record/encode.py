"""Records out of what they consist of."""

from __future__ import annotations

from typing import Any

from ..leaves import leaf
from ..sys_flag import MessageSysFlag
from .crc import body_crc
from .layout import MAGIC, MAX_TOPIC_BYTES, QUEUE_UNIT, head_struct, host_sizes
from .verdict import RecordError

__all__ = ["encode_record", "put_record", "topic_field"]


def topic_field(topic: str) -> bytes:
    """Length byte and topic. Raises RecordError over 127 bytes: the length is a signed byte."""
    encoded = topic.encode()
    if len(encoded) > MAX_TOPIC_BYTES:
        raise RecordError(f"the topic takes {len(encoded)} bytes, the limit is {MAX_TOPIC_BYTES}")
    return bytes((len(encoded),)) + encoded


@leaf
def put_record(
    buffer: Any,
    position: int,
    phy_offset: int,
    queue_offset: int,
    topic_field: bytes,
    queue_id: int,
    body: bytes | memoryview,
    properties: bytes,
    flag: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    units: Any,
    unit_position: int,
    tags_code: int,
    /,
) -> int:
    """Write a record into a buffer, then its unit into that of a consume queue (``None``: it gets none). How long it is.

    The hosts are packed, as ``sys_flag`` says. Nothing is kept of the buffers. Compiled, the first 8 bytes of the record
    come last: a kill on the way leaves a whole record or none. Raises ValueError for hosts of other lengths and without
    room for the record, then nothing is written, or for the unit, and OverflowError for properties over 65,535 bytes.
    """
    if (len(born_host), len(store_host)) != host_sizes(sys_flag):
        raise ValueError("a host is not as long as the sysFlag says")
    record = b"".join(
        (
            head_struct(sys_flag).pack(
                head_struct(sys_flag).size + len(body) + len(topic_field) + 2 + len(properties), MAGIC, body_crc(body),
                queue_id, flag, queue_offset, phy_offset, sys_flag, born_timestamp, born_host, store_timestamp, store_host,
                reconsume_times, prepared_transaction_offset, len(body),
            ),
            body,
            topic_field,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    )  # fmt: skip
    _put(buffer, position, record)
    if units is not None:
        _put(units, unit_position, QUEUE_UNIT.pack(phy_offset, len(record), tags_code))
    return len(record)


def _put(buffer: Any, position: int, data: bytes) -> None:
    if not 0 <= position <= len(buffer) - len(data):
        raise ValueError("no room for the record or its unit")
    buffer[position : position + len(data)] = data


def encode_record(
    topic: str,
    queue_id: int,
    body: bytes | memoryview,
    properties: bytes,
    *,
    queue_offset: int,
    phy_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    flag: int = 0,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytes:
    """One record from its fields. The IPv6 bits of ``sys_flag`` are set here by the length of the packed
    hosts.
    """
    if len(born_host) == 20:
        sys_flag |= MessageSysFlag.BORN_HOST_V6
    if len(store_host) == 20:
        sys_flag |= MessageSysFlag.STORE_HOST_V6
    field = topic_field(topic)
    record = bytearray(head_struct(sys_flag).size + len(body) + len(field) + 2 + len(properties))
    put_record(
        record, 0, phy_offset, queue_offset, field, queue_id, body, properties, flag, sys_flag, born_timestamp, born_host,
        store_timestamp, store_host, reconsume_times, prepared_transaction_offset, None, 0, 0,
    )  # fmt: skip
    return bytes(record)
