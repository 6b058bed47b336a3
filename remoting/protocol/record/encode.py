"""Records out of what they consist of."""

from __future__ import annotations

from typing import Final

from .crc import body_crc
from .layout import MAGIC, MAX_TOPIC_BYTES, V6_HOSTS, head_struct, host_sizes
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


def record_of(
    topic_field: bytes,
    queue_id: int,
    body: bytes | memoryview,
    properties: bytes,
    queue_offset: int,
    phy_offset: int,
    flag: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
) -> bytes:
    """The bytes of a record. The hosts are as ``sys_flag`` says."""
    head = head_struct(sys_flag)
    return b"".join(
        (
            head.pack(
                head.size + len(body) + len(topic_field) + 2 + len(properties), MAGIC,
                body_crc(body), queue_id, flag,
                queue_offset, phy_offset, sys_flag, born_timestamp, born_host, store_timestamp,
                store_host, reconsume_times,
                prepared_transaction_offset, len(body),
            ),
            body,
            topic_field,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    )  # fmt: skip


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
    """One record from its fields. The IPv6 bits of ``sys_flag`` are set here by the length of the
    packed hosts. Raises ValueError for what is no host, OverflowError for properties over 65,535
    bytes.
    """
    return record_of(
        topic_field(topic), queue_id, body, properties, queue_offset, phy_offset, flag,
        with_hosts(sys_flag, born_host, store_host), born_timestamp, born_host, store_timestamp,
        store_host, reconsume_times,
        prepared_transaction_offset,
    )  # fmt: skip
