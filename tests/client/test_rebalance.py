"""Every queue has exactly one owner, and the division is the one that Java clients compute (client.md §4.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.rebalance import (
    AllocateStrategy,
    averagely,
    by_circle,
    changes,
    sorted_client_ids,
    sorted_queues,
)
from aiorocketmq.remoting.protocol.message import MessageQueue

STRATEGIES = [averagely, by_circle]


def queues_of(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "broker-a", index) for index in range(count)]


@pytest.mark.parametrize(
    ("strategy", "queues", "clients", "expected"),
    [
        (averagely, 8, 3, "012|345|67"),
        (averagely, 3, 5, "0|1|2||"),
        (averagely, 10, 4, "012|345|67|89"),
        (averagely, 4, 4, "0|1|2|3"),
        (averagely, 1, 3, "0||"),
        (by_circle, 8, 3, "036|147|25"),
        (by_circle, 3, 5, "0|1|2||"),
    ],
)
def test_divides_as_java_does(strategy: AllocateStrategy, queues: int, clients: int, expected: str) -> None:
    ids = [f"c{index}" for index in range(clients)]
    shares = [strategy(client, queues_of(queues), ids) for client in ids]
    assert "|".join("".join(str(queue.queue_id) for queue in share) for share in shares) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(
    queues=st.sets(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 30)), max_size=40),
    clients=st.sets(st.text(min_size=1, max_size=6), min_size=1, max_size=12),
)
def test_every_queue_has_exactly_one_owner(
    strategy: AllocateStrategy, queues: set[tuple[str, int]], clients: set[str]
) -> None:
    ordered = sorted_queues(MessageQueue("T", broker, index) for broker, index in queues)
    ids = sorted_client_ids(clients)
    shares = [strategy(client, ordered, ids) for client in ids]
    assert sorted(queue for share in shares for queue in share) == sorted(ordered)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_client_that_is_not_listed_owns_nothing(strategy: AllocateStrategy) -> None:
    assert strategy("stranger", queues_of(4), ["c0", "c1"]) == []


def test_ids_are_sorted_by_utf16_units_and_counted_once() -> None:
    # U+1F600 is D83D DE00 in UTF-16, so Java puts it before U+FF5E.
    assert sorted_client_ids(["~", "\uff5e", "\U0001f600", "~"]) == ["~", "\U0001f600", "\uff5e"]


def test_queues_are_sorted_by_topic_broker_and_number() -> None:
    queues = [MessageQueue("T", "b", 10), MessageQueue("T", "b", 9), MessageQueue("T", "a", 11), MessageQueue("S", "z", 0)]
    assert sorted_queues(queues) == [queues[3], queues[2], queues[1], queues[0]]


@given(
    owned=st.sets(st.integers(0, 20)),
    assigned=st.sets(st.integers(0, 20)),
)
def test_changes_lead_from_what_is_owned_to_what_is_assigned(owned: set[int], assigned: set[int]) -> None:
    before = {MessageQueue("T", "b", index) for index in owned}
    after = {MessageQueue("T", "b", index) for index in assigned}
    lost, gained = changes(before, after)
    assert (before - set(lost)) | set(gained) == after
    assert set(lost) <= before
    assert not set(gained) & before
