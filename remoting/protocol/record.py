"""The stored record: an element of the commit log and of the body of a pull, query or view response.

Big-endian; ``B`` and ``S`` are 8 (IPv4) or 20 (IPv6) by the sysFlag (message-encoding.md §4.1, commitlog.md
§3; classes CommitLog, MessageDecoder):

========= ==== ============================= ===================================================
offset    size field
========= ==== ============================= ===================================================
0         4    totalSize                     of the whole record
4         4    magic                         0xDAA320A7
8         4    bodyCRC                       CRC-32 of the stored body & 0x7FFFFFFF, 0 for none
12        4    queueId
16        4    flag                          the user's
20        8    queueOffset                   number in the queue; 0 for prepared and rollback
28        8    physicalOffset                of byte 0 of this record in the commit log
36        4    sysFlag
40        8    bornTimestamp                 ms, producer's clock
48        B    bornHost                      address, then port as 4 bytes
48+B      8    storeTimestamp                ms, broker's clock
56+B      S    storeHost
56+B+S    4    reconsumeTimes
60+B+S    8    preparedTransactionOffset
68+B+S    4    bodyLength                    n
72+B+S    n    body
...       1    topicLength                   t, 1..127
...       t    topic                         UTF-8
...       2    propertiesLength              p, 0..32767
...       p    properties
========= ==== ============================= ===================================================

A commit log file ends with a blank: the remaining size (4) and the magic 0xCBD43194 (4); the rest is
undefined.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from .leaves import crc32
from .message import HEAD_V4, MessageExt
from .sys_flag import MessageSysFlag

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BLANK_MAGIC",
    "BLANK_SIZE",
    "MAGIC",
    "MAX_TOPIC_BYTES",
    "MIN_RECORD_SIZE",
    "RecordError",
    "blank_record",
    "body_crc",
    "decode_messages",
    "decode_record",
    "encode_record",
    "head_struct",
    "iter_records",
    "read_messages",
    "record_overhead",
    "size_and_magic",
    "topic_field",
]

MAGIC: Final = 0xDAA320A7
BLANK_MAGIC: Final = 0xCBD43194
BLANK_SIZE: Final = 8
MIN_RECORD_SIZE: Final = 91
MAX_TOPIC_BYTES: Final = 127

_V6_HOSTS: Final = MessageSysFlag.BORN_HOST_V6 | MessageSysFlag.STORE_HOST_V6
_SYS_FLAG_AT: Final = 36
_BLANK: Final = struct.Struct(">II")
_SIZE_AND_MAGIC: Final = struct.Struct(">iI")


def _head(born_host_size: int, store_host_size: int) -> struct.Struct:
    return struct.Struct(f">iIIiiqqiq{born_host_size}sq{store_host_size}siqi")


_HEADS: Final = {
    0: HEAD_V4,
    MessageSysFlag.BORN_HOST_V6: _head(20, 8),
    MessageSysFlag.STORE_HOST_V6: _head(8, 20),
    _V6_HOSTS: _head(20, 20),
}
_GLANCE_V4: Final = struct.Struct(">iII8xq8xi44xi")
"""totalSize, magic, bodyCRC, queueOffset, sysFlag and bodyLength of a record with IPv4 hosts: enough to find its parts."""


class RecordError(ValueError):
    """The bytes at an offset are not a whole, consistent record."""


def body_crc(body: bytes | memoryview) -> int:
    """The bodyCRC field. The original loses the sign bit so that the number is never negative."""
    return crc32(body) & 0x7FFFFFFF


def head_struct(sys_flag: int) -> struct.Struct:
    """The Struct of the fields in front of the body, for the kind of hosts that the sysFlag tells."""
    return _HEADS[sys_flag & _V6_HOSTS]


def record_overhead(sys_flag: int) -> int:
    """Size of a record without body, topic and properties: 91, and 12 more for every IPv6 host."""
    return _HEADS[sys_flag & _V6_HOSTS].size + 3


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


def blank_record(remaining: int) -> bytes:
    """The 8 bytes that end a commit log file in which ``remaining`` bytes are left."""
    return _BLANK.pack(remaining, BLANK_MAGIC)


def decode_record(
    data: bytes | memoryview, offset: int = 0, *, broker_name: str = "", check_crc: bool = False
) -> MessageExt:
    """The record at ``offset``.

    Everything is checked against the record's own size and the end of ``data``; the CRC only when asked for
    (the original's clients never do). Raises RecordError.
    """
    available = len(data) - offset
    if available < MIN_RECORD_SIZE:
        raise RecordError(f"{available} bytes at {offset} are too few for a record")
    flags = data[offset + _SYS_FLAG_AT + 3]
    head_struct = _HEADS[flags & _V6_HOSTS]
    if available < head_struct.size:
        raise RecordError(f"{available} bytes at {offset} are too few for a record")
    head = head_struct.unpack_from(data, offset)
    total, magic, body_size = head[0], head[1], head[14]
    if magic != MAGIC:
        raise RecordError(f"magic {magic:#010x} at {offset}, expected {MAGIC:#010x}")
    if total > available or body_size < 0:
        raise RecordError(f"the record at {offset} says size {total}, body {body_size}; {available} bytes are left")
    end = offset + total
    body_at = offset + head_struct.size
    topic_at = body_at + body_size + 1
    if topic_at > end:
        raise RecordError(f"the body of the record at {offset} reaches over its end")
    topic_end = topic_at + data[topic_at - 1]
    properties_at = topic_end + 2
    if properties_at > end or properties_at + (data[topic_end] << 8 | data[topic_end + 1]) != end:
        raise RecordError(f"the sizes in the record at {offset} do not add up to {total}")
    body = bytes(data[body_at : topic_at - 1])
    if check_crc and crc32(body) & 0x7FFFFFFF != head[2]:
        raise RecordError(f"the body of the record at {offset} does not have the CRC {head[2]:#010x}")
    topic = str(data[topic_at:topic_end], "utf-8", "replace")
    return MessageExt(head, body, topic, bytes(data[properties_at:end]), broker_name, head[5], head[7])


def iter_records(data: bytes | memoryview, *, broker_name: str = "", check_crc: bool = False) -> Iterator[MessageExt]:
    """The records that lie one after the other in ``data``. Raises RecordError at the first that is
    broken.
    """
    view = memoryview(data)
    offset = 0
    while offset < len(view):
        message = decode_record(view, offset, broker_name=broker_name, check_crc=check_crc)
        offset += message.store_size
        yield message


def decode_messages(data: bytes | memoryview, broker_name: str = "", *, check_crc: bool = False) -> list[MessageExt]:
    """The body of a pull response. Stops at the first record that is broken and drops the rest, as the
    original.
    """
    messages: list[MessageExt] = []
    try:
        messages.extend(iter_records(data, broker_name=broker_name, check_crc=check_crc))
    except RecordError:
        pass  # list.extend keeps what came before the error
    return messages


def read_messages(data: bytes, broker_name: str, offset: int = 0) -> tuple[list[MessageExt], int]:
    """The records from ``offset`` on up to the first that is broken, or has another CRC, and where that one begins
    (``salvage.py`` goes on behind it).

    The same as ``decode_record`` again and again, in one loop: consumers spend most of their time here.
    """
    messages: list[MessageExt] = []
    glance, head_size, checksum = _GLANCE_V4.unpack_from, HEAD_V4.size, crc32
    available = len(data)
    last_topic, topic = b"", ""
    while available - offset >= MIN_RECORD_SIZE:
        size, magic, crc, queue_offset, sys_flag, body_size = glance(data, offset)
        if sys_flag & _V6_HOSTS or body_size < 0:
            message = _read_slowly(data, offset, broker_name)
            if message is None:
                break
            messages.append(message)
            offset += message.store_size
            continue
        end = offset + size
        body_at = offset + head_size
        topic_at = body_at + body_size + 1
        if magic != MAGIC or end > available or topic_at > end:
            break
        topic_end = topic_at + data[topic_at - 1]
        properties_at = topic_end + 2
        if properties_at > end or properties_at + (data[topic_end] << 8 | data[topic_end + 1]) != end:
            break
        body = data[body_at : topic_at - 1]
        if checksum(body) & 0x7FFFFFFF != crc:
            break
        raw_topic = data[topic_at:topic_end]
        if raw_topic != last_topic:
            last_topic, topic = raw_topic, raw_topic.decode("utf-8", "replace")
        properties = data[properties_at:end]
        messages.append(MessageExt(data[offset:body_at], body, topic, properties, broker_name, queue_offset, sys_flag))
        offset = end
    return messages, offset


def _read_slowly(data: bytes, offset: int, broker_name: str) -> MessageExt | None:
    try:
        return decode_record(data, offset, broker_name=broker_name, check_crc=True)
    except RecordError:
        return None


def size_and_magic(data: Buffer, offset: int) -> tuple[int, int]:
    """The first two fields, to tell a record from a blank and from nothing. ``data`` must hold 8 bytes
    there.
    """
    return _SIZE_AND_MAGIC.unpack_from(data, offset)
