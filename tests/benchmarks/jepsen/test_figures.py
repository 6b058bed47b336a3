"""Figures, timeline and page of a history that was written by hand."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from benchmarks.histories.events import Event, Fail, Invoke, Ok, Unknown
from benchmarks.histories.judge import Kind, Violation
from benchmarks.jepsen.figures import (
    Happened,
    back_s,
    calls,
    figures,
    percentile,
    some_of_each,
    timeline,
    to_json,
    unavailable_s,
)
from benchmarks.jepsen.page import page
from benchmarks.jepsen.picture import colour, picture

END = 10.0


def fault(began: float, healed: float, kind: str = "master killed") -> Happened:
    return Happened(kind, "b0 <SIGKILL>", began, healed)


def sends(*ends: tuple[float, float, str]) -> list[Event]:
    """Begin, end, and how it ended."""
    found: list[Event] = []
    for op, (began, at, how) in enumerate(ends):
        found.append(Invoke(at=began, op=op, producer="p", content=f"c{op}"))
        match how:
            case "ok":
                found.append(Ok(at=at, op=op, queue="g/0", offset=op))
            case "fail":
                found.append(Fail(at=at, op=op))
            case _:
                found.append(Unknown(at=at, op=op))
    return found


HISTORY = sends(
    (0.0, 0.25, "ok"), (0.5, 0.75, "ok"), (1.0, 3.0, "unknown"), (3.0, 3.5, "fail"),
    (4.0, 6.0, "ok"), (6.5, 7.0, "ok"), (9.0, 9.5, "ok"),
)  # fmt: skip
ACKNOWLEDGED = [0.25, 0.75, 6.0, 7.0, 9.5]


@pytest.mark.parametrize(
    ("began", "healed", "unavailable", "back"),
    [
        (1.0, 4.0, 5.25, 2.0),
        (0.5, 0.6, 0.5, 0.15),
        (6.2, 6.4, 1.0, 0.6),
        (5.0, 8.0, 5.25, 1.5),
        (9.6, 9.8, 0.5, 0.2),
        (0.0, 0.1, 0.0, 0.15),
    ],
    ids=["all-of-it", "a-moment", "between-two", "several", "to-the-end", "from-the-beginning"],
)
def test_how_long_nothing_was_acknowledged(
    began: float, healed: float, unavailable: float, back: float
) -> None:
    one = fault(began, healed)
    assert unavailable_s(one, ACKNOWLEDGED, END) == pytest.approx(unavailable)
    assert back_s(one, ACKNOWLEDGED, END) == pytest.approx(back)


def test_nothing_was_acknowledged_at_all() -> None:
    assert unavailable_s(fault(2, 3), [], END) == 8
    assert back_s(fault(2, 3), [], END) == 7


def test_sends_by_how_they_ended() -> None:
    found = calls(HISTORY)
    assert [at for at, _ in found.acknowledged] == ACKNOWLEDGED
    assert found.failed == [(3.5, 0.5)]
    assert found.unknown == [(3.0, 2.0)]


def test_percentiles_are_values_that_were_measured() -> None:
    assert [percentile([1, 2, 3, 4], share) for share in (0, 0.25, 0.5, 0.99, 1)] == [1, 1, 2, 4, 4]


def test_a_second_has_what_ended_in_it() -> None:
    line = timeline(calls(HISTORY), 9.2)
    assert line["acknowledged"] == [2, 0, 0, 0, 0, 0, 1, 1, 0, 1]
    assert line["unknown"] == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert line["failed"] == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert line["p50_ms"][:2] == [250.0, None]


VIOLATIONS = [Violation(Kind.LOST, f"c{n}") for n in range(5)] + [Violation(Kind.STALE, "g/0")]


def of_a_campaign(violations: list[Violation]) -> dict[str, object]:
    faults = [fault(1, 4), fault(6.2, 6.4), fault(8, 9, "client<master cut")]
    known = {"shape": "one", "what": "a <broker>", "commit": "c0ffee", "date": "2026-01-01"}
    rest = {
        "seed": 1,
        "network": "loopback",
        "stored": 5,
        "stored_again": 0,
        "handed_out": 6,
        "problems": [],
        "not_acknowledged": {},
    }
    return {**known, **rest, **figures(HISTORY, faults, violations, END)}


def test_faults_by_kind() -> None:
    found = figures(HISTORY, [fault(1, 4), fault(6.2, 6.4)], [], END)["faults"]
    assert found == {
        "master killed": {
            "count": 2,
            "unavailable_s": {"median": 3.12, "most": 5.25},
            "back_s": {"median": 1.3, "most": 2.0},
        }
    }


def test_violations_are_counted_and_some_are_told() -> None:
    found = figures(HISTORY, [], VIOLATIONS, END)
    assert {kind: n for kind, n in found["violations"].items() if n} == {"LOST": 5, "STALE": 1}
    assert len(found["examples"]) == 4
    assert [each.what for each in some_of_each(VIOLATIONS, 1)] == ["c0", "g/0"]


def test_figures_as_json() -> None:
    found = of_a_campaign(VIOLATIONS)
    text = to_json(found)
    assert json.loads(text) == json.loads(json.dumps(found))
    assert sum(line.startswith('  "acknowledged"') for line in text.splitlines()) == 2


def test_the_timeline_is_xml_with_a_band_for_each_fault() -> None:
    root = ElementTree.fromstring(picture(of_a_campaign([])))
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 3
    assert titles[0] == "master killed, 1.0 to 4.0 s: b0 <SIGKILL>"


def test_a_picture_without_anything() -> None:
    nothing = {"what": "-", **figures([], [], [], 0.0)}
    ElementTree.fromstring(picture(nothing))


def test_what_is_done_has_a_colour() -> None:
    assert colour("master|slave cut") == colour("client<master cut") != colour("all killed")


def test_the_page_tells_of_violations_and_faults() -> None:
    text = page(of_a_campaign(VIOLATIONS), "jepsen-one.svg")
    assert "| LOST | 5 |" in text
    assert "| master killed | 2 | 3.12 | 5.25 | 1.30 | 2.00 |" in text
    assert "![Timeline](jepsen-one.svg)" in text
