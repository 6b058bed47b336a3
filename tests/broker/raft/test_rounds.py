"""When a leader pushes what is new."""

from __future__ import annotations

import pytest

from aiorocketmq.broker.raft.rounds import (
    MIN_SENDERS,
    MUCH,
    MUCH_BYTES,
    REST,
    PushRounds,
)


class World:
    """A leader with so many senders, each of which waits for its answer. Entries take 100 bytes."""

    def __init__(self, senders: int, followers: int = 2) -> None:
        self.rounds = PushRounds(followers)
        self.senders = self.waiting = senders
        self.index = senders - 1
        self.committed = -1
        self.push()

    def push(self) -> None:
        self.rounds.pushed(self.index, 100 * (self.index + 1))

    def commit(self, told: int, index: int) -> bool:
        everybody, self.waiting, self.committed = self.waiting, self.waiting - told, index
        return self.rounds.committed(told, everybody)

    def put(self, count: int = 1) -> None:
        self.waiting += count
        self.index += count

    def holds(self, more_bytes: int = 0) -> bool:
        position = 100 * (self.index + 1) + more_bytes
        return self.rounds.holds(self.waiting, self.index, position, self.committed)


def test_those_who_were_told_are_waited_for() -> None:
    world = World(20)
    assert world.commit(20, 19)
    for _ in range(19):
        world.put()
        assert world.holds()
    world.put()
    assert not world.holds()
    world.push()
    world.put()
    assert world.holds(), "a push is under way"
    world.commit(20, 39)
    assert world.holds(), "now for all of them"
    world.put(19)
    assert world.holds()
    world.put()
    assert not world.holds()


def test_few_senders_wait_for_nobody() -> None:
    world = World(MIN_SENDERS - 1)
    assert not world.commit(2, 1)
    assert not world.holds(), "another one is under way"
    assert not world.commit(MIN_SENDERS - 3, MIN_SENDERS - 2)
    world.put()
    assert not world.holds()


def test_who_leads_nobody_waits_for_nobody() -> None:
    world = World(20, followers=0)
    assert not world.commit(20, 19)
    world.put()
    assert not world.holds()


@pytest.mark.parametrize("under_way", [False, True])
def test_much_waits_for_nobody(under_way: bool) -> None:
    world = World(400)
    world.commit(200, 200 if under_way else 399)
    world.put(MUCH - 1)
    assert world.holds()
    assert not world.holds(MUCH_BYTES)
    world.commit(1, world.committed)
    world.put()
    assert not world.holds()


@pytest.mark.parametrize(("back", "rests"), [(14, True), (15, False)])
def test_senders_who_do_not_come_back_are_left_alone_for_a_while(back: int, rests: bool) -> None:
    world = World(20)
    world.commit(20, 19)
    world.put(back)
    assert world.holds()
    world.rounds.over(world.waiting)
    assert not world.holds()
    world.push()
    world.put(20 - back)
    for _ in range(REST):
        assert world.holds() is not rests
        assert not world.commit(0, 19)
    assert world.holds(), "a push is under way"
    assert world.commit(20, world.index)
