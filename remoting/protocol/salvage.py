"""The body of a pull in which a record is damaged: a damaged record costs itself only.

``read_messages`` stops at it, and this finds where the next one begins. A record tells its size twice: in its first field,
and by the lengths of body, topic and properties. Where one of the two leads to another record (or to the end), that is its
end. Only where both are wrong the magic is looked for, and what follows has to be whole records up to the end then: a body
may hold records, too, and those are no messages of this queue.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from .message import MessageExt
from .record import MAGIC, MIN_RECORD_SIZE, RecordError, decode_record, head_struct, read_messages, size_and_magic

__all__ = ["DamagedRecord", "end_by_lengths", "read_salvaged"]

_MAGIC_BYTES: Final = struct.pack(">I", MAGIC)
_SYS_FLAG_AT: Final = 39
_BODY_SIZE: Final = struct.Struct(">i")


class DamagedRecord(NamedTuple):
    """A place in the body of a pull that is no intact record."""

    at: int
    size: int
    problem: str
    message: MessageExt | None = None
    """What it says of itself where its lengths are right and the CRC of its body is not. Its body is not what was sent."""


def read_salvaged(data: bytes, broker_name: str) -> tuple[list[MessageExt], list[DamagedRecord]]:
    """All intact records, in order, and what lies between them."""
    messages, at = read_messages(data, broker_name)
    damaged: list[DamagedRecord] = []
    while at < len(data):
        found = _damaged_at(data, at, broker_name)
        damaged.append(found)
        more, at = read_messages(data, broker_name, at + found.size)
        messages += more
    return messages, damaged


def _damaged_at(data: bytes, at: int, broker_name: str) -> DamagedRecord:
    problem, message = "", None
    try:
        message = decode_record(data, at, broker_name=broker_name)
        decode_record(data, at, check_crc=True)
    except RecordError as error:
        problem = str(error)
    if message is not None:
        return DamagedRecord(at, message.store_size, problem, message)
    return DamagedRecord(at, _next_record(data, at) - at, problem)


def _next_record(data: bytes, at: int) -> int:
    for end in (at + size_and_magic(data, at)[0] if len(data) - at >= 8 else 0, end_by_lengths(data, at)):
        if end >= at + MIN_RECORD_SIZE and (end == len(data) or _whole(data, end)):
            return end
    found, in_vain = at, set[int]()
    while (found := data.find(_MAGIC_BYTES, found + 5) - 4) >= at:
        if _whole_up_to_the_end(data, found, in_vain):
            return found
    return len(data)


def end_by_lengths(data: bytes | memoryview, at: int) -> int:
    """Where the record ends by its three lengths; 0 when they lead out of the data."""
    if len(data) - at < MIN_RECORD_SIZE:
        return 0
    body_at = at + head_struct(data[at + _SYS_FLAG_AT]).size
    if body_at > len(data):
        return 0
    body_size: int = _BODY_SIZE.unpack_from(data, body_at - _BODY_SIZE.size)[0]
    topic_at = body_at + body_size
    if body_size < 0 or topic_at >= len(data):
        return 0
    properties_at = topic_at + 3 + data[topic_at]
    if properties_at > len(data):
        return 0
    return properties_at + int.from_bytes(data[properties_at - 2 : properties_at], "big")


def _whole(data: bytes, at: int) -> int:
    """Size of the record whose lengths are right there, 0 for none."""
    try:
        return decode_record(data, at).store_size
    except RecordError:
        return 0


def _whole_up_to_the_end(data: bytes, at: int, in_vain: set[int]) -> bool:
    """``in_vain``: places from which the end was not reached; so each record is looked at once."""
    while at < len(data) and at not in in_vain and (size := _whole(data, at)):
        in_vain.add(at)
        at += size
    return at == len(data)
