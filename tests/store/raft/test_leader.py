"""What a leader sends, counts and gives up (``dledger.md`` §3.6, §3.8, §3.10)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerCode,
    Entry,
    HeartbeatRequest,
    HeartbeatResponse,
    PushRequest,
    PushResponse,
    PushType,
    VoteResponse,
    VoteResult,
)
from aiorocketmq.store.raft.ready import HardState, Role

from .lab import NAMES, Alone, Group, log_of
from .list_log import ListLog

OK, REFUSED = DledgerCode.SUCCESS, DledgerCode.INCONSISTENT_STATE


def leader(*terms: int, **other: Any) -> Alone:
    """Of three, elected by n1. Nobody follows yet."""
    alone = Alone(*terms, **other)
    vote = alone.stand()
    answer = VoteResponse(term=vote.term, vote_result=VoteResult.ACCEPT)
    for out in alone.requests:
        if out.request is vote:
            alone.member.answered(alone.now, out.peer, vote, answer)
    alone.take()
    assert alone.member.role is Role.LEADER
    return alone


def pushes(alone: Alone, peer: str = "n1") -> list[PushRequest]:
    return [push for push in alone.sent(PushRequest) if push.remote_id == peer]


def answer(
    alone: Alone, push: PushRequest, code: int, end: int, begin: int = 0
) -> list[PushRequest]:
    """The peer's answer, and what it gets then."""
    entries = push.batch_entry or ([push.entry] if push.entry else [])
    body = PushResponse(
        term=push.term,
        code=code,
        index=entries[0].index if entries else None,
        count=len(entries),
        begin_index=begin,
        end_index=end,
    )
    peer = push.remote_id
    assert peer is not None
    alone.member.answered(alone.now, peer, push, body)
    alone.take()
    return pushes(alone, peer)


def shown(push: PushRequest) -> tuple[PushType, int | None, int | None]:
    entries = push.batch_entry or ([push.entry] if push.entry else [])
    if not entries:
        return push.type, None, None
    return push.type, entries[0].index, entries[-1].index


def test_a_peer_that_has_everything_gets_what_is_new() -> None:
    alone = leader(1, 1, 1)
    (compare,) = pushes(alone)
    assert shown(compare) == (PushType.COMPARE, 2, 2)
    assert answer(alone, compare, OK, 2) == []
    alone.put(2, b"new")
    alone.put(2, b"newer")
    alone.take()
    (append,) = pushes(alone)
    assert shown(append) == (PushType.APPEND, 3, 4)
    answer(alone, append, OK, 4)
    assert (alone.member.match_index("n1"), alone.member.committed_index) == (4, 4)


def test_a_peer_is_level_while_it_follows_and_lacks_nothing() -> None:
    """Then nobody has to be woken for its answers to heartbeats."""
    alone = leader(1, 1, 1)
    level: list[bool] = []

    def look() -> None:
        level.append(alone.member.is_level("n1"))

    beat = HeartbeatRequest(term=alone.member.term)
    (compare,) = pushes(alone)
    look()
    answer(alone, compare, OK, 2)
    look()
    for code in (DledgerCode.TERM_NOT_READY, DledgerCode.SUCCESS):
        alone.member.answered(alone.now, "n1", beat, HeartbeatResponse(term=beat.term, code=code))
        look()
    alone.put(2, b"new")
    look()
    alone.take()
    (append,) = pushes(alone)
    answer(alone, append, OK, 3)
    look()
    alone.put(2, b"newer")
    alone.take()
    (append,) = pushes(alone)
    alone.member.answered(alone.now, "n1", append, None)
    alone.member.answered(alone.now, "n1", beat, HeartbeatResponse(term=beat.term))
    alone.log.truncate(3)  # so that it is only that it does not follow
    look()
    assert level == [False, True, False, True, False, True, False]
    assert not Alone(1).member.is_level("n1"), "it does not lead"


def test_a_peer_that_lags_is_compared_where_its_log_ends() -> None:
    alone = leader(*[1] * 50)
    (compare,) = pushes(alone)
    (compare,) = answer(alone, compare, REFUSED, 9)
    assert shown(compare) == (PushType.COMPARE, 9, 9)
    (append,) = answer(alone, compare, OK, 9)
    assert shown(append) == (PushType.APPEND, 10, 49)


