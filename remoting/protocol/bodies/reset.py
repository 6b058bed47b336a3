"""Offsets of queues on their way to and from consumers (``headers.md`` §B.7, §B.8, §A.3).

Classes of the original: ResetOffsetBody, ResetOffsetBodyForC, GetConsumerStatusBody,
OffsetMovedEvent.
"""

from __future__ import annotations

from msgspec import field

from ..message.message_queue import MessageQueue
from ..wire import Record, i32, i64


class ResetOffsetBody(Record, frozen=True, kw_only=True):
    """Where each queue shall continue. The keys of the table are objects, so this is no standard
    JSON."""

    offset_table: dict[MessageQueue, i64] = field(default_factory=dict)


class MessageQueueForC(Record, frozen=True, kw_only=True):
    """An entry of the table for those who cannot read object keys."""

    topic: str
    broker_name: str
    queue_id: i32
    offset: i64


class ResetOffsetBodyForC(Record, frozen=True, kw_only=True):
    """The same for a group whose reset was asked for by a client of language CPP."""

    offset_table: list[MessageQueueForC] = field(default_factory=list)


class GetConsumerStatusBody(Record, frozen=True, kw_only=True):
    """Offsets as consumers know them: from one client the second table, from a broker the first, by
    client id."""

    consumer_table: dict[str, dict[MessageQueue, i64]] = field(default_factory=dict)
    message_queue_table: dict[MessageQueue, i64] = field(default_factory=dict)


class OffsetMovedEvent(Record, frozen=True, kw_only=True):
    """The body of a message in OFFSET_MOVED_EVENT: a consumer asked for an offset that is not
    there."""

    consumer_group: str
    message_queue: MessageQueue
    offset_request: i64
    offset_new: i64
