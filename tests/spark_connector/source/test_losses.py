"""What a query tells of what it cannot read any more, and what it remembers of that."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.source.losses import Losses
from aiorocketmq.spark_connector.source.stream_offsets import StreamOffsets

from ..simulated_cluster import SimClock, SimCluster
from .queries import options, query, stream_offsets

ONE = MessageQueue("t", "a", 0)
LENIENT = {"failOnDataLoss": "false"}


def size_of(thing: Any, seen: set[int]) -> int:
    """Things of this package, and what is in their collections."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    inside: Iterable[Any] = ()
    if isinstance(thing, dict):
        inside = (*thing.keys(), *thing.values())
    elif isinstance(thing, (set, frozenset, list, tuple)):
        inside = thing
    elif type(thing).__module__.startswith("aiorocketmq.spark_connector"):
        inside = vars(thing).values() if hasattr(thing, "__dict__") else ()
    return sys.getsizeof(thing) + sum(size_of(each, seen) for each in inside)


def remembered(offsets: StreamOffsets) -> int:
    return size_of(offsets, set())


def test_what_the_trigger_before_told_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses(options(**LENIENT))
    with caplog.at_level(logging.WARNING):
        for found in (["x"], ["x", "y"], ["y"], [], ["y"]):
            losses.next_trigger()
            for what in found:
                losses.found(what, messages=5)
    told = [each.getMessage().partition(" ")[0] for each in caplog.records]
    assert told == ["x", "y", "y"]
    assert (losses.times, losses.messages) == (3, 15)


def test_a_query_that_loses_something_for_months_does_not_grow(clock: SimClock) -> None:
    cluster = SimCluster()
    queue = cluster.add(ONE, 0, 100)
    offsets = stream_offsets(cluster, clock, **LENIENT)
    end = offsets.latest(offsets.initial())
    sizes = []
    for _ in range(300):
        queue.first, queue.end = queue.end + 7, queue.end + 10
        end = offsets.latest(end)
        sizes.append(remembered(offsets))
    assert (seen := offsets.seen()) is not None
    assert (seen.losses, seen.lost_messages) == (300, 2100)
    assert sizes[-1] - sizes[100] < 1000


@pytest.mark.parametrize("is_pattern", [True, False], ids=["topics", "brokers"])
def test_a_query_whose_queues_come_and_go_does_not_grow(clock: SimClock, is_pattern: bool) -> None:
    """Topics of a pattern that are made for a day; brokers that take each other's place."""
    cluster = SimCluster()
    cluster.add(ONE, 0, 100)
    given = {"subscribePattern": "t.*"} if is_pattern else {"expectedBrokers": "a"}
    offsets = stream_offsets(
        cluster, clock, commitOffsetsToGroup="true", consumerGroup="g", **given, **LENIENT
    )
    end = offsets.latest(offsets.initial())
    sizes = []
    for day in range(300):
        its = MessageQueue(f"t{day}", "a", 0) if is_pattern else MessageQueue("t", f"b{day}", 0)
        cluster.add(its, 3, 10)
        for _ in range(3):
            clock.sleep(10)
            end = offsets.latest(end)
        assert end.offsets == {ONE: 100, its: 10}
        del cluster.queues_[its]
        for _ in range(2):
            clock.sleep(10)
            end = offsets.latest(end)
        assert end.offsets == {ONE: 100}
        sizes.append(remembered(offsets))
    assert sizes[-1] - sizes[100] < 1000


def test_a_queue_that_grows_towards_where_it_is_to_be_read_is_one_loss(
    clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = SimCluster()
    queue = cluster.add(ONE, 0, 900)
    offsets = query(cluster, clock, startingOffsets='{"t": {"a": {"0": 1000}}}', **LENIENT)
    end = offsets.initial()
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            queue.end += 1
            end = offsets.latest(end)
    assert "t/a/0 ends at 901, but was read up to 1000" in caplog.text
    assert caplog.text.count("was read up to 1000") == 1
    assert (seen := offsets.seen()) is not None
    assert seen.losses == 1
