"""Ranges to tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.source.planner import QueueRange, plan, ranges_between

RANGES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 1000), st.integers(1, 1000)),
    max_size=10,
    unique_by=lambda each: each[0],
).map(
    lambda found: [
        QueueRange("t", "ab"[number % 2], number, begin, begin + size)
        for number, begin, size in found
    ]
)
LIMIT = st.none() | st.integers(1, 40)


@given(RANGES, LIMIT, LIMIT, LIMIT)
def test_every_offset_is_read_once(
    ranges: list[QueueRange], at_least: int | None, longest: int | None, at_most: int | None
) -> None:
    tasks = plan(
        ranges, min_partitions=at_least, max_records_per_partition=longest, max_partitions=at_most
    )
    read = sorted(
        (each.queue, offset) for task in tasks for each in task for offset in range(*each[3:])
    )
    assert read == sorted((each.queue, offset) for each in ranges for offset in range(*each[3:]))
    assert all(task and list(task) == sorted(task) for task in tasks)
    assert tasks == plan(
        ranges[::-1],
        min_partitions=at_least,
        max_records_per_partition=longest,
        max_partitions=at_most,
    ), "a replay must be planned as the first time"
    if at_most is not None:
        assert len(tasks) <= at_most
    if longest is not None:
        assert all(each.size <= longest for task in tasks for each in task)


def test_large_queues_are_split() -> None:
    ranges = [QueueRange("t", "a", 0, 0, 900), QueueRange("t", "a", 1, 50, 150)]
    tasks = plan(ranges, min_partitions=10)
    assert [task[0].size for task in tasks] == [100] * 10
    assert plan(ranges, min_partitions=2) == [(ranges[0],), (ranges[1],)]


def test_many_queues_are_gathered_evenly() -> None:
    ranges = [
        QueueRange("t", "a", number, 0, size) for number, size in enumerate((10, 200, 90, 100))
    ]
    tasks = plan(ranges, max_partitions=2)
    assert sorted(sum(each.size for each in task) for task in tasks) == [200, 200]


def test_few_messages_of_many_queues_are_one_task() -> None:
    few = [QueueRange("t", "a", number, 0, 250) for number in range(8)]
    assert plan(few) == [tuple(few)]
    many = [QueueRange("t", "a", number, 0, 5000) for number in range(3)]
    assert plan(many) == [(each,) for each in many]
    assert len(plan(few, min_partitions=8)) == 8
    assert len(plan(few, max_records_per_partition=250)) == 8


def test_a_queue_that_was_found_later_begins_at_0() -> None:
    one, two, gone = (MessageQueue("t", "a", number) for number in range(3))
    start, end = {one: 5, gone: 7}, {one: 5, two: 3}
    assert ranges_between(start, end) == [QueueRange("t", "a", 1, 0, 3)]
    assert ranges_between({one: 9}, {one: 4}) == []
