"""Records out of what they consist of."""

from __future__ import annotations

from ..sys_flag import MessageSysFlag
from .crc import body_crc
from .layout import MAGIC, MAX_TOPIC_BYTES, head_struct
from .verdict import RecordError

__all__ = ["encode_record", "topic_field"]


def topic_field(topic: str) -> bytes:
    """Length byte and topic. Raises RecordError over 127 bytes: the length is a signed byte."""
    encoded = topic.encode()
    if len(encoded) > MAX_TOPIC_BYTES:
        raise RecordError(f"the topic takes {len(encoded)} bytes, the limit is {MAX_TOPIC_BYTES}")
    return bytes((len(encoded),)) + encoded


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

    The store's hot path does the same with what it has at hand (``commit_log.py``); a test holds the two
    together.
    """
    if len(born_host) == 20:
        sys_flag |= MessageSysFlag.BORN_HOST_V6
    if len(store_host) == 20:
        sys_flag |= MessageSysFlag.STORE_HOST_V6
    head = head_struct(sys_flag)
    topic_part = topic_field(topic)
    total = head.size + len(body) + len(topic_part) + 2 + len(properties)
    return b"".join(
        (
            head.pack(
                total,
                MAGIC,
                body_crc(body),
                queue_id,
                flag,
                queue_offset,
                phy_offset,
                sys_flag,
                born_timestamp,
                born_host,
                store_timestamp,
                store_host,
                reconsume_times,
                prepared_transaction_offset,
                len(body),
            ),
            body,
            topic_part,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    )
