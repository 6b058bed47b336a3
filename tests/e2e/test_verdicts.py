"""What the campaigns of ``make services`` find wrong (that of transactions:
``test_transactions``)."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.long_poll import problems_of
from benchmarks.scheduled import what_is_wrong
from benchmarks.scheduled_ledger import Delivered, Received, Stored, Verdict, judge

DELAYS_MS = (1000, 2000)
GOOD = Stored(
    [Delivered(0, 1, 1001), Delivered(2, 1, 1005), Delivered(1, 2, 2003)],
    {0: 1000, 1: 2002, 2: 1004},
    {1: [0, 2], 2: [1]},
)
GOT = [Received(0, 1, 0, 1002), Received(2, 1, 4, 1006), Received(1, 2, 2, 2004)]


def judged(stored: Stored = GOOD, got: list[Received] | None = None) -> Verdict:
    return judge({0, 1, 2}, stored, GOT if got is None else got, DELAYS_MS)


def test_good_is_good() -> None:
    verdict = judged()
    assert verdict[:7] == (3, 3, 0, 0, 0, 0, 0)
    assert verdict.lateness(1.0) == (1, 2)
    assert what_is_wrong(verdict, allowed_repeats=0) == []


@pytest.mark.parametrize(
    ("delivered", "name"),
    [
        ([Delivered(0, 1, 1001), Delivered(2, 1, 1005)], "lost"),
        ([Delivered(0, 1, 999), *GOOD.delivered[1:]], "early"),
        ([GOOD.delivered[1], GOOD.delivered[0], GOOD.delivered[2]], "out_of_order"),
        ([*GOOD.delivered, Delivered(1, 2, 2009)], "repeated"),
    ],
)
def test_what_the_store_says(delivered: list[Delivered], name: str) -> None:
    verdict = judged(GOOD._replace(delivered=delivered))
    assert getattr(verdict, name) >= 1
    assert len(what_is_wrong(verdict, allowed_repeats=0)) == 1
    assert (what_is_wrong(verdict, allowed_repeats=1) == []) is (name == "repeated")


def test_what_the_consumer_says() -> None:
    assert judged(got=GOT[:2]).not_received == 1
    assert judged(got=[*GOT[:2], Received(1, 2, 2, 2001)]).early == 1


def test_late_messages_and_a_slow_machine_are_told() -> None:
    late = judged(got=[*GOT[:2], Received(1, 2, 2, 2202)])
    [problem] = what_is_wrong(late, allowed_repeats=0, took_s=0.001, rate=3000)
    assert problem.startswith("p99 of the lateness is 200 ms")
    [problem] = what_is_wrong(judged(), allowed_repeats=0, took_s=1.0, rate=5000)
    assert problem.startswith("this machine sent 3 a second")


def figures(**change: float) -> dict[str, Any]:
    each = {"p99": 4.9, "more": 95.0, "before": 0.7, "held": 1.1} | change
    return {
        "pulls": 10_000,
        "wake_up_ms": {"alone": {"tag": {"p50": 0.1, "p99": each["p99"], "max": 9.0}}},
        "anonymous_mib": {"before": 30.0, "held": 40.0, "more": each["more"]},
        "idle_cpu_percent": {"before": each["before"], "held": each["held"]},
    }


def test_held_pulls() -> None:
    assert problems_of(figures()) == []
    for change, text in (
        ({"p99": 5.0}, "wake-ups by tag"),
        ({"more": 96.0}, "bytes"),
        ({"held": 1.2}, "% of a core"),
    ):
        [problem] = problems_of(figures(**change))
        assert text in problem
