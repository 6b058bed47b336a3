"""Who is let in at the port for slaves, and who has to go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.replication.admission import Admission, NotAdmittedError, Visitor


def visitor(host: str) -> Visitor:
    return Visitor(host, lambda _: None)


def full_of(admission: Admission, count: int, *, spoken: bool) -> list[Visitor]:
    visitors = [visitor(f"10.0.{number // 8}.1") for number in range(count)]
    for each in visitors:
        assert admission.enter(each) is None
        each.has_spoken = spoken
    return visitors


def test_silent_strangers_keep_nobody_out() -> None:
    admission = Admission(8)
    there = full_of(admission, 64, spoken=False)
    assert admission.enter(visitor("10.9.9.9")) is there[0], (
        "who came first had most time to say something"
    )
    assert len(admission) == 64


def test_strangers_that_speak_keep_out_who_is_not_registered_only() -> None:
    admission = Admission(8)
    there = full_of(admission, 64, spoken=True)
    with pytest.raises(NotAdmittedError, match="64 are connected already"):
        admission.enter(visitor("10.9.9.9"))
    admission.registered = frozenset({"10.9.9.9"})
    assert admission.enter(visitor("10.9.9.9")) is there[-1]


def test_a_registered_slave_that_has_not_spoken_yet_does_not_go_for_a_stranger() -> None:
    admission = Admission(8)
    admission.registered = frozenset({"10.9.9.9"})
    slave = visitor("10.9.9.9")
    admission.enter(slave)
    full_of(admission, 63, spoken=True)
    with pytest.raises(NotAdmittedError):
        admission.enter(visitor("10.8.8.8"))


def test_one_address_has_its_share() -> None:
    admission = Admission(8)
    there = [visitor("10.0.0.1") for _ in range(8)]
    for each in there:
        admission.enter(each)
        each.has_spoken = True
    with pytest.raises(NotAdmittedError, match="haMaxConnectionsPerAddress"):
        admission.enter(visitor("10.0.0.1"))
    there[3].has_spoken = False
    assert admission.enter(visitor("10.0.0.1")) is there[3]
    admission.leave(there[0])
    assert admission.enter(visitor("10.0.0.1")) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=60))
def test_the_limits_hold(steps: list[tuple[int, bool, bool]]) -> None:
    admission, inside = Admission(3, most=10), list[Visitor]()
    admission.registered = frozenset({"0", "1"})
    for host, spoken, leaves in steps:
        if leaves and inside:
            admission.leave(inside.pop(0))
            continue
        new = visitor(str(host))
        try:
            gone = admission.enter(new)
        except NotAdmittedError:
            continue
        inside = [each for each in inside if each is not gone] + [new]
        new.has_spoken = spoken
        assert len(admission) == len(inside) <= 10
        assert all(
            sum(each.host == host for each in inside) <= 3
            for host in {each.host for each in inside}
        )
