"""Leadership is handed over (``dledger.md`` §3.11)."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerCode,
    TransferRequest,
    TransferResponse,
)

from .lab import NAMES, Group, log_of


def group(**other: Any) -> tuple[Group, str]:
    """Three with the same log, in peace, and who leads."""
    made = Group({name: log_of(1, 1) for name in NAMES}, **other)
    leader = made.elect()
    made.wait(1000)
    return made, leader


def other(leader: str) -> str:
    return next(name for name in NAMES if name != leader)


def order(made: Group, name: str, to: str | None) -> TransferResponse:
    """What comes of it in the end."""
    made.members[name].transfer(made.now, to, "order")
    made._take(name)
    made.wait(3000)
    answer = made.answers.pop("order")
    assert isinstance(answer, TransferResponse)
    return answer


def ask(made: Group, name: str, **fields: Any) -> TransferResponse:
    """A tool's request."""
    term = made.members[name].term
    usual: dict[str, Any] = {
        "group": "G",
        "remote_id": name,
        "transfer_id": name,
        "term": term,
    }
    made.members[name].receive(made.now, TransferRequest(**usual | fields), "tool")
    made._take(name)
    made.wait(3000)
    answer = made.answers.pop("tool")
    assert isinstance(answer, TransferResponse)
    return answer


@pytest.mark.parametrize("asks", [order, None])
def test_the_one_that_is_named_leads(asks: Any) -> None:
    made, leader = group()
    to = other(leader)
    answer = order(made, leader, to) if asks else ask(made, leader, transferee_id=to)
    assert answer.code == DledgerCode.SUCCESS
    assert made.leaders() == [to]
    assert made.members[to].committed_index == made.logs[to].end_index
    assert made.members[leader].transferee is None


def test_it_takes_no_time_and_only_one_term() -> None:
    made, leader = group()
    term, begin = made.members[leader].term, made.now
    made.members[leader].transfer(made.now, None, "order")
    made._take(leader)
    made.settle()
    assert made.answers["order"].code == DledgerCode.SUCCESS
    (new,) = made.leaders()
    assert new != leader
    assert (made.members[new].term, made.now) == (term + 1, begin)


def test_before_a_stop_the_one_that_is_furthest_leads() -> None:
    made, leader = group()
    behind = other(leader)
    made.cut = {(leader, behind)}
    made.put(leader, b"more")
    made.settle()
    assert order(made, leader, None).code == DledgerCode.SUCCESS
    assert made.leaders() not in ([leader], [behind])


@pytest.mark.parametrize("gone", [False, True])
def test_where_the_furthest_cannot_the_next_one_leads(gone: bool) -> None:
    made, leader = group()
    cannot = other(leader)
    if gone:
        made.down.add(cannot)
    else:
        made.members[cannot]._state.votes = False
    assert order(made, leader, None).code == DledgerCode.SUCCESS
    assert made.leaders() not in ([leader], [cannot])


def test_who_hangs_does_not_take_the_time_in_which_the_next_one_could_lead() -> None:
    """A leader that stops has 1.5 s to be followed by another one."""
    made, leader = group()
    made.members[leader].transfer(made.now, None, "order")
    hangs = made.members[leader].transferee or ""
    made.hung.add(hangs)
    made._take(leader)
    made.wait(1000)
    assert made.answers.pop("order").code == DledgerCode.SUCCESS
    assert made.leaders() not in ([leader], [hangs])


def test_senders_do_not_wait_for_one_that_hangs() -> None:
    made, leader = group()
    made.hung.add(other(leader))
    made.members[leader].transfer(made.now, other(leader), "order")
    made._take(leader)
    made.wait(1000)
    assert made.answers.pop("order").code == DledgerCode.NETWORK_ERROR
    assert (made.leaders(), made.members[leader].transferee) == ([leader], None)


