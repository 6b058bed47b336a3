"""Reading messages: pull, query by key, look at one record (``headers.md`` §A.3, §A.9, §A.10).

Classes of the original: PullMessageRequestHeader, PullMessageResponseHeader, PullSysFlag,
QueryMessageRequestHeader, QueryMessageResponseHeader, ViewMessageRequestHeader.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from ..codes import RequestCode
from ..wire import Record, i32, i64
from .base import Command


class PullSysFlag:
    """Bits of ``PullMessageRequest.sys_flag``."""

    COMMIT_OFFSET = 1
    """Commit ``commit_offset`` for the group on the way."""
    SUSPEND = 2
    """The broker may hold the request until a message arrives (long polling)."""
    SUBSCRIPTION = 4
    """Use the subscription in the request, not the one from the heartbeat."""
    CLASS_FILTER = 8
    """Obsolete: filter servers."""
    LITE_PULL = 16
    """Comes from a lite pull consumer; brokers of 4.9 ignore it."""


class PullMessageRequest(Record, frozen=True, kw_only=True):
    """Give me messages of one queue (code 11, and 361 from lite pull consumers of 5.x). ``bname``
    as in RpcRequest."""

    consumer_group: str
    topic: str
    queue_id: i32
    queue_offset: i64
    max_msg_nums: i32
    sys_flag: i32
    commit_offset: i64
    suspend_timeout_millis: i64
    subscription: str | None = None
    sub_version: i64
    expression_type: str | None = None
    """``TAG`` (also when absent or empty) or ``SQL92``."""
    bname: str | None = None
    max_msg_bytes: i32 | None = None
    """Bytes that the answer may have (the field of 5.x). Ours: who says it may get more messages
    than ``maxTransferCountOnMessageInMemory`` or ``...InDisk``; brokers of 4.9 do not look at
    it."""


class PullMessageResponse(Record, frozen=True, kw_only=True):
    """Always complete with the codes 0, 19, 20 and 21: clients read all four. Earlier refusals
    carry ``EmptyFields``."""

    suggest_which_broker_id: i64
    next_begin_offset: i64
    min_offset: i64
    max_offset: i64
    damaged_msg_nums: i32 | None = None
    """Ours: so many messages were left out because their records are damaged; another replica may
    have them."""


class QueryMessageRequest(Record, frozen=True, kw_only=True):
    """Messages by key, from the index (code 12)."""

    topic: str
    key: str
    max_num: i32
    begin_timestamp: i64
    end_timestamp: i64
    unique_key_query: bool | None = field(name="_UNIQUE_KEY_QUERY", default=None)
    """``key`` is a UNIQ_KEY. Added by the client beside its header class; no part of an ACL
    signature at the broker."""


class QueryMessageResponse(Record, frozen=True, kw_only=True):
    """How far the index reaches; with code 22 both are 0."""

    index_last_update_timestamp: i64
    index_last_update_phyoffset: i64


NO_RECORD: Final = "can not find message by the offset"
"""How the remark begins that answers code 33 where no record is, with code 1 as after any failure;
of the original, too."""


class ViewMessageRequest(Record, frozen=True, kw_only=True):
    """One record by its position (code 33)."""

    offset: i64
    """Bytes in the commit log (a phy_offset)."""
    tables: bool | None = None
    """Only ours, of a slave that asks for its last record: whether the master's tables have changed
    is to be told as well; others read over this."""


class ViewMessageResponse(Record, frozen=True, kw_only=True):
    """One record (code 33; the original's has no fields)."""

    tables: str | None = None
    """Only to who asks for ``tables``: another word when topics, groups or offsets have changed.
    Absent: they have to be asked for."""
    log_end: i64 | None = None
    """Likewise: where the commit log ends (a phy_offset)."""


_PULL = Command(PullMessageRequest, PullMessageResponse, response_body=bytes)

COMMANDS = {
    RequestCode.PULL_MESSAGE: _PULL,
    RequestCode.LITE_PULL_MESSAGE: _PULL,
    RequestCode.QUERY_MESSAGE: Command(
        QueryMessageRequest, QueryMessageResponse, response_body=bytes
    ),
    RequestCode.VIEW_MESSAGE_BY_ID: Command(
        ViewMessageRequest, ViewMessageResponse, response_body=bytes
    ),
}
