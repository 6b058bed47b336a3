"""Offsets of queues and of consumer groups (``headers.md`` §A.4 to §A.6, parts B, C and E)."""

from __future__ import annotations

from ..bodies.consumer_offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    QueryCorrectionOffsetBody,
    QueueEndTable,
)
from ..bodies.reset import GetConsumerStatusBody, ResetOffsetBody
from ..bodies.stats import QueryConsumeTimeSpanBody
from ..codes import RequestCode
from ..wire import EmptyFields, NoFields, Record, i32, i64
from .base import Command, OffsetResponse, RpcRequest
from .topic import KnownTableRequest


class QueryConsumerOffsetRequest(RpcRequest, frozen=True, kw_only=True):
    """Where a group stands in a queue (code 14). No answer is code 22."""

    consumer_group: str
    topic: str
    queue_id: i32
    set_zero_if_not_found: bool | None = None
    """From 5.x: ``False`` asks for code 22 where the original of 4.9 would answer 0."""


class UpdateConsumerOffsetRequest(RpcRequest, frozen=True, kw_only=True):
    """A group got this far (code 15); it may also go backwards."""

    consumer_group: str
    topic: str
    queue_id: i32
    commit_offset: i64


class QueueRequest(RpcRequest, frozen=True, kw_only=True):
    """One queue: classes GetMaxOffsetRequestHeader, GetMinOffsetRequestHeader,
    GetEarliestMsgStoretimeRequestHeader."""

    topic: str
    queue_id: i32


class SearchOffsetRequest(RpcRequest, frozen=True, kw_only=True):
    """The offset at a point in time (code 29)."""

    topic: str
    queue_id: i32
    timestamp: i64


class GetEarliestMsgStoretimeResponse(Record, frozen=True, kw_only=True):
    """Milliseconds since 1970, -1 for an empty or unknown queue (code 32)."""

    timestamp: i64


class CloneGroupOffsetRequest(Record, frozen=True, kw_only=True):
    """Copy the offsets of one group to another (code 314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffsetRequest(Record, frozen=True, kw_only=True):
    """Compare the offsets of groups (code 308, class QueryCorrectionOffsetHeader)."""

    topic: str
    compare_group: str
    filter_groups: str | None = None
    """Group names separated by commas."""


class ResetOffsetRequest(Record, frozen=True, kw_only=True):
    """Move a group to a point in time (222 to the broker, 220 from the broker to its consumers)."""

    topic: str
    group: str
    timestamp: i64
    """-1: to the end."""
    is_force: bool = False
    """Also forwards; without it offsets only go back."""


class GetConsumerStatusRequest(Record, frozen=True, kw_only=True):
    """Offsets as the consumers themselves know them (223 to the broker, 221 from the broker to its
    consumers)."""

    topic: str
    group: str
    client_addr: str | None = None
    """Despite its name a client *id*; absent: all clients of the group."""


class QueryConsumeTimeSpanRequest(Record, frozen=True, kw_only=True):
    """Store times of first, last and next message per queue (code 303)."""

    topic: str
    group: str


class AllOffsetsResponse(Record, frozen=True, kw_only=True):
    """Offsets of all groups (code 43; the original's has no fields). Only to who tells what it
    ``known``."""

    state: str | None = None
    """What the receiver knows now."""
    since: str | None = None
    """The body has what has changed since this state, by topic and group; absent: all."""


class QueueEndsRequest(Record, frozen=True, kw_only=True):
    """Ours (9200): a replica does not have the numbers of queues of which its log has nothing. A
    broker that does not know the code (the original) answers 3."""

    begin: i64
    """Where that log begins (a phy_offset): of queues with messages there or behind, the log
    tells."""


_QUEUE_OFFSET = Command(QueueRequest, OffsetResponse)

COMMANDS = {
    RequestCode.QUERY_CONSUMER_OFFSET: Command(QueryConsumerOffsetRequest, OffsetResponse),
    RequestCode.UPDATE_CONSUMER_OFFSET: Command(UpdateConsumerOffsetRequest, EmptyFields),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Command(SearchOffsetRequest, OffsetResponse),
    RequestCode.GET_MAX_OFFSET: _QUEUE_OFFSET,
    RequestCode.GET_MIN_OFFSET: _QUEUE_OFFSET,
    RequestCode.GET_EARLIEST_MSG_STORETIME: Command(QueueRequest, GetEarliestMsgStoretimeResponse),
    RequestCode.GET_ALL_CONSUMER_OFFSET: Command(
        KnownTableRequest, AllOffsetsResponse, response_body=ConsumerOffsetTable
    ),
    RequestCode.GET_QUEUE_ENDS: Command(QueueEndsRequest, NoFields, response_body=QueueEndTable),
    RequestCode.GET_ALL_DELAY_OFFSET: Command(NoFields, NoFields, response_body=DelayOffsetTable),
    RequestCode.CLONE_GROUP_OFFSET: Command(CloneGroupOffsetRequest, NoFields),
    RequestCode.QUERY_CORRECTION_OFFSET: Command(
        QueryCorrectionOffsetRequest, NoFields, response_body=QueryCorrectionOffsetBody
    ),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: Command(
        ResetOffsetRequest, NoFields, request_body=ResetOffsetBody
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Command(
        ResetOffsetRequest, NoFields, response_body=ResetOffsetBody
    ),
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: Command(
        GetConsumerStatusRequest, NoFields, response_body=GetConsumerStatusBody
    ),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Command(
        GetConsumerStatusRequest, NoFields, response_body=GetConsumerStatusBody
    ),
    RequestCode.QUERY_CONSUME_TIME_SPAN: Command(
        QueryConsumeTimeSpanRequest, NoFields, response_body=QueryConsumeTimeSpanBody
    ),
}
