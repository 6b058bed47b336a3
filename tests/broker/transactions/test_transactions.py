"""Which half messages are undecided: without a broker."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from aiorocketmq.broker.transactions import transactions
from aiorocketmq.broker.transactions.transactions import (
    ENDED,
    HalfMessages,
    Progress,
    op_body,
    op_numbers,
)

from .half_messages import message


def some(count: int) -> HalfMessages:
    halves = HalfMessages()
    halves.begin(0, 0)
    for number in range(count):
        halves.added(number)
    return halves


# -- bookkeeping


def test_the_front_is_the_first_undecided_one() -> None:
    halves = some(4)
    assert (halves.front, halves.end, halves.undecided) == (0, 4, 4)
    halves.ended(1)
    halves.ended(0)
    assert (halves.front, halves.undecided) == (2, 2)
    halves.dropped(2)
    halves.ended(3)
    assert (halves.front, halves.end) == (4, 4)


def test_a_word_about_a_replaced_one_is_about_its_newest_copy() -> None:
    halves = some(2)
    halves.added(2)
    halves.replaced(0, 2)
    halves.added(3)
    halves.replaced(2, 3)
    assert [halves.meant_by(n) for n in (0, 2, 3)] == [3, 3, 3]
    assert halves.front == 1
    halves.ended(3)
    assert [halves.meant_by(n) for n in (0, 2, 3)] == [None, None, None]


def test_what_is_decided_stays_decided() -> None:
    halves = some(3)
    halves.ended(0)
    halves.committing.add(1)
    assert [halves.is_decided(number) for number in range(3)] == [True, True, False]
    halves.dropped(0)
    halves.replaced(0, 2)
    assert (halves.state(0), halves.meant_by(0)) == (ENDED, None)


def test_a_word_about_one_that_was_given_up_still_counts() -> None:
    halves = some(1)
    halves.added(1)
    halves.replaced(0, 1)
    halves.dropped(1)
    assert [halves.meant_by(n) for n in (0, 1)] == [0, 1]


def test_a_word_about_what_nobody_remembers_counts() -> None:
    halves = HalfMessages()
    halves.begin(100, 110)
    assert halves.meant_by(5) == 5
    halves.ended(5)
    assert halves.meant_by(5) is None
    assert halves.state(5) == ENDED
    assert halves.front == 100


def test_far_behind_the_front_decisions_are_forgotten() -> None:
    halves = some(transactions.KEEP_BEHIND + 50)
    for number in range(transactions.KEEP_BEHIND + 50):
        halves.ended(number)
    assert halves.progress(7) == Progress(transactions.KEEP_BEHIND + 50, 7)
    assert halves.state(49) is None
    assert halves.state(50) == ENDED


def test_a_word_about_one_that_is_forgotten_is_about_its_newest_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And it is decided with it: else a late word would commit it once more."""
    monkeypatch.setattr(transactions, "KEEP_BEHIND", 0)
    halves = some(2)
    for number in (0, 1):
        halves.added(number + 2)
        halves.replaced(number, number + 2)
    halves.progress(0)
    assert halves.state(1) is None
    assert halves.meant_by(1) == 3
    halves.ended(3)
    assert halves.meant_by(1) is None


def test_decisions_about_earlier_ones_are_limited() -> None:
    halves = HalfMessages()
    halves.begin(1_000_000, 1_000_000)
    for number in range(transactions.KEEP_EARLIER + 1):
        halves.ended(number)
    assert halves.state(0) is None
    assert halves.state(1) == ENDED


def test_a_queue_that_begins_anew_is_followed() -> None:
    halves = some(5)
    halves.added(0)
    assert (halves.front, halves.end, halves.meant_by(0)) == (0, 1, 0)


def test_what_came_without_a_word_is_undecided() -> None:
    halves = some(2)
    halves.added(5)
    assert (halves.end, halves.undecided) == (6, 6)


def test_what_expired_is_dropped() -> None:
    halves = some(4)
    halves.replaced(0, 2)
    halves.ended(3)
    assert halves.dropped_below(3) == 2
    assert halves.dropped_below(3) == 0
    assert halves.front == halves.end == 4
    assert [halves.state(n) for n in range(4)] == [transactions.DROPPED] * 3 + [ENDED]
    assert halves.meant_by(0) == 0


def test_ops_are_done_with_when_all_halves_of_their_time_are() -> None:
    halves = some(3)
    halves.ended(0)
    halves.ended(2)
    assert halves.progress(2) == Progress(1, 0)
    halves.added(3)
    halves.ended(1)
    assert halves.progress(3) == Progress(3, 2)
    halves.ended(3)
    assert halves.progress(4) == Progress(4, 4)


