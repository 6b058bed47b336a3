"""Who gets a vote, in the order of ``dledger.md`` §3.4, and what heartbeats do (§3.5)."""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerCode,
    HeartbeatResponse,
    VoteRequest,
    VoteResponse,
    VoteResult,
)
from aiorocketmq.store.raft.ready import HardState, Role

from .lab import Alone

SAME = (2, 1)
"""Where the log of a member with entries of the terms 1 and 2 ends."""


def voter(term: int = 3, vote: str | None = None) -> Alone:
    return Alone(1, 2, hard=HardState(term, vote))


@pytest.mark.parametrize(
    ("term", "end", "candidate", "result"),
    [
        (9, SAME, "n9", VoteResult.REJECT_UNKNOWN_LEADER),
        (9, SAME, "n0", VoteResult.REJECT_UNEXPECTED_LEADER),
        (9, (1, 7), "n1", VoteResult.REJECT_EXPIRED_LEDGER_TERM),
        (9, (2, 0), "n1", VoteResult.REJECT_SMALL_LEDGER_END_INDEX),
        (1, (1, 7), "n1", VoteResult.REJECT_EXPIRED_LEDGER_TERM),
        (2, SAME, "n1", VoteResult.REJECT_EXPIRED_VOTE_TERM),
        (4, SAME, "n1", VoteResult.REJECT_TERM_NOT_READY),
        (3, SAME, "n1", VoteResult.ACCEPT),
        (3, (2, 9), "n1", VoteResult.ACCEPT),
        (3, (3, 0), "n1", VoteResult.ACCEPT),
    ],
)
def test_votes(term: int, end: tuple[int, int], candidate: str, result: VoteResult) -> None:
    answer = voter().vote(term, end, candidate)
    assert (answer.vote_result, answer.term, answer.code) == (result, 3, 200)
    assert answer.leader_id == candidate


def test_a_vote_is_durable_before_it_is_given_and_may_be_repeated() -> None:
    alone = voter()
    assert alone.vote(3, SAME).vote_result is VoteResult.ACCEPT
    assert alone.last.hard_state == HardState(3, "n1")
    assert alone.vote(3, SAME).vote_result is VoteResult.ACCEPT
    assert alone.vote(3, SAME, "n2").vote_result is VoteResult.REJECT_ALREADY_VOTED


def test_a_vote_is_kept_over_a_start() -> None:
    assert voter(3, "n2").vote(3, SAME).vote_result is VoteResult.REJECT_ALREADY_VOTED


def test_whoever_follows_says_that_there_is_a_leader() -> None:
    alone = voter(3, "n2")
    alone.follow(3, "n2")
    assert alone.vote(3, SAME).vote_result is VoteResult.REJECT_ALREADY_HAS_LEADER


def test_a_larger_term_ends_leadership_of_both_and_gets_its_vote_the_second_time() -> None:
    alone = voter()
    alone.follow(3, "n2")
    assert alone.vote(5, SAME).vote_result is VoteResult.REJECT_TERM_NOT_READY
    assert alone.last.hard_state == HardState(5, None)
    assert alone.member.role is Role.CANDIDATE
    assert alone.vote(5, SAME).vote_result is VoteResult.ACCEPT


def test_a_larger_term_with_a_worse_log_changes_nothing() -> None:
    alone = voter()
    alone.follow(3, "n2")
    alone.vote(9, (1, 50))
    assert (alone.member.term, alone.member.role) == (3, Role.FOLLOWER)


@pytest.mark.parametrize(("group", "to", "code"), [("X", "n0", 400), ("G", "n7", 401)])
def test_requests_for_others(group: str, to: str, code: int) -> None:
    request = VoteRequest(group=group, remote_id=to, local_id="n1", leader_id="n1", term=3)
    answer = voter().ask(VoteResponse, request)
    assert (answer.code, answer.vote_result, answer.term) == (code, VoteResult.UNKNOWN, 3)


def test_an_entry_of_a_term_that_was_not_synced_counts() -> None:
    alone = Alone(1, 6, hard=HardState(4, "n2"))
    assert alone.member.term == 6
    assert alone.vote(6, (6, 1)).vote_result is VoteResult.ACCEPT


@pytest.mark.parametrize(
    ("term", "leader", "code", "told"),
    [
        (3, "n9", DledgerCode.UNKNOWN_MEMBER, 3),
        (3, "n0", DledgerCode.UNEXPECTED_MEMBER, 3),
        (2, "n1", DledgerCode.EXPIRED_TERM, 3),
        (3, "n1", DledgerCode.SUCCESS, -1),
        (4, "n1", DledgerCode.TERM_NOT_READY, -1),
    ],
)
def test_heartbeats(term: int, leader: str, code: DledgerCode, told: int) -> None:
    alone = voter()
    answer = alone.ask(HeartbeatResponse, alone.beat(term, leader))
    assert (answer.code, answer.term) == (code, told)


def test_a_second_leader_of_a_term_is_refused() -> None:
    alone = voter()
    alone.follow(3, "n2")
    answer = alone.ask(HeartbeatResponse, alone.beat(3, "n1"))
    assert answer.code == DledgerCode.INCONSISTENT_LEADER


@pytest.mark.parametrize(("pace", "limit"), [(300, 900), (50, 150), (None, 6000)])
def test_a_silent_leader_is_given_up_after_what_it_said(pace: int | None, limit: int) -> None:
    alone = voter()
    alone.follow(3)
    alone.ask(HeartbeatResponse, alone.beat(3, pace=pace))
    alone.wait(limit)
    assert alone.member.role is Role.FOLLOWER
    alone.wait(1)
    assert (alone.member.role, alone.member.term) == (Role.CANDIDATE, 3)
