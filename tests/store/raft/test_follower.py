"""What a follower does with a leader's pushes (``dledger.md`` §3.9)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerCode,
    PushRequest,
    PushResponse,
    PushType,
)
from aiorocketmq.store.raft.entry_log import CommittedConflict
from aiorocketmq.store.raft.follower import EARLY_PUSH_MS

from .lab import Alone, log_of

OK, REFUSED = DledgerCode.SUCCESS, DledgerCode.INCONSISTENT_STATE
APPEND, COMMIT = PushType.APPEND, PushType.COMMIT
COMPARE, TRUNCATE = PushType.COMPARE, PushType.TRUNCATE


def follower(*terms: int, leader_term: int = 3, committed: int = -1) -> Alone:
    alone = Alone(*terms, committed=committed)
    alone.follow(leader_term)
    return alone


def ends(answer: PushResponse) -> tuple[int, int | None, int, int]:
    return answer.code, answer.index, answer.count, answer.end_index


def test_entries_follow_each_other() -> None:
    alone, leader = follower(1, 2), log_of(1, 2, 3, 3, 3)
    assert alone.pushed(COMPARE, 3, leader.stored[1]).code == OK
    answer = alone.pushed(APPEND, 3, leader.stored[2], commit_index=1)
    assert ends(answer) == (OK, 2, 1, 2)
    assert (answer.term, answer.begin_index, alone.member.committed_index) == (3, 0, 1)
    assert ends(alone.pushed(APPEND, 3, *leader.stored[3:])) == (OK, 3, 2, 4)
    assert alone.log.stored == leader.stored


def test_a_log_that_was_not_compared_takes_nothing_and_commits_nothing() -> None:
    alone, leader = follower(1, 2), log_of(1, 2, 3)
    assert alone.pushed(APPEND, 3, leader.stored[2]).code == REFUSED
    assert alone.pushed(COMMIT, 3, commit_index=1).code == REFUSED
    assert alone.member.committed_index == -1


def test_one_whose_last_entry_is_of_this_term_needs_no_comparison() -> None:
    alone, leader = follower(1, 3), log_of(1, 3, 3)
    assert alone.pushed(APPEND, 3, leader.stored[2], commit_index=2).code == OK
    assert alone.member.committed_index == 2


@pytest.mark.parametrize("kind", [APPEND, COMPARE, TRUNCATE])
def test_a_push_without_entries_is_no_push(kind: PushType) -> None:
    assert follower(1).pushed(kind, 3).code == DledgerCode.UNEXPECTED_ARGUMENT


@pytest.mark.parametrize("kind", list(PushType))
def test_who_does_not_follow_says_so(kind: PushType) -> None:
    alone = Alone(1)
    answer = alone.pushed(kind, 3, *(() if kind is COMMIT else alone.log.stored))
    assert (answer.code, answer.end_index) == (DledgerCode.NOT_FOLLOWER, 0)


def test_pushes_of_another_leader_or_term_are_refused() -> None:
    alone, leader = follower(1, 3), log_of(1, 3, 3)
    for other in ({"leader_id": "n2"}, {"term": 2}, {"term": 4}):
        push = alone.push(APPEND, 3, leader.stored[2])
        changed = PushRequest(**{f: getattr(push, f) for f in push.__struct_fields__} | other)
        assert alone.ask(PushResponse, changed).code == REFUSED
    assert alone.log.end_index == 1


def test_what_comes_early_waits_for_what_is_before_it_and_may_come_twice() -> None:
    alone, leader = follower(1, 3), log_of(1, 3, 3, 3, 3)
    pushes = [alone.push(APPEND, 3, entry) for entry in leader.stored]
    for at in (4, 3, 4):
        alone.member.receive(alone.now, pushes[at], at)
    assert alone.take().answers == []
    alone.member.receive(alone.now, pushes[2], 2)
    answers = alone.take().answers
    assert [(answer.token, answer.body.code) for answer in answers] == [
        (2, OK),
        (3, OK),
        (4, OK),
        (4, OK),
    ]
    assert alone.log.stored == leader.stored


def test_what_waits_too_long_is_refused_and_may_come_again() -> None:
    alone, leader = follower(1, 3), log_of(1, 3, 3, 3)
    push = alone.push(APPEND, 3, leader.stored[3])
    alone.member.receive(alone.now, push, "early")
    alone.take()
    alone.now += EARLY_PUSH_MS
    alone.member.receive(alone.now, alone.beat(3), None)
    alone.member.tick(alone.now)
    assert [a.body.code for a in alone.take().answers if a.token == "early"] == [REFUSED]
    alone.pushed(APPEND, 3, leader.stored[2])
    assert alone.pushed(APPEND, 3, leader.stored[3]).code == OK


def test_only_so_much_waits() -> None:
    alone = Alone(1, 3, reorder_requests=2)
    alone.follow(3)
    leader = log_of(1, 3, 3, 3, 3, 3)
    for at in (3, 4):
        alone.member.receive(alone.now, alone.push(APPEND, 3, leader.stored[at]), at)
    answer = alone.pushed(APPEND, 3, leader.stored[5])
    assert answer.code == DledgerCode.PUSH_REQUEST_IS_FULL


def test_what_is_there_already_is_acknowledged_and_the_rest_is_taken() -> None:
    alone, leader = follower(1, 3, 3), log_of(1, 3, 3, 3)
    assert ends(alone.pushed(APPEND, 3, *leader.stored[1:])) == (OK, 1, 3, 3)
    assert ends(alone.pushed(APPEND, 3, *leader.stored[1:])) == (OK, 1, 3, 3)
    assert alone.log.stored == leader.stored


def test_another_entry_in_the_place_of_one_is_refused() -> None:
    alone, leader = follower(1, 2), log_of(1, 3)
    assert alone.pushed(APPEND, 3, leader.stored[1]).code == REFUSED


def test_a_wrong_position_is_refused_before_anything_is_written() -> None:
    alone, leader = follower(1, 3), log_of(1, 3, 3)
    moved = leader.stored[2]
    wrong = type(moved)(**{f: getattr(moved, f) for f in moved.__struct_fields__} | {"pos": 7})
    assert alone.pushed(APPEND, 3, wrong).code == REFUSED
    assert alone.log.end_index == 1


def test_a_full_disk_refuses_as_it_refuses_anything() -> None:
    alone, leader = follower(1, 3), log_of(1, 3, 3)
    alone.log.full = True
    assert ends(alone.pushed(APPEND, 3, leader.stored[2])) == (REFUSED, 2, 1, 1)
    alone.log.full = False
    assert alone.pushed(APPEND, 3, leader.stored[2]).code == OK


# --- TRUNCATE


def test_what_the_leader_lacks_goes() -> None:
    alone, leader = follower(1, 2, 2, 2), log_of(1, 2)
    assert alone.pushed(COMPARE, 3, leader.stored[1]).code == OK
    assert ends(alone.pushed(TRUNCATE, 3, leader.stored[1], commit_index=1)) == (OK, 1, 1, 1)
    assert alone.member.committed_index == 1


def test_an_empty_log_begins_with_what_the_leader_has_first() -> None:
    leader = log_of(1, 1, 1)
    del leader.stored[0]
    alone = follower()
    assert alone.pushed(TRUNCATE, 3, leader.stored[0]).begin_index == 1
    assert alone.pushed(APPEND, 3, leader.stored[1]).code == OK


def test_what_could_not_begin_anew_begins_with_whatever_another_leader_has_first() -> None:
    """The disk had no space for the first entry; nothing is left that could contradict."""
    leader = log_of(*[1] * 6)
    alone = follower(1, 1, committed=1)
    alone.log.full = True
    assert alone.pushed(TRUNCATE, 3, leader.stored[5]).code == REFUSED
    assert alone.log.end_index == -1
    alone.log.full = False
    assert ends(alone.pushed(TRUNCATE, 3, leader.stored[1])) == (OK, 1, 1, 1)
    assert alone.log.stored == leader.stored[1:2]


def test_a_truncation_that_comes_again_later_takes_nothing_back() -> None:
    alone, leader = follower(1, 2), log_of(1, 2, 3, 3)
    again = alone.push(TRUNCATE, 3, leader.stored[1])
    assert alone.ask(PushResponse, again).code == OK
    alone.pushed(APPEND, 3, *leader.stored[2:])
    assert ends(alone.ask(PushResponse, again)) == (OK, 1, 1, 3)
    assert alone.log.stored == leader.stored


def test_what_is_committed_is_never_replaced() -> None:
    alone, leader = follower(1, 2, 2, committed=1), log_of(1, 3)
    with pytest.raises(CommittedConflict, match=r"entry 1.*committed"):
        alone.pushed(TRUNCATE, 3, leader.stored[1])
    assert alone.log.end_index == 2


def test_another_log_of_the_same_term_is_no_beginning_of_the_leaders() -> None:
    """The others have lost their disks and began anew, in a term that was there before: whoever
    still has what was committed says so, and is not counted for what it does not have."""
    alone, leader = follower(1, 1, 1, leader_term=1, committed=1), log_of(1)
    other = replace(leader.stored[0], body=b"not the same")
    with pytest.raises(CommittedConflict, match=r"entry 0.*committed"):
        alone.pushed(TRUNCATE, 1, other)
    assert alone.log.end_index == 2


def test_an_entry_that_cannot_be_read_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the very same: nothing is taken back for that, nor does the member end."""
    alone, leader = follower(1, 2, 2, committed=1), log_of(1, 2)
    with monkeypatch.context() as disk:
        disk.setattr(alone.log, "entries", lambda _first, _most: [])
        disk.setattr(alone.log, "matches", lambda _entry: False)
        for entry in leader.stored:
            assert alone.pushed(TRUNCATE, 3, entry).code == REFUSED
    assert alone.log.end_index == 2
    assert alone.pushed(TRUNCATE, 3, leader.stored[1]).code == OK


def test_a_negative_index_takes_nothing_back() -> None:
    alone, leader = follower(1, 2), log_of(1, 2)
    assert alone.pushed(TRUNCATE, 3, replace(leader.stored[0], index=-1)).code == REFUSED
    assert alone.log.stored == leader.stored


def test_a_truncation_below_what_is_committed_leaves_that() -> None:
    alone, leader = follower(1, 1, 1, 1, committed=2), log_of(1, 1)
    assert ends(alone.pushed(TRUNCATE, 3, leader.stored[1])) == (OK, 1, 1, 2)
