"""Records out of what they consist of."""

from __future__ import annotations

from typing import Final

import msgspec

from .crc import body_crc
from .layout import MAGIC, MAX_TOPIC_BYTES, V6_HOSTS, RecordHead, head_struct, host_sizes
from .verdict import RecordError

_HOSTS: Final = {host_sizes(bits): bits for bits in range(V6_HOSTS + 1) if bits & V6_HOSTS == bits}
"""The bits of a sysFlag by the lengths of the hosts."""


def topic_field(topic: str) -> bytes:
    """Length byte and topic. Raises RecordError over 127 bytes: the length is a signed byte."""
    encoded = topic.encode()
    if len(encoded) > MAX_TOPIC_BYTES:
        raise RecordError(f"the topic takes {len(encoded)} bytes, the limit is {MAX_TOPIC_BYTES}")
    return bytes((len(encoded),)) + encoded


def with_hosts(sys_flag: int, born_host: bytes, store_host: bytes) -> int:
    """The flag with the bits for IPv6 as these packed hosts are. Raises ValueError for what is no
    host."""
    hosts = _HOSTS.get((len(born_host), len(store_host)))
    if hosts is None:
        raise ValueError("a host takes 8 or 20 bytes")
    return sys_flag & ~V6_HOSTS | hosts


class NewRecord(msgspec.Struct, gc=False):
    """A message and its place, to be encoded."""

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    queue_offset: int
    phy_offset: int
    sys_flag: int
    """The bits for IPv6 are set by the length of the hosts."""
    born_timestamp: int
    born_host: bytes
    """Packed, as ``store_host``."""
    store_timestamp: int
    store_host: bytes
    flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


def record_of(
    head: RecordHead, body: bytes | memoryview, topic_field: bytes, properties: bytes
) -> bytes:
    """The bytes of a record. The hosts are as ``sys_flag`` says; sizes, magic and CRC of ``head``
    are filled in here."""
    packed = head_struct(head.sys_flag)
    size = packed.size + len(body) + len(topic_field) + 2 + len(properties)
    return b"".join(
        (
            packed.pack(size, MAGIC, body_crc(body), *head[3:-1], len(body)),
            body,
            topic_field,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    )


def encode_record(record: NewRecord) -> bytes:
    """One record from its fields. Raises ValueError for what is no host, OverflowError for
    properties over 65,535 bytes.
    """
    head = RecordHead(
        0, 0, 0, record.queue_id, record.flag, record.queue_offset, record.phy_offset,
        with_hosts(record.sys_flag, record.born_host, record.store_host), record.born_timestamp,
        record.born_host, record.store_timestamp, record.store_host, record.reconsume_times,
        record.prepared_transaction_offset, 0,
    )  # fmt: skip
    return record_of(head, record.body, topic_field(record.topic), record.properties)
