"""Stored messages for tests, made the way they come over the wire."""

from __future__ import annotations

from collections.abc import Mapping

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import NewRecord, decode_record, encode_record
from aiorocketmq.remoting.protocol.record.decode import MessageExt

HOST = pack_host("127.0.0.1", 10911)


def stored(
    queue_offset: int,
    body: bytes = b"body",
    *,
    topic: str = "T",
    queue_id: int = 0,
    properties: Mapping[str, str] | None = None,
) -> MessageExt:
    data = record(queue_offset, body, topic=topic, queue_id=queue_id, properties=properties)
    return decode_record(data, broker_name="broker-a")


def record(
    queue_offset: int,
    body: bytes = b"body",
    *,
    topic: str = "T",
    queue_id: int = 0,
    properties: Mapping[str, str] | None = None,
) -> bytes:
    """As a broker sends it."""
    return encode_record(
        NewRecord(
            topic,
            queue_id,
            body,
            encode_properties(properties or {}),
            queue_offset=queue_offset,
            phy_offset=queue_offset * 1000,
            sys_flag=0,
            born_timestamp=1,
            born_host=HOST,
            store_timestamp=2,
            store_host=HOST,
        )
    )
