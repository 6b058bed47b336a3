"""Messages as a user sees them: ``Message`` goes out, ``MessageExt`` comes in, ``MessageQueue`` names a
queue.

The pieces they are made of live next door (``record``, ``properties``, ``message_id``, ``sys_flag``,
``batch``, ``topic_names``) and are offered here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from .batch import BatchError, BatchItem, decode_batch, encode_batch
from .message_id import (
    OffsetMessageId,
    UniqIdGenerator,
    format_host,
    offset_message_id,
    pack_host,
    parse_offset_message_id,
    unpack_host,
)
from .message_queue import MessageQueue
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
from .record.decode import MessageExt
from .record.layout import RecordHead
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
