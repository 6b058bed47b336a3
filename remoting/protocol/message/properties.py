"""The property string of a message: ``name 0x01 value 0x02 name 0x01 value`` in UTF-8.

Reader rules of the original (message-encoding.md §4.2): pairs are split at 0x02 (a trailing one is
tolerated), the name ends at the first 0x01, a pair with an empty name or value is dropped, of
duplicates the last one wins. The order of the pairs carries no meaning.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_END: Final = 2
MAX_PROPERTIES_BYTES: Final = 32767
"""The length field of a record is a signed short."""


class MessageError(ValueError):
    """A message cannot be sent or stored as it is; the text says what to change."""


class PropertyName:
    """Names with a meaning to the system (MessageConst; message-encoding.md §4.3)."""

    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    WAIT: Final = "WAIT"
    DELAY: Final = "DELAY"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QID: Final = "REAL_QID"
    TRAN_MSG: Final = "TRAN_MSG"
    PGROUP: Final = "PGROUP"
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    BUYER_ID: Final = "BUYER_ID"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    MSG_REGION: Final = "MSG_REGION"
    TRACE_ON: Final = "TRACE_ON"
    UNIQ_KEY: Final = "UNIQ_KEY"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    INSTANCE_ID: Final = "INSTANCE_ID"
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
    CLUSTER: Final = "CLUSTER"
    MSG_TYPE: Final = "MSG_TYPE"
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
    TRANSACTION_ID: Final = "__transactionId__"
    START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
    SEND_SEQUENCE: Final = "SEND_SEQUENCE"
    """Ours: see ``send_sequence``."""


_USABLE_BY_ANYBODY = {
    PropertyName.TRAN_PREPARED_QUEUE_OFFSET,
    PropertyName.TRANSACTION_CHECK_TIMES,
    PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS,
    PropertyName.INNER_MULTI_DISPATCH,
    PropertyName.TRANSACTION_ID,
    PropertyName.START_DELIVER_TIME,
    PropertyName.SEND_SEQUENCE,
}

RESERVED_PROPERTIES: Final[frozenset[str]] = frozenset(
    value
    for name, value in vars(PropertyName).items()
    if name.isupper() and value not in _USABLE_BY_ANYBODY
)
"""Names that a user's own property must not have (STRING_HASH_SET of MessageConst)."""


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Join the pairs, without a separator at the end.

    Raises MessageError for a name or value that the reader would drop or misread (empty, or holding
    a separator), or when the string is longer than 32767 bytes.
    """
    parts = []
    for name, value in properties.items():
        if not name or not value or "\x01" in name or "\x02" in name or "\x02" in value:
            raise MessageError(
                f"property {name!r}={value!r} cannot be stored: name and value must not be empty "
                "and must not "
                "contain the separators U+0001 and U+0002"
            )
        parts.append(f"{name}\x01{value}")
    encoded = "\x02".join(parts).encode()
    if len(encoded) > MAX_PROPERTIES_BYTES:
        raise MessageError(
            f"the properties take {len(encoded)} bytes, the limit is {MAX_PROPERTIES_BYTES}"
        )
    return encoded


def decode_properties(data: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Split a property string; never raises (bytes that are not UTF-8 become U+FFFD, as in the
    original)."""
    text = data if isinstance(data, str) else str(data, "utf-8", "replace")
    properties = {}
    for pair in text.split("\x02"):
        name, _, value = pair.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


def find_property(data: bytes, name: bytes) -> bytes | None:
    """One value out of an encoded property string, by the same rules as decode_properties, without
    splitting it.
    """
    wanted = name + b"\x01"
    at = data.rfind(wanted)
    while at >= 0:
        if at == 0 or data[at - 1] == _END:  # and not the end of another name
            start = at + len(wanted)
            end = data.find(_END, start)
            if value := data[start:] if end < 0 else data[start:end]:
                return value
        at = data.rfind(wanted, 0, at)
    return None


def java_string_hash(text: str) -> int:
    """``String.hashCode()``: ``h = 31*h + unit`` over the UTF-16 units, as a signed 32-bit
    number."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - 0x1_0000_0000 if result & 0x8000_0000 else result


@lru_cache(maxsize=4096)
def tags_code(tags: str | None) -> int:
    """What a consume queue keeps of the tags: their Java hash, 0 for none (message-encoding.md
    §4.8)."""
    return java_string_hash(tags) if tags else 0


def tags_code_of(properties: bytes) -> int:
    """The tags code of an encoded property string."""
    tags = find_property(properties, b"TAGS")
    return _code_of(tags) if tags else 0


@lru_cache(maxsize=4096)
def _code_of(tags: bytes) -> int:
    return java_string_hash(tags.decode("utf-8", "replace"))
