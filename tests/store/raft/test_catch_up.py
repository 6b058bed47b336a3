"""Who has lost what it acknowledged does not vote until it has all of it again."""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import VoteResult
from aiorocketmq.store.raft.ready import HardState

from .lab import NAMES, Alone, Group, log_of
from .list_log import ListLog


def test_a_marked_member_gives_no_vote() -> None:
    alone = Alone(hard=HardState(3), votes=False)
    assert alone.vote(3, (2, 5)).vote_result is VoteResult.UNKNOWN
    assert alone.vote(4, (2, 5)).vote_result is VoteResult.UNKNOWN
    assert alone.member.term == 3


def test_a_member_without_a_disk_finds_out_by_a_peer_that_has_a_log() -> None:
    alone = Alone()
    assert alone.vote(0, (2, 5)).vote_result is VoteResult.UNKNOWN
    assert alone.last.votes is False
    assert not alone.member.votes


@pytest.mark.parametrize("first", [(4, 10), (-1, -1)], ids=["it has a log", "it lost its log"])
def test_a_member_without_a_disk_votes_in_no_term_in_which_it_may_have(
    first: tuple[int, int],
) -> None:
    """Whoever told of that, before it found out or with what made it find out."""
    alone = Alone()
    alone.wait(100)
    for _ in range(2):
        alone.tell_end("n1", first, votes=first[1] >= 0, term=5)
        alone.tell_end("n2", (4, 10), term=4)
        alone.wait(500)
    assert alone.vote(5, (4, 10), "n2").vote_result is VoteResult.REJECT_TERM_NOT_READY
    assert alone.vote(5, (4, 10), "n2").vote_result is VoteResult.REJECT_ALREADY_VOTED
    assert alone.vote(6, (4, 10), "n2").vote_result is VoteResult.REJECT_TERM_NOT_READY
    assert alone.vote(6, (4, 10), "n2").vote_result is VoteResult.ACCEPT


def test_a_new_member_votes_for_a_new_one() -> None:
    assert Alone().vote(0, (-1, -1)).vote_result is VoteResult.ACCEPT


def test_a_new_member_that_has_voted_knows_that_the_group_is_new() -> None:
    alone = Alone()
    alone.vote(0, (-1, -1))
    assert alone.vote(0, (0, 3)).vote_result is VoteResult.ACCEPT


def test_a_group_of_empty_members_elects() -> None:
    group = Group()
    leader = group.elect()
    group.put(leader, b"first")
    group.wait(1000)
    assert {member.committed_index for member in group.members.values()} == {0}
    assert all(member.votes for member in group.members.values())


def test_a_group_whose_members_all_lost_their_logs_elects_when_all_are_there() -> None:
    group = Group()
    group.down.update(NAMES)
    for name in NAMES[:2]:
        group.start(name, votes=False)
    group.wait(20_000)
    assert group.leaders() == []
    group.start("n2", votes=False)
    group.elect()


def test_one_that_lost_its_log_cannot_make_a_worse_one_lead() -> None:
    """n0 and n1 have acknowledged an entry that n2 lacks; n1 loses it while n0 is away."""
    group = Group({"n0": log_of(1, 1), "n1": ListLog(), "n2": log_of(1)})
    group.down.update(NAMES)
    group.start("n1", votes=False)
    group.start("n2")
    group.wait(20_000)
    assert group.leaders() == []
    group.start("n0")
    assert group.elect() == "n0"
    group.wait(3000)
    assert all(member.votes for member in group.members.values())
    assert {log.end_index for log in group.logs.values()} == {2}


def test_one_that_lost_its_log_votes_again_with_what_its_leader_had() -> None:
    group = Group({"n0": log_of(1, 1), "n1": log_of(1, 1), "n2": ListLog()})
    group.down.add("n2")
    leader = group.elect()
    group.start("n2", votes=False)
    assert not group.members["n2"].votes
    group.wait(5000)
    assert group.members["n2"].votes
    assert group.logs["n2"].stored == group.logs[leader].stored


@pytest.mark.parametrize("names", [("n0",), NAMES])
def test_nothing_is_asked_of_those_that_vote(names: tuple[str, ...]) -> None:
    group = Group({name: log_of(1) for name in names})
    group.elect()
    assert all(member.votes for member in group.members.values())


def test_a_single_member_without_its_log_begins_anew() -> None:
    group = Group({"n0": ListLog()})
    group.start("n0", votes=False)
    assert group.elect() == "n0"


def who_lost_its_log() -> Alone:
    """It has asked the others."""
    alone = Alone(hard=HardState(3), votes=False)
    alone.wait(0)
    return alone


def test_what_another_had_and_has_no_more_keeps_nobody_from_leading() -> None:
    alone = who_lost_its_log()
    alone.tell_end("n1", (2, 9))
    alone.tell_end("n2", (2, 5))
    assert alone.vote(3, (2, 5)).vote_result is VoteResult.UNKNOWN
    alone.wait(1000)
    alone.tell_end("n1", (2, 5))  # a leader cut what it had alone
    alone.tell_end("n2", (2, 5))
    assert alone.vote(3, (2, 5)).vote_result is VoteResult.ACCEPT


def test_answers_to_a_candidate_count_as_well() -> None:
    """Its own questions come first, and go on."""
    alone = who_lost_its_log()
    for end in [(2, 9)] * 50 + [(2, 5)] * 10:
        alone.wait(100)
        alone.tell_end("n1", end)
        alone.tell_end("n2", (2, 5))
    assert alone.vote(3, (2, 5)).vote_result is VoteResult.ACCEPT


def test_who_begins_to_follow_asks_at_once_what_there_is_to_catch_up() -> None:
    """Its leader may be lost in a moment, and then it is needed."""
    alone = who_lost_its_log()
    alone.tell_end("n1", (2, 5))
    alone.tell_end("n2", (2, 5))
    alone.requests.clear()
    alone.follow(3)
    alone.wait(0)
    assert sorted(out.peer for out in alone.requests) == ["n1", "n2"]


def test_who_answered_before_another_lost_its_log_is_asked_again() -> None:
    """n2 had not yet stored what n1 and this one had acknowledged, when it answered; then n1 lost
    it."""
    alone = who_lost_its_log()
    alone.tell_end("n2", (2, 5))
    alone.tell_end("n1", (-1, -1), votes=False)
    assert alone.vote(3, (2, 5)).vote_result is VoteResult.UNKNOWN
    alone.wait(1000)
    alone.tell_end("n2", (2, 6))
    alone.tell_end("n1", (-1, -1), votes=False)
    assert alone.vote(3, (2, 5)).vote_result is VoteResult.UNKNOWN
    assert alone.vote(3, (2, 6), "n2").vote_result is VoteResult.ACCEPT
