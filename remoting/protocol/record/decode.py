"""Stored records as messages."""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec

from ..leaves import crc32, leaf
from ..message.compression import decompress_body
from ..message.message_id import format_host, offset_message_id
from ..message.message_queue import MessageQueue
from ..message.properties import RESERVED_PROPERTIES, PropertyName, decode_properties
from ..message.sys_flag import MessageSysFlag
from .crc import body_crc
from .layout import MAGIC, SYS_FLAG_BYTE, V6_HOSTS, RecordHead, glance, head_struct
from .verdict import TOPICS, NoRecord, take_apart

_AT_ONCE: Final = 256 << 10
"""Bytes that a leaf reads: of the shortest records that takes 0.7 ms."""
_HEAD_SIZE: Final = head_struct(0).size
_glance_v4: Final = glance(
    "store_size", "magic", "body_crc", "queue_offset", "sys_flag", "body_size"
).unpack_from


class MessageExt(msgspec.Struct, eq=False, gc=False):
    """A stored message as it comes out of a record.

    Cheap to make, the rest on demand: the fixed fields are unpacked, properties are split and the
    body is decompressed when somebody asks. Timestamps are milliseconds since 1970. (``gc=False``:
    consumers hold thousands of them, and nothing in one can lead back to it.)
    """

    _head: tuple[int | bytes, ...] | bytes
    """Bytes: as they lie in the record."""
    stored_body: bytes
    """The body as it lies in the store, perhaps compressed."""
    topic: str
    raw_properties: bytes
    """The property string as it lies in the store."""
    broker_name: str
    """Set by the client that pulled the message; a record does not tell."""
    queue_offset: int
    """Number of the message in its queue."""
    sys_flag: int
    _body: bytes | None = None
    _properties: dict[str, str] | None = None

    def _fields(self) -> tuple[int | bytes, ...]:
        head = self._head
        if isinstance(head, bytes):
            head = self._head = head_struct(head[SYS_FLAG_BYTE]).unpack(head)
        return head

    @property
    def head(self) -> RecordHead:
        """All fixed fields by name."""
        return RecordHead._make(self._fields())

    @property
    def store_size(self) -> int:
        """Bytes of the whole record."""
        return self._fields()[0]  # type: ignore[return-value]

    @property
    def body_crc(self) -> int:
        """CRC-32 of the stored body, without its highest bit."""
        return self._fields()[2]  # type: ignore[return-value]

    @property
    def queue_id(self) -> int:
        return self._fields()[3]  # type: ignore[return-value]

    @property
    def flag(self) -> int:
        return self._fields()[4]  # type: ignore[return-value]

    @property
    def commit_log_offset(self) -> int:
        """Byte position of the record in the broker's commit log."""
        return self._fields()[6]  # type: ignore[return-value]

    @property
    def born_timestamp(self) -> int:
        """The producer's clock, ms."""
        return self._fields()[8]  # type: ignore[return-value]

    @property
    def born_host(self) -> str:
        """``address:port`` of the producer as the broker saw it."""
        return format_host(self._fields()[9])  # type: ignore[arg-type]

    @property
    def store_timestamp(self) -> int:
        """The broker's clock, ms."""
        return self._fields()[10]  # type: ignore[return-value]

    @property
    def store_host(self) -> str:
        """``address:port`` of the broker."""
        return format_host(self._fields()[11])  # type: ignore[arg-type]

    @property
    def reconsume_times(self) -> int:
        """How often the group has given it back, or an ordered consumer has tried it."""
        return self._fields()[12]  # type: ignore[return-value]

    @reconsume_times.setter
    def reconsume_times(self, times: int) -> None:
        head = self._fields()
        self._head = (*head[:12], times, *head[13:])

    @property
    def prepared_transaction_offset(self) -> int:
        """Commit log offset of the half message that this one commits, else 0."""
        return self._fields()[13]  # type: ignore[return-value]

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @property
    def body(self) -> bytes:
        """The body as it was sent. Raises CompressionError when it is compressed and cannot be
        unpacked."""
        if not self.sys_flag & MessageSysFlag.COMPRESSED:
            return self.stored_body
        if self._body is None:
            self._body = decompress_body(self.stored_body, self.sys_flag)
        return self._body

    @property
    def properties(self) -> dict[str, str]:
        """All properties, the system's too."""
        if self._properties is None:
            self._properties = decode_properties(self.raw_properties)
        return self._properties

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties that the sender chose: what may be given to a new Message."""
        return {
            name: value
            for name, value in self.properties.items()
            if name not in RESERVED_PROPERTIES
        }

    @property
    def tags(self) -> str | None:
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.properties.get("KEYS", "").split())

    @property
    def delay_level(self) -> int:
        value = self.properties.get("DELAY", "0")
        return int(value) if value.isdecimal() and len(value) < 10 else 0

    @property
    def wait_store_ok(self) -> bool:
        return self.properties.get("WAIT", "true").lower() == "true"

    @property
    def msg_id(self) -> str:
        """The producer's id (UNIQ_KEY), or the broker's when there is none."""
        return self.properties.get("UNIQ_KEY") or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """The broker's id: where the message lies."""
        return offset_message_id(self._fields()[11], self.commit_log_offset)  # type: ignore[arg-type]

    @property
    def transaction_id(self) -> str | None:
        """The id shared by half message and committed message; None outside of transactions."""
        properties = self.properties
        if properties.get("TRAN_MSG", "").lower() == "true":
            return properties.get("UNIQ_KEY")
        return properties.get(PropertyName.TRANSACTION_ID)

    def __repr__(self) -> str:
        return (
            f"MessageExt(topic={self.topic!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, "
            f"msg_id={self.msg_id!r}, tags={self.tags!r}, keys={self.keys!r}, "
            f"{len(self.stored_body)} bytes)"
        )


