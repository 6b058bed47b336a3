"""What goes on inside a consumer (``headers.md`` §B.9, §B.10).

Classes of the original: ConsumerRunningInfo, ProcessQueueInfo, ConsumeStatus,
ConsumeMessageDirectlyResult, CMResult.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import field

from ..message.message_queue import MessageQueue
from ..wire import Record, i32, i64
from .heartbeat import SubscriptionData


class RunningProperty:
    """Names in ``ConsumerRunningInfo.properties``; mqadmin needs the consume type and the start
    timestamp."""

    NAMESERVER_ADDR: Final = "PROP_NAMESERVER_ADDR"
    THREADPOOL_CORE_SIZE: Final = "PROP_THREADPOOL_CORE_SIZE"
    CONSUME_ORDERLY: Final = "PROP_CONSUMEORDERLY"
    CONSUME_TYPE: Final = "PROP_CONSUME_TYPE"
    CLIENT_VERSION: Final = "PROP_CLIENT_VERSION"
    CONSUMER_START_TIMESTAMP: Final = "PROP_CONSUMER_START_TIMESTAMP"


class ProcessQueueInfo(Record, frozen=True, kw_only=True):
    """One queue that the consumer works on. Timestamps in ms."""

    commit_offset: i64 = 0
    cached_msg_min_offset: i64 = 0
    cached_msg_max_offset: i64 = 0
    cached_msg_count: i32 = 0
    cached_msg_size_mib: i32 = field(name="cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: i64 = 0
    transaction_msg_max_offset: i64 = 0
    transaction_msg_count: i32 = 0
    locked: bool = False
    try_unlock_times: i64 = 0
    last_lock_timestamp: i64 = 0
    dropped: bool = field(name="droped", default=False)
    """Misspelt on the wire."""
    last_pull_timestamp: i64 = 0
    last_consume_timestamp: i64 = 0


class ConsumeStatus(Record, frozen=True, kw_only=True):
    """Rates of one topic: round trips in ms, the others per second; ``consume_failed_msgs`` counts
    the last hour."""

    pull_rt: float = field(name="pullRT", default=0.0)
    pull_tps: float = field(name="pullTPS", default=0.0)
    consume_rt: float = field(name="consumeRT", default=0.0)
    consume_ok_tps: float = field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = field(name="consumeFailedTPS", default=0.0)
    consume_failed_msgs: i64 = 0


class ConsumerRunningInfo(Record, frozen=True, kw_only=True):
    """The reply of a consumer to code 307."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: tuple[SubscriptionData, ...] = ()
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    jstack: str | None = None
    """What its threads (or tasks) are doing, when asked for."""


class CMResult(StrEnum):
    """How a message went that was consumed directly."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Record, frozen=True, kw_only=True):
    """The reply of a consumer to code 309."""

    order: bool = False
    auto_commit: bool = True
    consume_result: CMResult | None = None
    remark: str | None = None
    spent_time_mills: i64 = 0
