"""Oddities of the original's elections that its members rely on (``docs/quirks.md``)."""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerBody,
    DledgerCode,
    HeartbeatRequest,
    PushRequest,
    PushResponse,
    PushType,
    VoteRequest,
    VoteResponse,
    VoteResult,
)
from aiorocketmq.store.raft.member import Member
from aiorocketmq.store.raft.ready import HardState
from aiorocketmq.store.raft.settings import RaftSettings

from .list_log import ListLog

SETTINGS = RaftSettings("G", "n0", {"n0": "a:1", "n1": "b:1", "n2": "c:1"})


def member(term: int, entry_terms: tuple[int, ...]) -> Member:
    log = ListLog()
    for each in entry_terms:
        log.put(each, b"record")
    state = HardState(term)
    return Member(SETTINGS, state, log, lambda a, _b: a, 0, committed=-1, votes=True)


def answer(to: Member, request: DledgerBody) -> DledgerBody:
    to.receive(1, request, "token")
    (found,) = (each.body for each in to.take(1).answers if each.token == "token")
    return found


def vote(term: int, end_term: int, end_index: int) -> VoteRequest:
    return VoteRequest(
        group="G",
        remote_id="n0",
        local_id="n1",
        leader_id="n1",
        term=term,
        ledger_end_term=end_term,
        ledger_end_index=end_index,
    )


@pytest.mark.parametrize(
    ("end_term", "end_index", "result"),
    [
        (2, 9, VoteResult.REJECT_EXPIRED_LEDGER_TERM),
        (3, 0, VoteResult.REJECT_SMALL_LEDGER_END_INDEX),
    ],
)
def test_a_shorter_log_is_refused_whatever_its_term(
    end_term: int, end_index: int, result: VoteResult
) -> None:
    """And that term is not taken over."""
    voter = member(3, (1, 3))
    found = answer(voter, vote(100, end_term, end_index))
    assert isinstance(found, VoteResponse)
    assert (found.vote_result, voter.term) == (result, 3)


def test_a_larger_term_gets_a_vote_in_the_second_round() -> None:
    voter = member(3, (1, 3))
    first = answer(voter, vote(4, 3, 1))
    assert isinstance(first, VoteResponse)
    assert first.vote_result == VoteResult.REJECT_TERM_NOT_READY
    voter.tick(100)
    voter.take(100)
    second = answer(voter, vote(4, 3, 1))
    assert isinstance(second, VoteResponse)
    assert (second.vote_result, voter.term) == (VoteResult.ACCEPT, 4)


def test_a_push_is_answered_with_the_term_of_its_request() -> None:
    follower = member(3, ())
    heartbeat = HeartbeatRequest(group="G", remote_id="n0", local_id="n1", leader_id="n1", term=3)
    answer(follower, heartbeat)
    push = PushRequest(
        group="G", remote_id="n0", local_id="n1", leader_id="n1", term=2, type=PushType.COMMIT
    )
    found = answer(follower, push)
    assert isinstance(found, PushResponse)
    assert (found.term, found.code) == (2, DledgerCode.SUCCESS)