def test_after_a_start_progress_never_goes_back() -> None:
    halves = HalfMessages()
    halves.begin(10, 20, ops=7)
    assert halves.progress(9) == Progress(10, 7)


def test_many_copies_of_one_half_message_are_known_to_a_limit() -> None:
    halves = some(1)
    for copy in range(1, 200):
        halves.added(copy)
        halves.replaced(copy - 1, copy)
    assert halves.meant_by(0) == 199
    assert halves.meant_by(198) == 199
    assert len(halves._newest) <= transactions.MAX_LINEAGE
    halves.ended(199)
    assert not halves._newest
    assert not halves._lineage


class Bookkeeping(RuleBasedStateMachine):
    """Against the plainest model: one dict from each number to the transaction it belongs to, one
    set of ended ones."""

    def __init__(self) -> None:
        super().__init__()
        self.halves = some(0)
        self.owner: list[int] = []
        self.newest: dict[int, int] = {}
        self.over: dict[int, str] = {}
        self.ops = 0
        self.op_about: list[int] = []
        self.saved = Progress(0, 0)
        self.patch = pytest.MonkeyPatch()

    @initialize(keep=st.sampled_from([0, 2, transactions.KEEP_BEHIND]))
    def remember(self, keep: int) -> None:
        """Behind the front only so many."""
        self.patch.setattr(transactions, "KEEP_BEHIND", keep)

    def teardown(self) -> None:
        self.patch.undo()

    @rule()
    def add(self) -> None:
        number = len(self.owner)
        self.halves.added(number)
        self.owner.append(number)
        self.newest[number] = number

    @precondition(lambda self: self.owner)
    @rule(data=st.data(), what=st.sampled_from(["copy", "drop", "end"]))
    def happen(self, data: st.DataObject, what: str) -> None:
        number = data.draw(st.integers(0, len(self.owner) - 1))
        owner = self.owner[number]
        newest = self.newest[owner]
        if what == "end":
            meant = self.halves.meant_by(number)
            if self.over.get(owner) == "end":
                assert meant is None or self.halves.state(number) is None, "forgotten"
            elif owner not in self.over:
                assert meant == newest
            if meant is not None:
                for each in {meant, number}:
                    self.halves.ended(each)
                    self.op_about.append(each)
                mine = [n for n, o in enumerate(self.owner) if o == owner]
                if owner not in self.over or all(self.halves.state(n) == ENDED for n in mine):
                    self.over[owner] = "end"
        elif owner not in self.over:
            if what == "copy":
                copy = len(self.owner)
                self.halves.added(copy)
                self.halves.replaced(newest, copy)
                self.owner.append(owner)
                self.newest[owner] = copy
            else:
                self.halves.dropped(newest)
                self.over[owner] = "drop"

    @rule()
    def save(self) -> None:
        self.saved = self.halves.progress(len(self.op_about))

    @invariant()
    def undecided_are_the_newest_of_what_is_not_over(self) -> None:
        wanted = sorted(self.newest[owner] for owner in self.newest if owner not in self.over)
        number, found = 0, []
        while (number := self.halves.next_undecided(number)) < self.halves.end:
            found.append(number)
            number += 1
        assert found == wanted
        assert self.halves.front == (wanted[0] if wanted else self.halves.end)

    @invariant()
    def ops_in_front_of_the_progress_are_about_halves_in_front_of_it(self) -> None:
        assert all(about < self.saved.halves for about in self.op_about[: self.saved.ops])


TestBookkeeping = Bookkeeping.TestCase
TestBookkeeping.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)


# -- ops


op = partial(message, topic="RMQ_SYS_TRANS_OP_HALF_TOPIC")


@given(st.integers(0, 2**63 - 1))
@settings(deadline=None)
def test_an_op_names_its_half_message(number: int) -> None:
    assert op_numbers(op("TAGS\x01d\x02WAIT\x01true", op_body(number))) == [number]


def test_ops_of_others() -> None:
    assert op_numbers(op("TAGS\x01d", b"1,22,333")) == [1, 22, 333]
    assert op_numbers(op("TAGS\x01d", b"1,x,-3,")) == [1]
    assert op_numbers(op("TAGS\x01e", b"1")) == []
    assert op_numbers(op("TAGS\x01d", b"1," * 5000)) == []
    assert op_numbers(message("TAGS\x01d", b"1", topic="T")) == []
