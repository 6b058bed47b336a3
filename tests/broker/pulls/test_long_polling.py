from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.filter.sql92 import SqlFilter, sql_filter
from aiorocketmq.broker.pulls import long_polling
from aiorocketmq.broker.pulls.long_polling import HeldPull, HeldPulls, Wanted


class Peer:
    """Stands for a connection: the table only asks whether two are the same."""


def held(
    pulls: HeldPulls,
    *,
    queue_id: int = 0,
    deadline: float = 10.0,
    peer: Any = None,
    offset: int = 5,
    wanted: Wanted = None,
    header: bytes = b"",
) -> HeldPull:
    pull = HeldPull(
        topic="T",
        queue_id=queue_id,
        offset=offset,
        deadline=deadline,
        connection=cast(Any, peer or Peer()),
        ctx=cast(Any, SimpleNamespace(raw_header=header)),
        wanted=wanted,
        max_count=32,
    )
    pulls.hold(pull)
    return pull


def test_a_pull_is_found_by_its_queue_in_order_of_arrival() -> None:
    pulls = HeldPulls()
    first, other, second = held(pulls), held(pulls, queue_id=1), held(pulls)
    assert pulls.waiting("T", 0) == [first, second]
    assert pulls.waiting("T", 1) == [other]
    assert not pulls.waits_for("T", 2)
    pulls.release(first)
    pulls.release(second)
    assert not pulls.waits_for("T", 0)
    assert len(pulls) == 1


def test_headers_and_filters_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, other = SqlFilter("a = 1"), SqlFilter("b = 2")
    monkeypatch.setattr(long_polling, "MAX_HELD_BYTES", 1000 + shared.size_bytes + other.size_bytes)
    pulls = HeldPulls()
    found = [
        held(pulls, wanted=each, header=bytes(100)) for each in (shared, shared, shared, other)
    ]
    found += [held(pulls, wanted=frozenset((1,)), header=bytes(500))]
    assert not pulls.is_full_for(cast(Any, Peer()))
    last = held(pulls, header=bytes(100))
    assert pulls.is_full_for(cast(Any, Peer()))
    pulls.release(last)
    assert not pulls.is_full_for(cast(Any, Peer()))
    for each in (*found, last):
        pulls.release(each)
    assert pulls._bytes == 0
    assert not pulls._users


def test_greedy_connections_come_to_the_same_share_and_leave_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that came first had more; what they lose at a deadline they do not get again."""
    monkeypatch.setattr(long_polling, "MAX_HELD_PULLS", 1000)
    pulls, peers = HeldPulls(), [cast(Any, Peer()) for _ in range(19)]
    for peer in peers:
        while not pulls.is_full_for(peer):
            held(pulls, peer=peer, deadline=len(pulls) * 7 % 1000)
    assert len(pulls) == 1000
    assert pulls.is_crowded
    for now in range(1000, 3000):
        for due in pulls.expired(now - 1000, 99):
            pulls.release(due)
        for peer in peers:
            if not pulls.is_full_for(peer):
                held(pulls, peer=peer, deadline=now)
    assert len(pulls) <= 955
    assert max(len(pulls.of_connection(peer)) for peer in peers) <= 55
    assert not pulls.is_full_for(cast(Any, Peer()))


def test_an_expression_that_somebody_waits_with_is_compiled_once() -> None:
    first = sql_filter("a = 'waits'")
    for number in range(200):
        sql_filter(f"a = {number}")
    assert sql_filter("a = 'waits'") is first


def test_deadlines_come_in_order_and_released_pulls_have_none() -> None:
    pulls = HeldPulls()
    late, early, gone = held(pulls, deadline=30), held(pulls, deadline=20), held(pulls, deadline=10)
    pulls.release(gone)
    assert pulls.next_deadline == 20
    assert pulls.expired(19.9, 9) == []
    assert pulls.expired(20.0, 9) == [early]
    assert pulls.next_deadline == 30
    assert pulls.expired(100.0, 9) == [late]
    assert pulls.next_deadline is None


def test_a_connection_takes_its_pulls_with_it() -> None:
    pulls, peer = HeldPulls(), Peer()
    mine = [held(pulls, peer=peer), held(pulls, peer=peer, queue_id=3)]
    other = held(pulls)
    assert pulls.of_connection(cast(Any, peer)) == mine
    for pull in mine:
        pulls.release(pull)
    assert pulls.of_connection(cast(Any, peer)) == []
    assert cast(Any, peer) not in pulls._holders
    assert pulls.waiting("T", 0) == [other]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.floats(0, 100)), max_size=300))
def test_the_tables_agree_and_forget_what_is_released(
    events: list[tuple[bool, int, float]],
) -> None:
    pulls = HeldPulls()
    alive: list[Any] = []
    for hold, queue_id, deadline in events:
        if hold or not alive:
            alive.append(held(pulls, queue_id=queue_id, deadline=deadline))
        else:
            pulls.release(alive.pop(int(deadline) % len(alive)))
    assert len(pulls) == len(alive)
    assert sorted(id(p) for q in range(4) for p in pulls.waiting("T", q)) == sorted(map(id, alive))
    assert pulls.next_deadline == min((p.deadline for p in alive), default=None)
    found = pulls.expired(1000.0, len(events))
    assert sorted(p.deadline for p in found) == sorted(p.deadline for p in alive)
    assert len(pulls._deadlines) == 0


def test_a_pull_that_wants_something_else_now_counts_for_that() -> None:
    pulls, first, other = HeldPulls(), SqlFilter("a = 1"), SqlFilter("b = 2 OR b = 3")
    pull = held(pulls, wanted=first)
    for wanted in (other, other, None, first):
        pulls.want(pull, wanted)
        assert pulls._bytes == (0 if wanted is None else wanted.size_bytes)
    pulls.release(pull)
    assert pulls._bytes == 0
    assert not pulls._users
