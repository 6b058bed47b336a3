"""What lies in front of the entries: who has less of it does not lead while somebody else can, and
nobody is kept from leading for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerCode,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    TransferResponse,
    VoteRequest,
    VoteResponse,
    VoteResult,
)
from aiorocketmq.store.raft.old_log import NO_OLD_LOG, UNTOLD, OldLog, differ, has_less
from aiorocketmq.store.raft.ready import Role

from .lab import NAMES, Alone, Group, log_of

LONG, SHORT = OldLog(5000, 7), OldLog(4000, 8)
ENTRIES = (1, 1)


@pytest.mark.parametrize(
    ("candidate", "voter", "empty", "entries"),
    [
        (SHORT, LONG, True, True),
        (LONG, SHORT, False, False),
        (LONG, OldLog(5000, 9), False, False),
        (NO_OLD_LOG, SHORT, True, False),
        (SHORT, NO_OLD_LOG, False, False),
        (UNTOLD, LONG, False, False),
        (SHORT, UNTOLD, False, False),
        (NO_OLD_LOG, NO_OLD_LOG, False, False),
    ],
)
def test_who_has_less(candidate: OldLog, voter: OldLog, empty: bool, entries: bool) -> None:
    assert has_less(candidate, voter, no_entries=True) is empty
    assert has_less(candidate, voter, no_entries=False) is entries


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (LONG, LONG, False),
        (LONG, SHORT, True),
        (LONG, OldLog(5000, 9), True),
        (LONG, NO_OLD_LOG, False),
        (NO_OLD_LOG, LONG, False),
        (LONG, UNTOLD, False),
        (UNTOLD, UNTOLD, False),
    ],
)
def test_who_has_another_one(one: OldLog, other: OldLog, found: bool) -> None:
    assert differ(one, other) is found


def alone(*terms: int) -> Alone:
    member = Alone(*terms)
    member.log.old_log = LONG
    return member


def vote(member: Alone, term: int, end: tuple[int, int], old_log: OldLog) -> VoteResult:
    request = VoteRequest(
        group="G",
        remote_id="n0",
        local_id="n1",
        leader_id="n1",
        term=term,
        ledger_end_term=end[0],
        ledger_end_index=end[1],
        old_log_end=old_log.end,
        old_log_crc=old_log.crc,
    )
    return member.ask(VoteResponse, request).vote_result


@pytest.mark.parametrize("old_log", [LONG, OldLog(6000, 1), OldLog(5000, 9), NO_OLD_LOG, UNTOLD])
def test_as_much_of_it_gets_a_vote(old_log: OldLog) -> None:
    assert vote(alone(1, 2), 2, (2, 1), old_log) is VoteResult.ACCEPT


def test_less_of_it_gets_none_and_changes_nothing() -> None:
    member = alone(1, 2)
    assert vote(member, 9, (2, 1), SHORT) is VoteResult.REJECT_SMALL_LEDGER_END_INDEX
    assert (member.member.term, member.hard) == (2, None)
    assert vote(member, 2, (2, 5), SHORT) is VoteResult.ACCEPT, "entries count first"


def test_none_of_it_is_less_while_there_are_no_entries() -> None:
    refused = VoteResult.REJECT_SMALL_LEDGER_END_INDEX
    assert vote(alone(), 0, (-1, -1), NO_OLD_LOG) is refused
    assert vote(alone(), 0, (-1, -1), UNTOLD) is VoteResult.ACCEPT


@pytest.mark.parametrize(
    ("terms", "own", "others", "stands"),
    [
        ((1,), SHORT, LONG, False),
        ((1,), SHORT, UNTOLD, True),
        ((1,), LONG, SHORT, True),
        ((1,), NO_OLD_LOG, LONG, True),
        ((), NO_OLD_LOG, LONG, False),
        ((), SHORT, NO_OLD_LOG, True),
    ],
)
def test_nobody_stands_who_would_not_be_elected(
    terms: tuple[int, ...], own: OldLog, others: OldLog, stands: bool
) -> None:
    """Each round in vain raises the term, which deposes who leads."""
    member = Alone(*terms)
    member.log.old_log = own
    end = member.log.end_index, member.log.end_term
    for _ in range(20):
        member.wait(100)
        for out in [out for out in member.requests if isinstance(out.request, MetadataRequest)]:
            member.requests.remove(out)
            answer = MetadataResponse(
                ledger_end_index=end[0],
                ledger_end_term=end[1],
                votes=True,
                old_log_end=others.end,
                old_log_crc=others.crc,
            )
            member.member.answered(member.now, out.peer, out.request, answer)
            member.take()
    assert bool(member.sent(VoteRequest)) is stands
    assert (member.member.term > sum(terms)) is stands


def test_who_reads_no_such_thing_is_not_told_in_answers() -> None:
    member = alone(1)
    answer = member.ask(HeartbeatResponse, member.beat(1))
    assert answer == HeartbeatResponse()
    assert member.member.leader_old_log == UNTOLD


def test_leader_and_follower_tell_each_other() -> None:
    member = alone(1)
    beat = replace(member.beat(1), old_log_end=SHORT.end, old_log_crc=SHORT.crc)
    answer = member.ask(HeartbeatResponse, beat)
    assert (answer.old_log_end, answer.old_log_crc) == LONG
    assert member.member.role is Role.FOLLOWER
    assert member.member.leader_old_log == SHORT
    asked = MetadataRequest(group="G", remote_id="n0", local_id="n1")
    told = member.ask(MetadataResponse, asked)
    assert (told.old_log_end, told.old_log_crc) == LONG
    standing = alone(1).stand()
    assert (standing.old_log_end, standing.old_log_crc) == LONG


def group_of(old_logs: Sequence[OldLog], terms: Sequence[int], **other: Any) -> Group:
    """Nobody has heard of anybody yet."""
    logs = {name: log_of(*terms) for name in NAMES}
    for name, old_log in zip(NAMES, old_logs, strict=True):
        logs[name].old_log = old_log
    return Group(logs, **other)


@pytest.mark.parametrize("terms", [(), ENTRIES])
@pytest.mark.parametrize("first", ["n0", "n1", "n2"])
def test_of_three_one_with_more_leads(terms: tuple[int, ...], first: str) -> None:
    group = group_of((SHORT, LONG, LONG), terms)
    for name in group.members:
        if name != first:
            group.down.add(name)
    group.wait(2000)
    group.down.clear()
    leader = group.elect()
    assert leader != "n0"
    group.wait(2000)
    assert {m.leader_id for m in group.members.values()} == {leader}
    assert not group.members[leader].leader_old_log.end
    assert group.members["n0"].leader_old_log == LONG


def test_nobody_begins_a_group_without_what_others_have() -> None:
    group = group_of((NO_OLD_LOG, LONG, LONG), ())
    group.down.add("n2")
    assert group.elect() == "n1"


@pytest.mark.parametrize("terms", [(), ENTRIES])
@pytest.mark.parametrize(
    "old_logs",
    [
        (LONG, SHORT, NO_OLD_LOG),
        (SHORT, UNTOLD, LONG),
        (OldLog(1, 1), OldLog(2, 2), OldLog(3, 3)),
        (NO_OLD_LOG, NO_OLD_LOG, LONG),
        (LONG, OldLog(5000, 9), OldLog(5000, 1)),
    ],
)
@pytest.mark.parametrize("down", [None, "n0", "n1", "n2"])
def test_any_majority_elects(
    old_logs: tuple[OldLog, ...], terms: tuple[int, ...], down: str | None
) -> None:
    group = group_of(old_logs, terms)
    if down is not None:
        group.down.add(down)
    group.elect()


def test_more_entries_count_more() -> None:
    group = group_of((SHORT, LONG, LONG), ENTRIES)
    group.logs["n0"].put(1, b"more")
    group.down.add("n2")
    assert group.elect() == "n0"


def transfer(group: Group, leader: str, to: str | None) -> int:
    group.members[leader].transfer(group.now, to, "order")
    group._take(leader)
    group.wait(3000)
    answer = group.answers.pop("order")
    assert isinstance(answer, TransferResponse)
    return answer.code


def peaceful(*old_logs: OldLog, **other: Any) -> tuple[Group, str]:
    group = group_of(old_logs, ENTRIES, **other)
    leader = group.elect()
    group.wait(1000)
    return group, leader


def test_leadership_does_not_go_to_who_has_less() -> None:
    group, leader = peaceful(SHORT, LONG, LONG, preferred_leaders=("n0",))
    if leader == "n1":  # n2 would ask n0 first
        assert transfer(group, "n1", "n2") == DledgerCode.SUCCESS
        leader = "n2"
    assert transfer(group, leader, "n0") == DledgerCode.FALL_BEHIND_TOO_MUCH
    assert group.members[leader].role is Role.LEADER, "the preferred one is not asked either"
    assert transfer(group, leader, None) == DledgerCode.SUCCESS
    assert group.members["n1"].role is Role.LEADER


def test_leadership_goes_to_who_has_less_where_a_majority_has_no_more() -> None:
    group, leader = peaceful(LONG, SHORT, SHORT)
    if leader != "n0":
        assert transfer(group, leader, "n0") == DledgerCode.SUCCESS
    assert transfer(group, "n0", None) == DledgerCode.SUCCESS
    assert group.members["n0"].role is Role.FOLLOWER


def test_who_has_removed_it_may_lead() -> None:
    group, leader = peaceful(NO_OLD_LOG, LONG, LONG)
    if leader != "n0":
        assert transfer(group, leader, "n0") == DledgerCode.SUCCESS
    assert group.members["n0"].role is Role.LEADER
