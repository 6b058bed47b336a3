"""Messages as a user sees them: ``Message`` goes out, ``MessageExt`` comes in, ``MessageQueue`` names a
queue.

The pieces they are made of live next door (``properties``, ``message_id``, ``sys_flag``, ``batch``,
``topic_names``) and are offered here too.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from .batch import BatchError, BatchItem, decode_batch, encode_batch
from .compression import decompress_body
from .message_id import (
    OffsetMessageId,
    UniqIdGenerator,
    format_host,
    offset_message_id,
    pack_host,
    parse_offset_message_id,
    unpack_host,
)
from .properties import (
    MAX_PROPERTIES_BYTES,
    RESERVED_PROPERTIES,
    MessageError,
    PropertyName,
    decode_properties,
    encode_properties,
    find_property,
    java_string_hash,
    tags_code,
    tags_code_of,
)
from .sys_flag import MessageSysFlag, PermName, TopicSysFlag, compression_type, perm_text, transaction_type
from .topic_names import group_error, topic_error

__all__ = [
    "MAX_PROPERTIES_BYTES",
    "RESERVED_PROPERTIES",
    "BatchError",
    "BatchItem",
    "Message",
    "MessageError",
    "MessageExt",
    "MessageQueue",
    "MessageSysFlag",
    "OffsetMessageId",
    "PermName",
    "PropertyName",
    "RecordHead",
    "TopicSysFlag",
    "UniqIdGenerator",
    "compression_type",
    "decode_batch",
    "decode_properties",
    "encode_batch",
    "encode_properties",
    "find_property",
    "format_host",
    "group_error",
    "java_string_hash",
    "message_properties",
    "offset_message_id",
    "pack_host",
    "parse_offset_message_id",
    "perm_text",
    "tags_code",
    "tags_code_of",
    "topic_error",
    "transaction_type",
    "unpack_host",
]


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker (master and its slaves share the name)."""

    topic: str
    broker_name: str
    queue_id: int


class Message(msgspec.Struct):
    """A message to send.

    ``tags`` is what consumers filter by; ``keys`` are indexed and must not contain spaces; ``delay_level``
    1..18 holds the message back (0: not); ``flag`` is the user's own number; ``wait_store_ok=False`` lets a
    SYNC_FLUSH broker answer before the disk has it; ``properties`` are the user's own, see
    RESERVED_PROPERTIES for what they must not be.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] = ()
    delay_level: int = 0
    flag: int = 0
    wait_store_ok: bool = True
    properties: dict[str, str] = {}


def message_properties(message: Message, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """All properties of a message as they go over the wire; ``extra`` are the sender's (UNIQ_KEY, ...) and
    win.

    Raises MessageError for a user property with a reserved name and for a key with a space or an empty key.
    """
    properties = dict(message.properties)
    if properties and not RESERVED_PROPERTIES.isdisjoint(properties):
        names = ", ".join(sorted(RESERVED_PROPERTIES.intersection(properties)))
        raise MessageError(f"these property names are reserved: {names}; use tags=, keys=, delay_level= or other names")
    if message.tags:
        if not isinstance(message.tags, str):
            raise MessageError(f"the tags of a message are one text, not {message.tags!r}")
        properties["TAGS"] = message.tags
    if message.keys:
        properties["KEYS"] = _join_keys(message.keys)
    if message.delay_level > 0:
        properties["DELAY"] = str(message.delay_level)
    if not message.wait_store_ok:
        properties["WAIT"] = "false"
    if extra:
        properties.update(extra)
    return properties


def _join_keys(keys: Sequence[str]) -> str:
    if isinstance(keys, str):  # a common slip: one key instead of a list of keys
        keys = (keys,)
    for key in keys:
        if not key or " " in key:
            raise MessageError(f"key {key!r} must not be empty and must not contain a space: it separates keys")
    return " ".join(keys)


HEAD_V4: Final = struct.Struct(">iIIiiqqiq8sq8siqi")
"""``RecordHead`` with IPv4 hosts."""


class RecordHead(NamedTuple):
    """The fixed fields in front of the body of a stored record, in the order of the layout (see
    ``record.py``).
    """

    store_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    phy_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_size: int


class MessageExt(msgspec.Struct, eq=False, gc=False):
    """A stored message as it comes out of a record.

    Cheap to make, the rest on demand: the fixed fields are unpacked, properties are split and the body is
    decompressed when somebody asks. Timestamps are milliseconds since 1970. (``gc=False``: consumers
    hold thousands of them, and nothing in one can lead back to it.)
    """

    _head: tuple[int | bytes, ...] | bytes
    """Bytes: as they lie in the record, for hosts with IPv4."""
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
            head = self._head = HEAD_V4.unpack(head)
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
        """The body as it was sent. Raises CompressionError when it is compressed and cannot be unpacked."""
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
        return {name: value for name, value in self.properties.items() if name not in RESERVED_PROPERTIES}

    @property
    def tags(self) -> str | None:
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.properties.get("KEYS", "").split())

    @property
    def delay_level(self) -> int:
        value = self.properties.get("DELAY", "0")
        return int(value) if value.isdecimal() else 0

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
            f"MessageExt(topic={self.topic!r}, queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
            f"msg_id={self.msg_id!r}, tags={self.tags!r}, keys={self.keys!r}, {len(self.stored_body)} bytes)"
        )
