"""Who waits until a message is committed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aiorocketmq.broker.raft.waiting import CommitWaiters
from aiorocketmq.store.model.status import PutStatus

Told = list[tuple[int, PutStatus]]


def add(waiters: CommitWaiters, phy_offset: int, done: Callable[[PutStatus], None]) -> None:
    """Who is told alone."""
    waiters.add((phy_offset, lambda _, status: done(status), None))


def tell(told: Told, phy_offset: int, status: PutStatus) -> None:
    told.append((phy_offset, status))


def three() -> tuple[CommitWaiters, Told]:
    waiters, told = CommitWaiters(2500), Told()
    for number, phy_offset in enumerate((100, 200, 300)):
        add(waiters, phy_offset, partial(tell, told, phy_offset))
        waiters.begin(number * 10)
    return waiters, told


def test_a_commit_tells_all_that_ends_there_or_before() -> None:
    waiters, told = three()
    waiters.committed(199)
    assert told == [(100, PutStatus.PUT_OK)]
    waiters.committed(300)
    assert [at for at, _ in told] == [100, 200, 300]
    assert (len(waiters), waiters.deadline_ms, waiters.oldest_wait_ms(9)) == (0, None, 0)


def test_who_waits_too_long_is_told() -> None:
    waiters, told = three()
    assert (waiters.deadline_ms, waiters.oldest_wait_ms(40)) == (2500, 40)
    waiters.expire(2509, PutStatus.OS_PAGECACHE_BUSY)
    assert told == [(100, PutStatus.OS_PAGECACHE_BUSY)]
    assert waiters.deadline_ms == 2510


def test_all_are_told_when_leadership_is_lost() -> None:
    waiters, told = three()
    waiters.fail(PutStatus.SERVICE_NOT_AVAILABLE)
    assert told == [(at, PutStatus.SERVICE_NOT_AVAILABLE) for at in (100, 200, 300)]


def test_all_are_told_in_whatever_order_they_came() -> None:
    waiters, told = CommitWaiters(2500), Told()
    for phy_offset in (200, 100):
        add(waiters, phy_offset, partial(tell, told, phy_offset))
    waiters.begin(0)
    waiters.fail(PutStatus.SERVICE_NOT_AVAILABLE)
    assert ([at for at, _ in told], waiters.deadline_ms) == ([200, 100], None)


def test_who_is_told_may_wait_for_more() -> None:
    waiters, told = CommitWaiters(2500), Told()
    add(waiters, 100, lambda _: add(waiters, 200, lambda status: told.append((200, status))))
    waiters.committed(150)
    assert (told, len(waiters)) == ([], 1)
    waiters.committed(200)
    assert told == [(200, PutStatus.PUT_OK)]


def test_those_of_a_turn_have_one_deadline() -> None:
    waiters, told = CommitWaiters(2500), Told()
    for phy_offset in (100, 200):
        add(waiters, phy_offset, partial(tell, told, phy_offset))
    assert waiters.deadline_ms is None, "their turn is not over"
    waiters.begin(7)
    waiters.begin(9)
    add(waiters, 300, partial(tell, told, 300))
    waiters.begin(11)
    waiters.committed(100)
    assert waiters.deadline_ms == 2507
    waiters.expire(2507, PutStatus.OS_PAGECACHE_BUSY)
    assert told == [(100, PutStatus.PUT_OK), (200, PutStatus.OS_PAGECACHE_BUSY)]
    assert len(waiters) == 1, "that of the next turn"
    waiters.fail(PutStatus.SERVICE_NOT_AVAILABLE)
    assert len(waiters) == 0


def test_who_waits_for_the_same_is_told_in_one_call_in_the_order_of_the_log() -> None:
    waiters, told = CommitWaiters(2500), list[tuple[str, list[int], PutStatus]]()

    def one(who: list[int], status: PutStatus) -> None:
        told.append(("one", who, status))

    def other(who: list[int], status: PutStatus) -> None:
        told.append(("other", who, status))

    for number, tell in enumerate((one, one, other, one, one)):
        waiters.add((100 + number, tell, number))
    waiters.committed(103)
    ok = PutStatus.PUT_OK
    assert told == [("one", [0, 1], ok), ("other", [2], ok), ("one", [3], ok)]
    assert len(waiters) == 1
