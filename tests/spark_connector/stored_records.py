"""Makes stored records of every kind, also those that only RocketMQ 5 writes."""

from __future__ import annotations

import zlib

import msgspec
import pyarrow as pa

from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record import MAGIC, body_crc, head_struct
from aiorocketmq.remoting.protocol.record.layout import MAGIC_V2

V4 = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
V6 = bytes(15) + b"\x01\x00\x00\x2a\x9f"


class Stored(msgspec.Struct, kw_only=True):
    """One record as it will be written."""

    topic: bytes = b"orders"
    body: bytes = b"hello"
    properties: bytes = b""
    queue_id: int = 3
    queue_offset: int = 0
    phy_offset: int = 0
    sys_flag: int = 0
    flag: int = 0
    born_timestamp: int = 1_700_000_000_000
    store_timestamp: int = 1_700_000_000_001
    reconsume_times: int = 0
    long_topic: bool = False
    """The second magic, which has two bytes for the length of the topic."""

    def encode(self) -> bytes:
        born = V6 if self.sys_flag & MessageSysFlag.BORN_HOST_V6 else V4
        store = V6 if self.sys_flag & MessageSysFlag.STORE_HOST_V6 else V4
        head = head_struct(self.sys_flag)
        length = 2 if self.long_topic else 1
        size = head.size + len(self.body) + length + len(self.topic) + 2 + len(self.properties)
        packed = head.pack(
            size, MAGIC_V2 if self.long_topic else MAGIC, body_crc(self.body), self.queue_id,
            self.flag, self.queue_offset,
            self.phy_offset, self.sys_flag, self.born_timestamp, born, self.store_timestamp, store,
            self.reconsume_times, 0,
            len(self.body),
        )  # fmt: skip
        return b"".join(
            (
                packed,
                self.body,
                len(self.topic).to_bytes(length, "big"),
                self.topic,
                len(self.properties).to_bytes(2, "big"),
                self.properties,
            )
        )


def joined(*records: Stored) -> bytes:
    """The body of a pull answer."""
    return b"".join(record.encode() for record in records)


def properties(**pairs: str) -> bytes:
    return b"\x02".join(f"{name}\x01{value}".encode() for name, value in pairs.items())


def compressed(body: bytes, kind: int) -> tuple[bytes, int]:
    """The body as a producer compresses it, and the bits of the sysFlag."""
    if kind in (0, MessageSysFlag.COMPRESSION_ZLIB):
        return zlib.compress(body, 1), MessageSysFlag.COMPRESSED | kind
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(
        sink, "lz4" if kind == MessageSysFlag.COMPRESSION_LZ4 else "zstd"
    ) as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes(), MessageSysFlag.COMPRESSED | kind
