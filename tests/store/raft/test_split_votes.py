"""Two of three whose leader is gone: they do not stand in the same moment, and where they did, they
do not wait for the third."""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import (
    HeartbeatRequest,
    MetadataRequest,
    MetadataResponse,
    VoteRequest,
    VoteResponse,
    VoteResult,
)
from aiorocketmq.store.raft.candidacy import MOST_DOUBLINGS
from aiorocketmq.store.raft.member import Member
from aiorocketmq.store.raft.ready import HardState, Role
from aiorocketmq.store.raft.settings import RaftSettings

from .list_log import ListLog

PEERS = {"n0": "h:1", "n1": "h:2", "n2": "h:3"}
SETTINGS = RaftSettings("g", "n0", PEERS)


def member(drawn: int) -> Member:
    """Whose random numbers are ``drawn``, or the largest that may be."""
    return Member(
        SETTINGS,
        HardState(1, None),
        ListLog(),
        lambda _least, most: min(drawn, most),
        0,
        committed=-1,
        votes=True,
    )


def led(candidate: Member, now: int = 0, term: int = 1) -> int:
    """It has a leader, which is silent then. When it notices."""
    request = HeartbeatRequest(
        group="g",
        remote_id="n0",
        local_id="n2",
        leader_id="n2",
        term=term,
        heart_beat_time_interval_ms=SETTINGS.heartbeat_ms,
    )
    for _ in range(2):  # the first one of a later term only brings the term
        candidate.receive(now, request, "token")
        candidate.take(now)
    assert candidate.role is Role.FOLLOWER
    return candidate.next_deadline_ms


@pytest.mark.parametrize("drawn", [1, 40, 1000])
def test_silence_ends_for_everybody_at_another_time(drawn: int) -> None:
    candidate = member(drawn)
    silent = led(candidate)
    candidate.tick(silent)
    candidate.take(silent)
    assert candidate.role is Role.CANDIDATE
    assert candidate.next_deadline_ms == silent + min(drawn, SETTINGS.vote_min_ms)
    candidate.tick(candidate.next_deadline_ms)
    asked = candidate.take(candidate.next_deadline_ms).requests
    assert {type(each.request) for each in asked} == {MetadataRequest}


def stand(candidate: Member, now: int) -> tuple[int, VoteRequest]:
    """When it asks n1 for its vote, and how; n1 would vote for it."""
    while True:
        candidate.tick(now)
        asked = candidate.take(now).requests
        for each in asked:
            if isinstance(each.request, MetadataRequest) and each.peer == "n1":
                answer = MetadataResponse(
                    group="g", term=1, ledger_end_index=-1, ledger_end_term=-1, votes=True
                )
                candidate.answered(now, "n1", each.request, answer)
                asked = candidate.take(now).requests
        for each in asked:
            if isinstance(each.request, VoteRequest) and each.peer == "n1":
                return now, each.request
        now = candidate.next_deadline_ms


def refuse(candidate: Member, now: int, vote: VoteRequest) -> int:
    """n1 has voted for itself. When the candidate does something again."""
    refusal = VoteResponse(term=vote.term, vote_result=VoteResult.REJECT_ALREADY_VOTED)
    candidate.answered(now, "n1", vote, refusal)
    candidate.take(now)
    return candidate.next_deadline_ms


def test_split_votes_do_not_wait_for_one_that_stands_still() -> None:
    candidate = member(1000)
    now, vote = stand(candidate, led(candidate))
    assert refuse(candidate, now, vote) - now <= SETTINGS.vote_max_ms


def test_terms_that_come_to_nothing_have_longer_and_longer_waits_between_them() -> None:
    """Until it has a leader again."""
    candidate = member(1 << 30)
    now, waits = led(candidate), []
    for _ in range(MOST_DOUBLINGS + 3):
        now, vote = stand(candidate, now)
        following = refuse(candidate, now, vote)
        waits.append(following - now)
        now = following
    longest = SETTINGS.vote_max_ms << MOST_DOUBLINGS
    assert waits == [min(SETTINGS.vote_max_ms << n, longest) for n in range(len(waits))]
    later = led(candidate, now, candidate.term + 1)
    now, vote = stand(candidate, later)
    assert refuse(candidate, now, vote) - now == SETTINGS.vote_max_ms
