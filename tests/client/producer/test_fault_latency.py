"""Slow brokers are left out for a while (client.md §3.5)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.producer.fault_latency import FaultLatency, not_available_ms
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

QUEUES = [MessageQueue("T", broker, index) for broker in ("a", "b", "c", "d") for index in range(2)]
NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("latency_ms", "out_for_ms"),
    [
        (0, 0), (49.9, 0), (50, 0), (100, 0), (549, 0), (550, 30_000), (999, 30_000),
        (1000, 60_000), (2000, 120_000),
        (3000, 180_000), (14_999, 180_000), (15_000, 600_000), (10**9, 600_000),
    ],
)  # fmt: skip
def test_how_long_a_broker_is_left_out(latency_ms: float, out_for_ms: int) -> None:
    assert not_available_ms(latency_ms) == out_for_ms


def brokers(faults: FaultLatency, now_ms: float, count: int = 16) -> set[str]:
    return {faults.choose(QUEUES, now_ms).broker_name for _ in range(count)}


def test_a_slow_broker_is_left_out_until_its_time_has_come() -> None:
    faults = FaultLatency()
    faults.update("a", 600, NOW)
    faults.update("b", 10, NOW)
    assert brokers(faults, NOW) == {"b", "c", "d"}
    assert brokers(faults, NOW + 29_999) == {"b", "c", "d"}
    assert brokers(faults, NOW + 30_000) == {"a", "b", "c", "d"}


def test_a_failure_counts_as_thirty_seconds() -> None:
    faults = FaultLatency()
    faults.update("a", 1, NOW, failed=True)
    assert not faults.is_available("a", NOW + 599_999)
    assert faults.is_available("a", NOW + 600_000)
    faults.update("a", 1, NOW)  # it answers again
    assert faults.is_available("a", NOW)


def test_when_all_are_left_out_the_better_half_takes_turns() -> None:
    faults = FaultLatency(shuffle=random.Random(7).shuffle)
    for name, latency in (("a", 700), ("b", 600), ("c", 5000), ("d", 20_000)):
        faults.update(name, latency, NOW)
    assert brokers(faults, NOW) == {"a", "b"}
    chosen = [faults.choose(QUEUES, NOW) for _ in range(16)]
    assert {queue.queue_id for queue in chosen} == {0, 1}


def test_a_broker_that_has_no_queue_any_more_is_forgotten() -> None:
    faults = FaultLatency()
    faults.update("gone", 600, NOW)
    faults.update("a", 700, NOW)
    only_a = [queue for queue in QUEUES if queue.broker_name == "a"]
    assert {faults.choose(only_a, NOW).broker_name for _ in range(6)} == {"a"}


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 40_000), st.booleans())),
    st.integers(0, 1000),
    st.floats(0, 10**6),
)
def test_there_is_always_a_queue(
    updates: list[tuple[str, float, bool]], start: int, later: float
) -> None:
    faults = FaultLatency(start)
    for name, latency, failed in updates:
        faults.update(name, latency, NOW, failed=failed)
    for _ in range(10):
        queue = faults.choose(QUEUES, NOW + later)
        assert queue in QUEUES
        free = [name for name in "abcd" if faults.is_available(name, NOW + later)]
        assert queue.broker_name in free or not free
