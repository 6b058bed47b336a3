"""How a candidate decides (``dledger.md`` §3.3), and when it does not even stand."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import (
    MetadataRequest,
    MetadataResponse,
    VoteRequest,
    VoteResponse,
    VoteResult,
)
from aiorocketmq.store.raft.ready import HardState, Role

from .lab import NAMES, Alone, Group, log_of

V = VoteResult
WAIT, REVOTE, NEXT = "the same term again", "at once", "a later term"


def known(**fields: Any) -> MetadataResponse:
    usual = {"ledger_end_index": 0, "ledger_end_term": 1, "votes": True, "term": 1}
    return MetadataResponse(**usual | fields)


def asked(alone: Alone, *answers: MetadataResponse | None) -> list[VoteRequest]:
    """What the peers say when it asks next, and the votes that it asks for then."""
    while not (questions := [o for o in alone.requests if isinstance(o.request, MetadataRequest)]):
        alone.wait(50)
    alone.requests.clear()
    for out, answer in zip(questions, answers, strict=False):
        assert isinstance(out.request, MetadataRequest)
        alone.member.answered(alone.now, out.peer, out.request, answer)
        alone.take()
    return alone.sent(VoteRequest)


def voted(alone: Alone, votes: list[VoteRequest], *results: VoteResult, term: int = -1) -> None:
    for vote, result in zip(votes, results, strict=False):
        peer = vote.remote_id
        assert peer is not None
        answer = VoteResponse(term=vote.term if term < 0 else term, vote_result=result)
        alone.member.answered(alone.now, peer, vote, None if result is V.UNKNOWN else answer)
        alone.take()


@pytest.mark.parametrize(
    ("results", "what"),
    [
        ((V.REJECT_ALREADY_HAS_LEADER,), WAIT),
        ((V.UNKNOWN, V.UNKNOWN), WAIT),
        ((V.REJECT_EXPIRED_LEDGER_TERM, V.REJECT_SMALL_LEDGER_END_INDEX), WAIT),
        ((V.REJECT_TERM_NOT_READY,), REVOTE),
        ((V.REJECT_ALREADY_VOTED, V.REJECT_ALREADY_VOTED), NEXT),
        ((V.REJECT_ALREADY_VOTED, V.REJECT_TAKING_LEADERSHIP), NEXT),
    ],
)
def test_rounds(results: tuple[VoteResult, ...], what: str) -> None:
    alone = Alone(1)
    votes = asked(alone, known(), known())
    term = votes[0].term
    assert term == 2
    voted(alone, votes, *results)
    assert alone.member.role is Role.CANDIDATE
    if what is REVOTE:
        again = alone.sent(VoteRequest)
    else:
        assert alone.sent(VoteRequest) == []
        again = asked(alone, known(), known())
    assert again[0].term == (term + 1 if what is NEXT else term)


def test_a_quorum_of_votes_decides() -> None:
    alone = Alone(1)
    votes = asked(alone, known(), known())
    assert alone.hard == HardState(2, "n0")
    voted(alone, votes, V.ACCEPT)
    assert alone.member.role is Role.LEADER


def test_a_larger_term_is_taken_over() -> None:
    alone = Alone(1)
    votes = asked(alone, known(), known())
    voted(alone, votes, V.REJECT_EXPIRED_VOTE_TERM, V.UNKNOWN, term=9)
    assert asked(alone, known(), known())[0].term == 10


def test_the_own_vote_from_before_the_start_is_not_used_again() -> None:
    alone = Alone(1, hard=HardState(4, "n0"))
    assert asked(alone, known(), known())[0].term == 5


@pytest.mark.parametrize(
    "answers",
    [
        (None, None),
        (None, known(ledger_end_index=1)),
        (known(ledger_end_term=2), known(ledger_end_index=5)),
        (known(leader_id="n2", leader_heard_ms=0, leader_pace_ms=300),) * 2,
        (known(leader_id="n2", leader_heard_ms=599, leader_pace_ms=300), None),
        (known(leader_id="n2", leader_heard_ms=3000, leader_pace_ms=2000), None),
        (MetadataResponse(leader_id="n2"), MetadataResponse(leader_id="n2")),
    ],
    ids=[
        "nobody answers", "a better log", "better logs", "a leader", "a leader that was heard",
        "a slow leader that was heard", "a leader of the original's",
    ],
)  # fmt: skip
def test_no_term_is_raised_in_vain(answers: tuple[MetadataResponse | None, ...]) -> None:
    alone = Alone(1)
    for _ in range(5):
        assert asked(alone, *answers) == []
        alone.wait(600)
    assert (alone.member.term, alone.hard) == (1, None)


@pytest.mark.parametrize(
    "answer",
    [
        known(),
        known(leader_id="n0", leader_heard_ms=0, leader_pace_ms=300),
        known(leader_id="n2", leader_heard_ms=600, leader_pace_ms=300),
        MetadataResponse(),
    ],
    ids=["no leader", "itself, from before", "a leader that is silent", "one of the original's"],
)
def test_one_that_would_vote_is_enough(answer: MetadataResponse) -> None:
    assert len(asked(Alone(1), answer)) == 2


def test_terms_of_the_others_are_known_before() -> None:
    assert asked(Alone(1), known(term=7))[0].term == 8


# --- of a group


def test_three_elect_one_and_agree() -> None:
    group = Group()
    leader = group.elect()
    group.wait(1000)
    assert {member.leader_id for member in group.members.values()} == {leader}
    assert {member.term for member in group.members.values()} == {1}


@pytest.mark.parametrize("seed", range(5))
def test_a_dead_leader_is_replaced_within_two_seconds(seed: int) -> None:
    group = Group({name: log_of(1) for name in NAMES})
    group.random.seed(seed)
    dead = group.elect()
    group.wait(1000)
    group.down.add(dead)
    gone = group.now
    while not [name for name in group.leaders() if name != dead]:
        group.wait(10)
        assert group.now - gone < 1700
    (leader,) = (name for name in group.leaders() if name != dead)
    group.wait(100)
    assert group.members[leader].committed_index == group.logs[leader].end_index


def test_one_that_hears_nobody_raises_no_term_and_disturbs_nobody_when_it_is_back() -> None:
    group = Group({name: log_of(1) for name in NAMES})
    leader = group.elect()
    group.wait(1000)
    term = group.members[leader].term
    away = next(name for name in NAMES if name != leader)
    group.cut_off(away)
    group.wait(30_000)
    assert group.members[away].role is Role.CANDIDATE
    group.cut.clear()
    group.wait(1000)
    assert group.leaders() == [leader]
    assert {member.term for member in group.members.values()} == {term}
    assert group.members[away].role is Role.FOLLOWER


def test_one_that_the_leader_does_not_reach_disturbs_nobody() -> None:
    group = Group({name: log_of(1) for name in NAMES})
    leader = group.elect()
    group.wait(1000)
    deaf = next(name for name in NAMES if name != leader)
    group.cut = {(leader, deaf)}
    term = group.members[leader].term
    group.wait(10_000)
    assert (group.leaders(), group.members[leader].term) == ([leader], term)
