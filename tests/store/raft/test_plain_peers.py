"""Members whose peers say nothing that the original's would not say: they elect, replicate and fail
over, as fast as such peers allow."""

from __future__ import annotations

import msgspec

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerBody,
    HeartbeatRequest,
    MetadataResponse,
)
from aiorocketmq.store.raft.ready import Role

from .lab import NAMES, Group, log_of


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
