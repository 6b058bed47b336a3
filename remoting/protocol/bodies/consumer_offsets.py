"""Offsets of groups: ``consumerOffset.json``, ``lmqConsumerOffset.json``, ``delayOffset.json``, the
``offsets.json`` on the disk of a broadcasting consumer, the replies of codes 43, 45 and 308; where
queues end (9200).

Classes of the original: ConsumerOffsetSerializeWrapper, LmqConsumerOffsetManager,
DelayOffsetSerializeWrapper, OffsetSerializeWrapper, QueryCorrectionOffsetBody.
"""

from __future__ import annotations

from msgspec import field

from ..wire import Record, i32, i64


class ConsumerOffsetTable(Record, frozen=True, kw_only=True):
    """``topic@group`` to queue id to the next offset to consume."""

    offset_table: dict[str, dict[i32, i64]] = field(default_factory=dict)


class LmqConsumerOffsetTable(ConsumerOffsetTable, frozen=True, kw_only=True):
    """The same with the offsets of light groups, ``%LMQ%x@%LMQ%g`` to offset."""

    lmq_offset_table: dict[str, i64] = field(default_factory=dict)


class DelayOffsetTable(Record, frozen=True, kw_only=True):
    """Delay level to the next offset in its queue of SCHEDULE_TOPIC_XXXX."""

    offset_table: dict[i32, i64] = field(default_factory=dict)


class QueueEndTable(Record, frozen=True, kw_only=True):
    """Topic to queue id to the number that the next message gets (ours)."""

    end_table: dict[str, dict[i32, i64]] = field(default_factory=dict)


class QueryCorrectionOffsetBody(Record, frozen=True, kw_only=True):
    """Queue id to offset; 2^63-1 where no other group stands further back."""

    correction_offsets: dict[i32, i64] = field(default_factory=dict)