def test_where_nobody_can_the_leader_stays_and_says_why() -> None:
    made, leader = group()
    for name in NAMES:
        if name != leader:
            made.members[name]._state.votes = False
    assert order(made, leader, None).code == DledgerCode.TAKE_LEADERSHIP_FAILED
    assert (made.leaders(), made.members[leader].transferee) == ([leader], None)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transferee_id": "n9"}, DledgerCode.UNKNOWN_MEMBER),
        ({"transferee_id": None}, DledgerCode.UNKNOWN_MEMBER),
        ({"transferee_id": "OTHER", "term": 99}, DledgerCode.INCONSISTENT_TERM),
        ({"transferee_id": "n8", "transfer_id": "n9"}, DledgerCode.UNEXPECTED_ARGUMENT),
        ({"transferee_id": "OTHER", "remote_id": "n9"}, DledgerCode.UNKNOWN_MEMBER),
        ({"transferee_id": "OTHER", "group": "X"}, DledgerCode.UNKNOWN_GROUP),
    ],
)
def test_refusals_of_a_leader(fields: dict[str, Any], code: DledgerCode) -> None:
    made, leader = group()
    if fields["transferee_id"] == "OTHER":
        fields = fields | {"transferee_id": other(leader)}
    assert ask(made, leader, **fields).code == code
    assert made.leaders() == [leader]


def test_who_does_not_lead_cannot_hand_over() -> None:
    made, leader = group()
    follower = other(leader)
    assert ask(made, follower, transferee_id=leader).code == DledgerCode.NOT_LEADER


def test_one_far_behind_is_not_taken() -> None:
    made, leader = group(max_lag_entries=5)
    behind = other(leader)
    made.cut = {(leader, behind)}
    for number in range(6):
        made.put(leader, b"%d" % number)
    made.settle()
    assert order(made, leader, behind).code == DledgerCode.FALL_BEHIND_TOO_MUCH


def test_one_that_cannot_catch_up_leaves_the_leader_in_its_place() -> None:
    made, leader = group()
    behind = other(leader)
    made.members[leader].transfer(made.now, behind, "order")
    made._take(leader)
    assert made.members[leader].transferee == behind
    made.down.add(behind)
    made.wait(3000)
    assert made.answers.pop("order").code == DledgerCode.NETWORK_ERROR
    assert (made.leaders(), made.members[leader].transferee) == ([leader], None)


def told_to_take_over(made: Group, leader: str, end: int) -> str:
    """By the leader, as soon as it has entry ``end``. Who was told; its answer is that to
    "wait"."""
    to = other(leader)
    request = TransferRequest(
        group="G",
        remote_id=to,
        term=made.members[leader].term,
        transfer_id=leader,
        transferee_id=to,
        take_leadership_ledger_index=end,
    )
    made.members[to].receive(made.now, request, "wait")
    made._take(to)
    return to


def test_a_transferee_waits_for_what_the_leader_has() -> None:
    made, leader = group()
    to = told_to_take_over(made, leader, made.logs[leader].end_index + 1)
    made.wait(500)
    assert "wait" not in made.answers
    made.put(leader, b"what it lacks")
    made.wait(100)
    assert made.answers["wait"].code == DledgerCode.SUCCESS
    assert made.leaders() == [to]


def test_a_transferee_does_not_wait_for_ever() -> None:
    made, leader = group()
    told_to_take_over(made, leader, 10_000)
    made.wait(1100)
    assert made.answers["wait"].code == DledgerCode.TAKE_LEADERSHIP_FAILED
    assert made.leaders() == [leader]


def test_only_the_leader_makes_somebody_take_over() -> None:
    made, leader = group()
    to = other(leader)
    answer = ask(made, to, transfer_id="n9", transferee_id=to)
    assert answer.code == DledgerCode.INCONSISTENT_LEADER


def test_a_preferred_member_that_cannot_lead_is_asked_now_and_then() -> None:
    """Each time the leader takes no messages for a moment."""
    _, leader = group()
    preferred = other(leader)
    made = Group({name: log_of(1, 1) for name in NAMES}, preferred_leaders=(preferred,))
    assert made.elect() == leader
    asked: list[int] = []
    member = made.members[preferred]

    def not_now() -> bool:
        asked.append(made.now)
        return False

    member.may_lead = not_now
    made.wait(60_000)
    assert 5 <= len(asked) <= 7
    assert made.leaders() == [leader]
    member.may_lead = lambda: True
    made.wait(11_000)
    assert made.leaders() == [preferred]


@pytest.mark.parametrize("preferred", NAMES)
def test_a_preferred_member_comes_to_lead(preferred: str) -> None:
    made, _ = group(preferred_leaders=(preferred,))
    made.wait(2500)
    assert made.leaders() == [preferred]
