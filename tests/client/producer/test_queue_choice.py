"""Messages of one key go to the queue that a Java producer would take; failures are got around
(client.md §3.5, §3.7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.client.producer.queue_choice import RoundRobin, choose_by_key, java_hash
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

QUEUES = [MessageQueue("T", broker, index) for broker in ("a", "b") for index in range(3)]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("中文标签", 622041809),
        ("polygenelubricants", -(2**31)),
        (0, 0),
        (42, 42),
        (-7, -7),  # Integer.hashCode is the number
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),  # Long.hashCode: low word ^ high word
        (2**33 + 5, 7),
        (-(2**40), -256),
        (2**63 - 1, -(2**31)),
    ],
)
def test_hash_codes_of_java(key: str | int, expected: int) -> None:
    assert java_hash(key) == expected


@pytest.mark.parametrize("key", [1.5, None, True, b"k", 2**63, -(2**63) - 1])
def test_other_keys_are_refused(key: object) -> None:
    with pytest.raises(ConfigError, match="sharding key"):
        java_hash(key)  # type: ignore[arg-type]


def test_the_queue_is_the_absolute_value_of_the_remainder() -> None:
    assert choose_by_key(QUEUES, -7).queue_id == 1  # Java: |-7 % 6| = 1
    assert choose_by_key(QUEUES, "polygenelubricants") == QUEUES[2**31 % 6]


@given(st.text(), st.integers(1, 50))
def test_equal_keys_meet(key: str, count: int) -> None:
    queues = [MessageQueue("T", "b", index) for index in range(count)]
    assert choose_by_key(queues, key) is choose_by_key(queues, key)


def test_queues_take_turns() -> None:
    turns = RoundRobin(start=4)
    assert [turns.choose(QUEUES) for _ in range(7)] == [*QUEUES[4:], *QUEUES[:5]]


@given(st.integers(0, 1000), st.sampled_from(["a", "b"]))
def test_the_broker_that_failed_comes_last(start: int, failed: str) -> None:
    assert RoundRobin(start).choose(QUEUES, avoid_broker=failed).broker_name != failed


def test_the_broker_that_failed_is_taken_when_there_is_no_other() -> None:
    turns = RoundRobin()
    assert [turns.choose(QUEUES[:3], avoid_broker="a").queue_id for _ in range(4)] == [0, 1, 2, 0]