def decode_record(
    data: bytes | memoryview, offset: int = 0, *, broker_name: str = "", check_crc: bool = False
) -> MessageExt:
    """The record at ``offset``. Everything is checked but the CRC, which is when that is asked for
    (the original's clients never do). Raises NoRecord.
    """
    data = bytes(data)
    parts = take_apart(data, offset, None, len(data) - offset, body_crc if check_crc else None)
    return _message(data, parts, broker_name)


def whole_record(data: bytes, offset: int = 0, broker_name: str = "") -> MessageExt:
    """What a record says of itself whose lengths are right, damaged or not. Raises NoRecord where
    they are not."""
    return _message(
        data, take_apart(data, offset, None, len(data) - offset, contents=False), broker_name
    )


def _message(data: bytes, parts: tuple[Any, ...], broker_name: str) -> MessageExt:
    at, _, _, _, queue_offset, sys_flag, _, body_at, body_size, topic, properties = parts
    head, body = head_struct(sys_flag).unpack_from(data, at), data[body_at : body_at + body_size]
    return MessageExt(head, body, topic, properties, broker_name, queue_offset, sys_flag)


def read_messages(data: bytes, broker_name: str, offset: int = 0) -> tuple[list[MessageExt], int]:
    """The records from ``offset`` on up to the first that is broken, or has another CRC, and where
    that one begins (``salvage.py`` goes on behind it).
    """
    messages, until = list[MessageExt](), offset
    while offset >= until < len(data):
        until = offset + _AT_ONCE
        some, offset = read_records(data, offset, until, MessageExt, broker_name)
        messages += some
    return messages, offset


@leaf
def read_records(
    data: bytes, at: int, until: int, make: type[MessageExt], broker_name: str, /
) -> tuple[list[MessageExt], int]:
    """The records that begin in front of byte ``until``, up to the first that is not intact, and
    where that ends. This is where consumers spend most of their time: what is in no way unusual is
    done in one loop.
    """
    messages: list[MessageExt] = []
    try:
        while (at := _read_plain(data, at, until, make, broker_name, messages)) < until:
            if at >= len(data):
                break
            _, size, _, _, queue_offset, sys_flag, _, body_at, body_size, topic, properties = (
                take_apart(data, at, None, len(data) - at)
            )
            body = data[body_at : body_at + body_size]
            messages.append(
                make(data[at:body_at], body, topic, properties, broker_name, queue_offset, sys_flag)
            )
            at += size
    except NoRecord:
        pass
    return messages, at


def _read_plain(
    data: bytes,
    at: int,
    until: int,
    make: type[MessageExt],
    broker_name: str,
    messages: list[MessageExt],
) -> int:
    glance, head_size, checksum, length = _glance_v4, _HEAD_SIZE, crc32, len(data)
    last_topic, topic = b"", ""
    try:
        while at < until:
            size, magic, crc, queue_offset, sys_flag, body_size = glance(data, at)
            end = at + size
            body_at = at + head_size
            topic_at = body_at + body_size + 1
            topic_end = topic_at + data[topic_at - 1]
            raw_topic = data[topic_at:topic_end]
            if raw_topic != last_topic:
                last_topic, topic = raw_topic, TOPICS[raw_topic]
            properties = data[topic_end + 2 : end]
            body = data[body_at : topic_at - 1]
            if (
                magic != MAGIC
                or topic_end + 2 + (data[topic_end] << 8 | data[topic_end + 1]) != end
                or end > length
                or body_size < 0
                or sys_flag & V6_HOSTS
                or not topic
                or b"\0" in properties
                or checksum(body) & 0x7FFFFFFF != crc
            ):
                break
            messages.append(
                make(data[at:body_at], body, topic, properties, broker_name, queue_offset, sys_flag)
            )
            at = end
    except (IndexError, struct.error):  # it ends behind the data
        pass
    return at
