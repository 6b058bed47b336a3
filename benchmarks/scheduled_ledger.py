"""What became of delayed messages: read from the store directory of a broker that is stopped, and
from what a consumer got.

Body of a message: number (8), delay level (4), when it was sent (8, ms), big-endian.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.store.inspect import StoreDirectory
from aiorocketmq.store.log.log_reader import LogReader, LogRecord
from aiorocketmq.store.queues.consume_queue import CQ_UNIT

BODY: Final = struct.Struct(">qiq")


class Received(NamedTuple):
    """One message as the consumer got it."""

    number: int
    level: int
    sent_at: int
    received_at: int


class Delivered(NamedTuple):
    """One message as the broker delivered it, in the order of the commit log."""

    number: int
    level: int
    stored_at: int


class Stored(NamedTuple):
    """All that a store says."""

    delivered: list[Delivered]
    due: dict[int, int]
    """Number to the time of delivery."""
    order: dict[int, list[int]]
    """Level to its messages in the order in which they were accepted."""


def read_store(root: Path, topic: str) -> Stored:
    """Blocks."""
    directory = StoreDirectory(root)
    times = {
        phy_offset: deliver_at
        for queue in directory.queue_readers()
        if queue.topic == TopicName.SCHEDULE
        for phy_offset, _, deliver_at in map(
            CQ_UNIT.unpack, map(queue.unit, range(queue.first, queue.end))
        )
    }
    stored = Stored([], {}, {})
    records = (
        each.message()
        for each in LogReader(directory.log_files()).read()
        if isinstance(each, LogRecord)
    )
    for message in records:
        if message.topic == TopicName.SCHEDULE:
            number, level, _ = BODY.unpack(message.stored_body)
            stored.due[number] = times.get(message.commit_log_offset, 0)
            stored.order.setdefault(level, []).append(number)
        elif message.topic == topic:
            number, level, _ = BODY.unpack(message.stored_body)
            stored.delivered.append(Delivered(number, level, message.store_timestamp))
    return stored


def received(messages: Iterable[MessageExt], now_ms: int) -> list[Received]:
    found = [BODY.unpack(message.stored_body) for message in messages]
    return [Received(number, level, sent_ms, now_ms) for number, level, sent_ms in found]


class Verdict(NamedTuple):
    """What there is to say; ``late`` in ms, sorted."""

    acknowledged: int
    delivered: int
    lost: int
    repeated: int
    early: int
    out_of_order: int
    not_received: int
    late: list[int]
    late_at_consumer: list[int]

    def lateness(self, share: float) -> tuple[int, int]:
        """In the broker and at the consumer, of that share of all messages."""
        return _quantile(self.late, share), _quantile(self.late_at_consumer, share)


def judge(
    acknowledged: set[int], stored: Stored, got: list[Received], delays_ms: tuple[int, ...]
) -> Verdict:
    """Hold what was promised against what was delivered and received."""
    counts = Counter(each.number for each in stored.delivered)
    late = sorted(each.stored_at - stored.due[each.number] for each in stored.delivered)
    late_at_consumer = sorted(
        each.received_at - each.sent_at - delays_ms[each.level - 1] for each in got
    )
    return Verdict(
        acknowledged=len(acknowledged),
        delivered=len(counts),
        lost=len(acknowledged - counts.keys()),
        repeated=sum(counts.values()) - len(counts),
        early=sum(1 for each in late if each < 0) + sum(1 for each in late_at_consumer if each < 0),
        out_of_order=_out_of_order(stored),
        not_received=len(acknowledged - {each.number for each in got}),
        late=late,
        late_at_consumer=late_at_consumer,
    )


def _out_of_order(stored: Stored) -> int:
    """Messages that came after one that was accepted later in the same level; what is repeated
    begins anew."""
    position = {
        number: at for numbers in stored.order.values() for at, number in enumerate(numbers)
    }
    last: dict[int, int] = {}
    seen: set[int] = set()
    wrong = 0
    for each in stored.delivered:
        at = position[each.number]
        if at != last.get(each.level, -1) + 1 and each.number not in seen:
            wrong += 1
        seen.add(each.number)
        last[each.level] = at
    return wrong


def _quantile(values: list[int], share: float) -> int:
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0
