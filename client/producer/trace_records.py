"""What a message trace says, and how (client.md §7.2; classes TraceDataEncoder, TraceBean). Pure.

A trace message holds records, one after the other; fields are separated by 0x01, each record ends
with 0x02::

    Pub             type time region group topic msgId tags keys storeHost bodyLength cost msgType
                    offsetMsgId success
    SubBefore       type time region group requestId msgId retryTimes keys
    SubAfter        type requestId msgId cost success keys contextCode time group
    EndTransaction  type time region group topic msgId tags keys storeHost msgType transactionId
                    state fromCheck

Times and costs are ms. What is not there is the text ``null``; booleans are ``true`` and ``false``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from .hooks import MessageKind

__all__ = [
    "ConsumeOutcome",
    "Consumed",
    "Consuming",
    "Published",
    "TraceRecord",
    "TransactionEnded",
    "decode_trace",
    "encode_trace",
    "text_for_cloud",
]

FIELD: Final = "\x01"
END: Final = "\x02"


class ConsumeOutcome(Enum):
    """How a handler ended (ConsumeReturnType)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


class Published(NamedTuple):
    """A message was sent."""

    time_ms: int
    region: str
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: str | None
    store_host: str
    body_length: int
    cost_ms: int
    kind: MessageKind
    offset_msg_id: str
    success: bool
    client_host: str | None = None
    """Only in what newer clients write."""

    def encode(self) -> str:
        return _record("Pub", *self[:-1])


class Consuming(NamedTuple):
    """A message is about to be given to a handler."""

    time_ms: int
    region: str
    group: str
    request_id: str
    """The same for all messages of one call."""
    msg_id: str
    retry_times: int
    keys: str | None

    def encode(self) -> str:
        return _record("SubBefore", *self)


class Consumed(NamedTuple):
    """A handler has ended."""

    request_id: str
    msg_id: str
    cost_ms: int
    success: bool
    keys: str | None
    outcome: ConsumeOutcome
    time_ms: int = 0
    group: str | None = None

    def encode(self) -> str:
        return _record("SubAfter", *self)


class TransactionEnded(NamedTuple):
    """A producer told a broker how a transaction ended."""

    time_ms: int
    region: str
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: str | None
    store_host: str
    kind: MessageKind
    transaction_id: str | None
    state: str
    """``COMMIT_MESSAGE``, ``ROLLBACK_MESSAGE`` or ``UNKNOW``, as the original spells it."""
    from_check: bool

    def encode(self) -> str:
        return _record("EndTransaction", *self)


TraceRecord = Published | Consuming | Consumed | TransactionEnded


def encode_trace(records: Iterable[TraceRecord]) -> str:
    """The body of a trace message."""
    return "".join(record.encode() for record in records)


def text_for_cloud(record: TraceRecord) -> str:
    """As with ``accessChannel=CLOUD``: the end of consumption has no time and no group, and a 0x01
    ends it, nothing else."""
    if isinstance(record, Consumed):
        return _record("SubAfter", *record[:6]).removesuffix(END) + FIELD
    return record.encode()


def decode_trace(text: str) -> list[TraceRecord]:
    """The records of a trace message, those of older and newer clients too. One that cannot be read
    is left out."""
    found = []
    for line in text.split(END):
        try:
            record = _read(line.split(FIELD))
        except (ValueError, IndexError):
            continue
        if record is not None:
            found.append(record)
    return found


def _read(fields: list[str]) -> TraceRecord | None:
    values = [None if field == "null" else field for field in fields[1:]]
    text = [value or "" for value in values]
    match fields[0]:
        case "Pub":  # 13 fields without offsetMsgId, 14, 15 with the host of the client
            older = len(fields) == 13
            return Published(
                int(text[0]), text[1], text[2], text[3], text[4], values[5], values[6], text[7],
                int(text[8]), int(text[9]),
                MessageKind(int(text[10])), "" if older else text[11],
                text[11 if older else 12] == "true",
                text[13] if len(fields) > 14 else None,
            )  # fmt: skip
        case "SubBefore":
            return Consuming(
                int(text[0]), text[1], text[2], text[3], text[4], int(text[5]), values[6]
            )
        case "SubAfter":  # 6 fields without contextCode, 7, 9 with time and group
            outcome = ConsumeOutcome(int(text[5])) if len(fields) >= 7 else ConsumeOutcome.SUCCESS
            late = (int(text[6]), values[7]) if len(fields) >= 9 else (0, None)
            return Consumed(
                text[0], text[1], int(text[2]), text[3] == "true", values[4], outcome, *late
            )
        case "EndTransaction":
            return TransactionEnded(
                int(text[0]), text[1], text[2], text[3], text[4], values[5], values[6], text[7],
                MessageKind(int(text[8])), values[9], text[10], text[11] == "true",
            )  # fmt: skip
        case _:
            return None


def _record(kind: str, *fields: str | int | bool | Enum | None) -> str:
    return FIELD.join([kind, *map(_text, fields)]) + END


def _text(value: str | int | bool | Enum | None) -> str:
    if value is None or value == "":
        return "null" if value is None else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    return str(value)
