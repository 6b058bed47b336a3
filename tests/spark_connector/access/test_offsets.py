"""Offsets: JSON, and what one trigger takes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access.offsets import (
    Offsets,
    QueueValue,
    backlog,
    behind,
    clamp,
    from_json,
    parse_assignment,
    parse_queue_values,
    rate_limited,
    resolve,
    to_json,
)

QUEUES = st.builds(MessageQueue, st.sampled_from("tu%"), st.sampled_from("ab"), st.integers(0, 20))
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 2**63 - 1))
SMALL = st.dictionaries(QUEUES, st.integers(0, 1000), max_size=12)


@given(OFFSETS)
def test_json_and_back(offsets: Offsets) -> None:
    text = json.dumps(to_json(offsets))
    assert from_json(json.loads(text)) == offsets
    assert json.dumps(to_json(dict(reversed(offsets.items())))) == text, "Spark compares texts"


@pytest.mark.parametrize(
    "bad",
    [
        [], {"t": 5}, {"t": {"0": 5}}, {"t": {"b": {"0": -1}}}, {"t": {"b": {"0": True}}}, None,
        {"t": {"b": {"--5": 1}}}, {"t": {"b": {"9" * 5000: 1}}},
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_of_ours_is_refused(bad: object) -> None:
    with pytest.raises(ConfigError):
        from_json(bad)


def test_brokers_may_be_left_out_where_only_one_has_the_topic() -> None:
    values = parse_queue_values(
        "startingOffsets", '{"t": {"1": 23, "0": -2}, "u": {"b": {"0": -1}}}'
    )
    assert values == (
        QueueValue("t", None, 1, 23),
        QueueValue("t", None, 0, -2),
        QueueValue("u", "b", 0, -1),
    )
    queues = [
        MessageQueue("t", "a", 0),
        MessageQueue("t", "a", 1),
        MessageQueue("u", "a", 0),
        MessageQueue("u", "b", 0),
    ]
    assert resolve("x", values, queues) == {queues[0]: -2, queues[1]: 23, queues[3]: -1}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (QueueValue("u", None, 0, 1), 'several brokers have the topic u, name them: {"u": {"a"'),
        (
            QueueValue("t", None, 7, 1),
            "the queue t/a/7 is not among those that are read: t/a/0, u/a/0, u/b/0",
        ),
        (QueueValue("none", None, 0, 1), "the queue none/[?]/0 is not among"),
    ],
)
def test_queues_that_are_not_there_are_named(value: QueueValue, said: str) -> None:
    queues = [MessageQueue("t", "a", 0), MessageQueue("u", "a", 0), MessageQueue("u", "b", 0)]
    with pytest.raises(ConfigError, match=said.replace("{", r"\{")):
        resolve("startingOffsets", [value], queues)


@pytest.mark.parametrize("parse", [parse_queue_values, parse_assignment])
def test_a_name_that_stands_twice_side_by_side_hides_nothing(
    parse: Callable[[str, str], object],
) -> None:
    """JSON takes the last one, and the queues of the first would not be read."""
    with pytest.raises(ConfigError, match="option assign is no JSON: t stands there twice"):
        parse("assign", '{"t": {"a": [0]}, "t": {"b": [0]}}')


@pytest.mark.parametrize("other", [QueueValue("t", "a", 0, 7), QueueValue("t", None, 0, 7)])
def test_a_queue_has_one_value(other: QueueValue) -> None:
    queue = MessageQueue("t", "a", 0)
    one = QueueValue("t", None, 0, 5)
    assert resolve("startingOffsets", [one, one], [queue]) == {queue: 5}
    with pytest.raises(ConfigError, match="the queue t/a/0 stands there twice, with 5 and with 7"):
        resolve("startingOffsets", [one, other], [queue])


@given(SMALL, SMALL)
def test_no_queue_goes_back_and_none_is_forgotten(start: Offsets, end: Offsets) -> None:
    clamped = clamp(start, end)
    assert clamped.keys() == start.keys() | end.keys()
    assert all(clamped[queue] >= start.get(queue, 0) for queue in clamped)
    assert not behind(start, clamped)


@given(SMALL, SMALL, st.integers(1, 500))
def test_a_limit_is_shared_and_nobody_starves(start: Offsets, more: Offsets, limit: int) -> None:
    begin = {queue: start.get(queue, 0) for queue in start.keys() | more.keys()}
    end = {queue: offset + more.get(queue, 0) for queue, offset in begin.items()}
    limited = rate_limited(begin, end, limit)
    assert limited.keys() == end.keys()
    for queue, until in limited.items():
        assert begin[queue] <= until <= end[queue]
        assert (until > begin[queue]) == (end[queue] > begin[queue]), (
            "every queue with a backlog gets on"
        )
    taken, waiting = backlog(begin, limited), sum(end[queue] > begin[queue] for queue in end)
    assert taken <= max(limit, 0) + waiting
    assert taken == backlog(begin, end) or taken > limit - waiting


def test_a_limit_is_shared_in_proportion() -> None:
    one, two = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)
    assert rate_limited({one: 0, two: 10}, {one: 900, two: 110}, 100) == {one: 90, two: 20}
    assert rate_limited({one: 0, two: 0}, {one: 100_000, two: 3}, 100) == {one: 99, two: 1}


def test_what_lies_behind_is_told() -> None:
    one, two, three = (MessageQueue("t", "a", number) for number in range(3))
    assert behind({one: 5, two: 5, three: 5}, {one: 4, two: 5}) == {one: 4}
