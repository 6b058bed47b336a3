"""What the state of a member refuses, whoever asks for it (``docs/design/promises.md``)."""

from __future__ import annotations

import pytest

from aiorocketmq.store.raft.entry_log import CommittedConflict
from aiorocketmq.store.raft.ready import HardState
from aiorocketmq.store.raft.state import MemberState

from .lab import log_of, settings


def state_of(*terms: int, vote: str | None = None) -> MemberState:
    return MemberState(settings(), HardState(5, vote), log_of(*terms), lambda low, _high: low)


@pytest.mark.parametrize("term", [5, 4])
def test_a_term_comes_once(term: int) -> None:
    state = state_of(vote="n1")
    with pytest.raises(CommittedConflict, match="cannot follow term 5"):
        state.raise_term(term)
    assert (state.term, state.vote) == (5, "n1")
    state.raise_term(6)
    assert (state.term, state.vote) == (6, None)


def test_the_vote_of_a_term_is_given_once() -> None:
    state = state_of(vote="n1")
    state.vote_for("n1")
    with pytest.raises(CommittedConflict, match="the vote of term 5 is n1's"):
        state.vote_for("n2")
    assert state.vote == "n1"


@pytest.mark.parametrize("vote", [None, "n1"])
def test_nobody_leads_without_his_own_vote(vote: str | None) -> None:
    state = state_of(vote=vote)
    with pytest.raises(CommittedConflict, match="cannot lead"):
        state.become_leader(0)
    assert state.leader_id is None


def test_what_is_committed_only_grows_and_is_there() -> None:
    state = state_of(1, 2, 3)
    state.commit(1)
    state.commit(0)
    assert state.committed == 1
    with pytest.raises(CommittedConflict, match="entry 3 cannot be committed"):
        state.commit(3)
    assert state.committed == 1
