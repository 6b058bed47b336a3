"""Members whose peers say nothing that the original's would not say: they elect, replicate and fail
over, as fast as such peers allow."""

from __future__ import annotations

import msgspec

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerBody,
    HeartbeatRequest,
    MetadataRequest,
    MetadataResponse,
    PushType,
)
from aiorocketmq.store.raft.ready import HardState, Role

from .lab import NAMES, Alone, Group, log_of


class PlainGroup(Group):
    """Everything arrives without the keys that only members of ours write."""

    def on_the_wire(self, body: DledgerBody) -> DledgerBody:
        if isinstance(body, HeartbeatRequest):
            return msgspec.structs.replace(body, heart_beat_time_interval_ms=None)
        if isinstance(body, MetadataResponse):
            return MetadataResponse(group=body.group, leader_id=body.leader_id, peers=body.peers)
        return body


def test_they_elect_and_replicate() -> None:
    group = PlainGroup()
    leader = group.elect()
    group.put(leader, b"first")
    group.wait(1000)
    assert {member.committed_index for member in group.members.values()} == {0}


def test_a_dead_leader_is_replaced_within_eight_seconds() -> None:
    group = PlainGroup({name: log_of(1) for name in NAMES})
    dead = group.elect()
    group.wait(1000)
    group.down.add(dead)
    gone = group.now
    while not [name for name in group.leaders() if name != dead]:
        group.wait(100)
        assert group.now - gone < 8000
    assert group.now - gone > 5000


def test_one_that_was_cut_off_disturbs_nobody() -> None:
    group = PlainGroup({name: log_of(1) for name in NAMES})
    leader = group.elect()
    group.wait(1000)
    term = group.members[leader].term
    away = next(name for name in NAMES if name != leader)
    group.cut_off(away)
    group.wait(30_000)
    group.cut.clear()
    group.wait(3000)
    assert (group.leaders(), group.members[leader].term) == ([leader], term)
    assert group.members[away].role is Role.FOLLOWER


def test_one_that_lost_its_log_votes_once_it_has_followed_long_enough() -> None:
    group = PlainGroup({name: log_of(1, 1) for name in NAMES})
    leader = group.elect()
    group.wait(1000)
    lost = next(name for name in NAMES if name != leader)
    group.logs[lost].stored.clear()
    group.start(lost, votes=False)
    group.wait(5000)
    assert not group.members[lost].votes
    group.wait(5000)
    assert group.members[lost].votes
    assert group.logs[lost].stored == group.logs[leader].stored


class FollowsPlain(Alone):
    """It has lost its log, and follows a leader that says nothing about its own."""

    def __init__(self) -> None:
        super().__init__(hard=HardState(3), votes=False)
        self.follow(3)

    def goes_on(self, ms: int) -> None:
        """The leader's heart beats, and it tells that it leads, when it is asked."""
        for _ in range(ms // 100):
            self.wait(100)
            self.member.receive(self.now, self.beat(3, pace=None), None)
            told = MetadataResponse(group="G", leader_id="n1", peers=dict.fromkeys(NAMES, ""))
            for out in self.requests:
                if isinstance(out.request, MetadataRequest):
                    self.member.answered(self.now, out.peer, out.request, told)
            self.requests.clear()
            self.take()


def test_one_that_is_sent_its_log_slowly_votes_when_it_has_what_is_committed() -> None:
    alone, (first, *rest) = FollowsPlain(), log_of(*[3] * 20).stored
    alone.pushed(PushType.TRUNCATE, 3, first, commit_index=15)
    for entry in rest:
        assert alone.member.votes == (alone.log.end_index >= 15)
        alone.goes_on(1000)
        alone.pushed(PushType.APPEND, 3, entry, commit_index=15 + (entry.index == 19))
    assert alone.member.votes


def test_one_that_is_sent_nothing_does_not_vote() -> None:
    """It may be that the leader only has not begun."""
    alone = FollowsPlain()
    alone.goes_on(20_000)
    assert not alone.member.votes
    (first,) = log_of(3).stored
    alone.pushed(PushType.TRUNCATE, 3, first, commit_index=-1)
    alone.goes_on(1000)
    assert not alone.member.votes
    alone.pushed(PushType.COMMIT, 3, commit_index=0)
    alone.goes_on(1000)
    assert alone.member.votes
