"""Outages: what fails again and again is told, but not each time."""

from __future__ import annotations

import logging

import pytest

from aiorocketmq.remoting.outages import AGAIN_S, MOST_CAUSES, Outages, without_figures

from ..sim import ManualClock

log = logging.getLogger("aiorocketmq.test")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def outages(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> Outages:
    caplog.set_level(logging.INFO)
    return Outages(clock)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_begins_goes_on_and_is_over(
    clock: ManualClock, outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(150):
        outages.fails(log, ("x",), "x failed error=%s", second)
        clock.advance(1)
    outages.works(("x",))
    outages.works(("x",))
    assert told(caplog) == [
        "WARNING x failed error=0",
        "WARNING still: x failed error=60 lasted_s=60 times=61",
        "WARNING still: x failed error=120 lasted_s=120 times=121",
        "INFO over: x failed error=149 lasted_s=150 times=150",
    ]


def test_what_comes_and_goes_is_no_flood(
    clock: ManualClock, outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(120):
        outages.fails(log, ("x",), "x failed")
        clock.advance(0.5)
        outages.works(("x",))
        clock.advance(0.5)
    assert [line.split()[1] for line in told(caplog)] == ["x", "over:"] * 2


def test_several_of_one_cause_are_one_outage(
    clock: ManualClock, outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    for queue in range(100):
        outages.fails(log, ("pull", "b"), "pull failed queue=%d", queue, who=queue)
    for queue in range(98):
        outages.works(("pull", "b"), who=queue)
    outages.ends(("pull", "b"), who=98)
    assert told(caplog) == ["WARNING pull failed queue=0"]
    clock.advance(3)
    outages.works(("pull", "b"), who=99)
    assert told(caplog)[1:] == ["INFO over: pull failed queue=99 lasted_s=3 times=100"]


def test_causes_are_apart(outages: Outages, caplog: pytest.LogCaptureFixture) -> None:
    outages.fails(log, ("x",), "x failed", level=logging.ERROR)
    outages.fails(log, ("y",), "y failed")
    outages.works(("z",))
    assert told(caplog) == ["ERROR x failed", "WARNING y failed"]


def test_peers_cannot_make_it_grow(clock: ManualClock, outages: Outages) -> None:
    for number in range(3 * MOST_CAUSES):
        outages.fails(log, (number,), "failed")
        clock.advance(AGAIN_S / 1000)
    assert len(outages._known) == MOST_CAUSES
    assert (3 * MOST_CAUSES - 1,) in outages._known


def test_what_has_no_end_is_counted(
    clock: ManualClock, outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1300):
        outages.occurs(log, ("x",), "wrong request number=%d", number)
        clock.advance(0.125)
    assert told(caplog) == [
        "WARNING wrong request number=0",
        "WARNING wrong request number=480 times=480",
        "WARNING wrong request number=960 times=480",
    ]


def test_all_causes_that_begin_alike_end_together(
    outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    for peer in ("a", "b"):
        for reason in ("refused at 1", "refused at 2", "timed out"):
            cause = peer, without_figures(reason)
            outages.fails(log, cause, "%s %s", peer, reason, who=reason)
    outages.all_work("a")
    assert [line for line in told(caplog) if "over" in line] == [
        "INFO over: a refused at 2 lasted_s=0 times=2",
        "INFO over: a timed out lasted_s=0 times=1",
    ]
