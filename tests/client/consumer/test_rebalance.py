"""Every queue has exactly one owner, and the division is the one that Java clients compute
(client.md §4.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.consumer.rebalance import (
    AllocateStrategy,
    averagely,
    by_circle,
    by_machine_room,
    by_nearby_room,
    changes,
    configured,
    consistent_hash,
    sorted_client_ids,
    sorted_queues,
)
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

STRATEGIES = [averagely, by_circle]
UNEVEN = [
    consistent_hash,
    by_nearby_room(lambda queue: queue.broker_name, lambda client: client[0]),
    by_nearby_room(lambda queue: queue.broker_name, lambda _client: "a", by_circle),
]


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
def test_divides_as_java_does(
    strategy: AllocateStrategy, queues: int, clients: int, expected: str
) -> None:
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


@pytest.mark.parametrize("strategy", UNEVEN)
@given(
    queues=st.sets(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 30)), max_size=40),
    clients=st.sets(st.text("abd", min_size=1, max_size=3), min_size=1, max_size=12),
)
def test_every_queue_has_exactly_one_owner_where_shares_differ(
    strategy: AllocateStrategy, queues: set[tuple[str, int]], clients: set[str]
) -> None:
    ordered = sorted_queues(MessageQueue("T", broker, index) for broker, index in queues)
    ids = sorted_client_ids(clients)
    assert sorted(queue for client in ids for queue in strategy(client, ordered, ids)) == sorted(
        ordered
    )


@given(queues=st.integers(0, 30), clients=st.integers(1, 9))
def test_only_the_queues_of_the_chosen_rooms_are_divided(queues: int, clients: int) -> None:
    names = ["room1@a", "room2@a", "room3@a", "a", "room1@a@b"]
    everything = sorted_queues(
        MessageQueue("T", name, index) for name in names for index in range(queues)
    )
    ids = [f"c{index}" for index in range(clients)]
    shares = [by_machine_room("room1", "room2")(client, everything, ids) for client in ids]
    wanted = [queue for queue in everything if queue.broker_name in ("room1@a", "room2@a")]
    assert sorted(queue for share in shares for queue in share) == wanted
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_neighbour_comes_first() -> None:
    nearby = by_nearby_room(lambda queue: queue.broker_name, lambda client: client[0])
    queues = [MessageQueue("T", room, index) for room in "abc" for index in range(2)]
    ids = ["a1", "b1", "b2"]
    assert [
        [(q.broker_name, q.queue_id) for q in nearby(client, queues, ids)] for client in ids
    ] == [
        [("a", 0), ("a", 1), ("c", 0)],
        [("b", 0), ("c", 1)],
        [("b", 1)],
    ]


def test_a_room_without_a_name_is_refused() -> None:
    nearby = by_nearby_room(lambda queue: "", lambda client: "a")
    with pytest.raises(ConfigError, match="machine room of broker-a"):
        nearby("c1", queues_of(1), ["c1"])


def test_configured_queues_are_ours_whoever_else_is_there() -> None:
    assert configured(*queues_of(2))("nobody", queues_of(8), ["c1"]) == queues_of(2)


@pytest.mark.parametrize("strategy", [*STRATEGIES, *UNEVEN, by_machine_room("broker-a")])
def test_a_client_that_is_not_listed_owns_nothing(strategy: AllocateStrategy) -> None:
    assert strategy("stranger", queues_of(4), ["c0", "c1"]) == []


def test_ids_are_sorted_by_utf16_units_and_counted_once() -> None:
    # U+1F600 is D83D DE00 in UTF-16, so Java puts it before U+FF5E.
    assert sorted_client_ids(["~", "\uff5e", "\U0001f600", "~"]) == ["~", "\U0001f600", "\uff5e"]


def test_queues_are_sorted_by_topic_broker_and_number() -> None:
    queues = [
        MessageQueue("T", "b", 10),
        MessageQueue("T", "b", 9),
        MessageQueue("T", "a", 11),
        MessageQueue("S", "z", 0),
    ]
    assert sorted_queues(queues) == [queues[3], queues[2], queues[1], queues[0]]


@given(
    owned=st.sets(st.integers(0, 20)),
    assigned=st.sets(st.integers(0, 20)),
)
def test_changes_lead_from_what_is_owned_to_what_is_assigned(
    owned: set[int], assigned: set[int]
) -> None:
    before = {MessageQueue("T", "b", index) for index in owned}
    after = {MessageQueue("T", "b", index) for index in assigned}
    lost, gained = changes(before, after)
    assert (before - set(lost)) | set(gained) == after
    assert set(lost) <= before
    assert not set(gained) & before
