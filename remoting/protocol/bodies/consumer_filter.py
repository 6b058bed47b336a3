"""Compiled filters of consumer groups as a broker keeps them: ``consumerFilter.json``
(``commitlog.md`` §15).

Classes of the original: ConsumerFilterManager, FilterDataMapByTopic, ConsumerFilterData,
BloomFilterData.
"""

from __future__ import annotations

from msgspec import field

from ..wire import Record, i32, i64


class BloomFilterData(Record, frozen=True, kw_only=True):
    """The bits of one expression in the bloom filter of a message."""

    bit_num: i32 = 0
    """Size of the filter; every position is below it."""
    bit_pos: tuple[i32, ...] = ()


class ConsumerFilterData(Record, frozen=True, kw_only=True):
    """The expression of one group for one topic."""

    consumer_group: str
    topic: str
    expression: str | None = None
    expression_type: str | None = None
    bloom_filter_data: BloomFilterData | None = None
    born_time: i64 = 0
    client_version: i64 = 0
    dead: bool = False
    """Derived by the original from ``dead_time`` when it writes; without meaning when read."""
    dead_time: i64 = 0


class TopicFilterData(Record, frozen=True, kw_only=True):
    """The filters of all groups for one topic (class FilterDataMapByTopic)."""

    topic: str | None = None
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)


class ConsumerFilterTable(Record, frozen=True, kw_only=True):
    """All filters of a broker by topic."""

    filter_data_by_topic: dict[str, TopicFilterData] = field(default_factory=dict)