def test_an_empty_peer_begins_with_the_first_entry() -> None:
    alone = leader(1, 1)
    (compare,) = pushes(alone)
    (truncate,) = answer(alone, compare, REFUSED, -1, -1)
    assert shown(truncate) == (PushType.TRUNCATE, 0, 0)
    (append,) = answer(alone, truncate, OK, 0)
    assert shown(append) == (PushType.APPEND, 1, 1)


@pytest.mark.parametrize("common", [0, 1, 7, 500, 998])
def test_a_long_difference_is_found_by_halves(common: int) -> None:
    alone = leader(*[1] * 1000)
    asked = 0
    (push,) = pushes(alone)
    while push.type is PushType.COMPARE:
        assert push.entry is not None
        asked += 1
        (push,) = answer(alone, push, OK if push.entry.index <= common else REFUSED, 999)
    assert shown(push) == (PushType.TRUNCATE, common, common)
    assert asked <= 16


def test_one_that_does_not_follow_yet_is_asked_again_soon() -> None:
    alone = leader(1)
    (compare,) = pushes(alone)
    assert answer(alone, compare, DledgerCode.NOT_FOLLOWER, 0) == []
    alone.wait(alone.member.settings.push_retry_ms)
    assert [shown(push) for push in pushes(alone)] == [(PushType.COMPARE, 0, 0)]


def test_pushes_are_under_way_side_by_side_up_to_a_limit() -> None:
    alone = leader(*[1] * 100, push_bytes=1, window_requests=4)
    (compare,) = pushes(alone)
    (compare,) = answer(alone, compare, REFUSED, 0)
    under_way = answer(alone, compare, OK, 0)
    assert [shown(push)[1] for push in under_way] == [1, 2, 3, 4]
    assert [shown(push)[1] for push in answer(alone, under_way[1], OK, 2)] == [5]


def test_who_lags_is_sent_a_little_in_each_turn() -> None:
    alone = leader(*[1] * 100, push_bytes=1)
    (compare,) = pushes(alone)
    (compare,) = answer(alone, compare, REFUSED, 0)
    under_way = answer(alone, compare, OK, 0)
    assert [shown(push)[1] for push in under_way] == [1, 2, 3, 4]
    more = answer(alone, under_way[0], OK, 1)
    assert [shown(push)[1] for push in more] == [5, 6, 7, 8]


def test_peers_at_the_same_place_get_the_same_list() -> None:
    alone = leader(1)
    for push in alone.sent(PushRequest):
        answer(alone, push, OK, 0)
    alone.put(2, b"new")
    alone.take()
    first, second = alone.sent(PushRequest)
    assert first.batch_entry is second.batch_entry


@pytest.mark.parametrize("code", [None, REFUSED, DledgerCode.REPEATED_PUSH])
def test_a_push_that_went_wrong_is_compared_again(code: int | None) -> None:
    alone = leader(1)
    (compare,) = pushes(alone)
    answer(alone, compare, OK, 0)
    alone.put(2, b"new")
    alone.take()
    (append,) = pushes(alone)
    if code is None:
        alone.member.answered(alone.now, "n1", append, None)
        alone.take()
    else:
        answer(alone, append, code, 0)
    alone.wait(alone.member.settings.push_retry_ms)
    again = pushes(alone)
    assert [push.type for push in again] == [PushType.COMPARE]


def test_an_entry_without_an_answer_is_sent_again() -> None:
    alone = leader(1)
    (compare,) = pushes(alone)
    answer(alone, compare, OK, 0)
    alone.put(2, b"new")
    alone.take()
    (append,) = pushes(alone)
    alone.now += alone.member.settings.push_resend_ms
    alone.take()
    assert pushes(alone)[0] is append


def test_an_entry_that_was_mended_is_read_again() -> None:
    """The damaged one may be under way, and kept for other peers."""
    alone = leader(1)
    (compare,) = pushes(alone)
    answer(alone, compare, OK, 0)
    alone.put(2, b"right")
    right = alone.log.stored[-1]
    alone.log.stored[-1] = replace(right, body=b"wrong")
    alone.take()
    (append,) = pushes(alone)
    assert [each.body for each in append.batch_entry] == [b"wrong"]
    alone.log.stored[-1] = right
    alone.member.entry_mended(alone.now)
    alone.take()
    (compare,) = pushes(alone)
    assert shown(compare) == (PushType.COMPARE, 1, 1)
    (compare,) = answer(alone, compare, REFUSED, 0)
    (append,) = answer(alone, compare, OK, 0)
    assert append.batch_entry == [right]


