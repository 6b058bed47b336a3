"""Statistics of a broker (``headers.md`` part C).

Classes of the original: TopicStatsTable, TopicOffset, ConsumeStats, OffsetWrapper,
ConsumeStatsList, BrokerStatsData, BrokerStatsItem, QueryConsumeTimeSpanBody, QueueTimeSpan,
QueryConsumeQueueResponseBody, ConsumeQueueData.
"""

from __future__ import annotations

from msgspec import field

from ..message.message_queue import MessageQueue
from ..wire import Record, i32, i64
from .heartbeat import SubscriptionData


class TopicOffset(Record, frozen=True, kw_only=True):
    """First and next offset of a queue, and when it was last written (ms, 0: never)."""

    min_offset: i64 = 0
    max_offset: i64 = 0
    last_update_timestamp: i64 = 0


class TopicStatsTable(Record, frozen=True, kw_only=True):
    """One entry per write queue of a topic (code 202)."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)


class OffsetWrapper(Record, frozen=True, kw_only=True):
    """Where a queue ends, where the group stands, and when its last consumed message was stored
    (ms)."""

    broker_offset: i64 = 0
    consumer_offset: i64 = 0
    last_timestamp: i64 = 0


class ConsumeStats(Record, frozen=True, kw_only=True):
    """How far a group is behind (code 208)."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0

    @property
    def total_diff(self) -> int:
        """Messages that the group has not consumed yet."""
        return sum(
            wrapper.broker_offset - wrapper.consumer_offset
            for wrapper in self.offset_table.values()
        )


class ConsumeStatsList(Record, frozen=True, kw_only=True):
    """The same for all groups of a broker (code 317)."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: i64 = 0


class BrokerStatsItem(Record, frozen=True, kw_only=True):
    """A counter over a span of time: its sum, sum per second, average per call."""

    sum: i64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Record, frozen=True, kw_only=True):
    """One statistic over the last minute, hour and day (code 315)."""

    stats_minute: BrokerStatsItem = BrokerStatsItem()
    stats_hour: BrokerStatsItem = BrokerStatsItem()
    stats_day: BrokerStatsItem = BrokerStatsItem()


class QueueTimeSpan(Record, frozen=True, kw_only=True):
    """Store times of a queue in ms, each also as local time ``1970-01-01#00:00:00:000``."""

    message_queue: MessageQueue
    min_time_stamp: i64 = 0
    max_time_stamp: i64 = 0
    consume_time_stamp: i64 = 0
    delay_time: i64 = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


class QueryConsumeTimeSpanBody(Record, frozen=True, kw_only=True):
    """The reply to code 303."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class ConsumeQueueData(Record, frozen=True, kw_only=True):
    """One entry of a consume queue, and whether the group's filter takes it."""

    physic_offset: i64 = 0
    physic_size: i32 = 0
    tags_code: i64 = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueBody(Record, frozen=True, kw_only=True):
    """The reply to code 321 (class QueryConsumeQueueResponseBody)."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    max_queue_index: i64 = 0
    min_queue_index: i64 = 0