def test_an_entry_that_cannot_be_read_is_tried_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Group({name: log_of(1) for name in NAMES})
    name = group.elect()
    group.wait(1000)
    log = group.logs[name]
    entries, bad, tried = log.entries, log.end_index + 1, []

    def read(first: int, most: int) -> list[Entry]:
        tried.append(group.now)
        return entries(first, most) if first < bad else []

    monkeypatch.setattr(log, "entries", read)
    group.put(name, b"damaged")
    group.wait(10_000)
    assert 10 <= len(tried) <= 120
    assert group.leaders() == [name]
    monkeypatch.undo()
    group.wait(1100)
    assert {each.end_index for each in group.logs.values()} == {bad}


def test_a_commit_that_shows_a_shorter_log_leads_to_a_comparison() -> None:
    alone = leader(1, 1, 1)
    (compare,) = pushes(alone)
    answer(alone, compare, OK, 2)
    alone.now += alone.member.settings.push_resend_ms
    alone.take()
    (commit,) = pushes(alone)
    assert commit.type is PushType.COMMIT
    answer(alone, commit, OK, 0)
    alone.wait(alone.member.settings.push_retry_ms)
    (compare,) = pushes(alone)
    assert shown(compare) == (PushType.COMPARE, 0, 0)


def test_a_lone_entry_is_told_to_be_committed_soon() -> None:
    group = Group({name: log_of(1) for name in NAMES})
    name = group.elect()
    group.wait(500)
    group.put(name, b"alone")
    end = group.logs[name].end_index
    group.wait(group.members[name].settings.commit_idle_ms + 1)
    assert {member.committed_index for member in group.members.values()} == {end}


# --- what is committed


def test_entries_of_earlier_terms_wait_for_one_of_this() -> None:
    group = Group({name: log_of(1, 1) for name in NAMES})
    group.writes = lambda _: False
    name = group.elect()
    group.wait(3000)
    assert group.members[name].match_index(next(n for n in NAMES if n != name)) == 1
    assert group.members[name].committed_index == -1
    group.put(name, b"own")
    group.settle()
    assert group.members[name].committed_index == 2


def test_a_leader_asks_for_a_record_only_where_something_waits_for_it() -> None:
    group = Group()
    asked: list[str] = []
    group.writes = lambda name: bool(asked.append(name))
    group.elect()
    assert asked == []


def test_a_single_member_commits_alone() -> None:
    group = Group({"n0": ListLog()})
    group.elect()
    group.put("n0", b"one")
    assert group.members["n0"].committed_index == 0


# --- giving up


def test_a_leader_without_a_quorum_gives_up() -> None:
    alone = leader(1)
    alone.wait(901)
    assert (alone.member.role, alone.deposed) == (Role.CANDIDATE, 1)


def test_one_of_two_others_is_enough() -> None:
    alone = leader(1)
    for _ in range(20):
        alone.wait(200)
        for beat in alone.sent(HeartbeatRequest):
            if beat.remote_id == "n1":
                alone.member.answered(alone.now, "n1", beat, HeartbeatResponse())
                alone.take()
    assert alone.member.role is Role.LEADER
    assert alone.member.follows(alone.now, "n1")
    assert not alone.member.follows(alone.now, "n2")


def test_a_larger_term_ends_it_at_once() -> None:
    alone = leader(1)
    (beat,) = [b for b in alone.sent(HeartbeatRequest) if b.remote_id == "n1"]
    late = HeartbeatResponse(code=DledgerCode.EXPIRED_TERM, term=8)
    alone.member.answered(alone.now, "n1", beat, late)
    assert alone.deposed == 1
    alone.take()
    assert (alone.member.role, alone.last.hard_state) == (Role.CANDIDATE, HardState(8, None))


def test_one_that_was_not_ready_gets_the_next_heartbeat_at_once() -> None:
    alone = leader(1)
    (beat,) = [b for b in alone.sent(HeartbeatRequest) if b.remote_id == "n1"]
    alone.member.answered(alone.now, "n1", beat, HeartbeatResponse(code=DledgerCode.TERM_NOT_READY))
    alone.take()
    assert [b.remote_id for b in alone.sent(HeartbeatRequest)] == ["n1"]
