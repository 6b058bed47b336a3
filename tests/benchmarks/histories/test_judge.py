"""Each violation is found in a history that was written by hand, and none in a good one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.histories.events import (
    Again,
    Ends,
    Event,
    Fail,
    Invoke,
    Leads,
    Ok,
    Read,
    Serves,
    Unknown,
    from_lines,
    to_lines,
)
from benchmarks.histories.judge import Kind, Log, Stored, compare_logs, judge, unread

Q = "g/0"


def sent(
    op: int, begin: float, end: float, offset: int, producer: str = "p", queue: str = Q
) -> list[Event]:
    return [
        Invoke(at=begin, op=op, producer=producer, content=f"c{op}", queue=queue),
        Ok(at=end, op=op, queue=queue, offset=offset),
    ]


def unanswered(op: int, begin: float) -> list[Event]:
    return [
        Invoke(at=begin, op=op, producer="p", content=f"c{op}"),
        Unknown(at=begin + 3, op=op),
    ]


def refused(op: int, begin: float) -> list[Event]:
    return [Invoke(at=begin, op=op, producer="p", content=f"c{op}"), Fail(at=begin, op=op)]


def read(op: int, at: float, offset: int, observer: str = "c") -> Event:
    return Read(at=at, observer=observer, queue=Q, offset=offset, content=f"c{op}")


def ends(began: float, at: float, offset: int, node: str = "n0") -> Event:
    return Ends(at=at, began=began, node=node, queue=Q, offset=offset)


def once(op: int, begin: float) -> Event:
    return Invoke(at=begin, op=op, producer="p", content=f"c{op}", queue=Q, once=True)


def stored(*ops: int, begin: int = 0) -> Stored:
    return {Q: [(begin + number, f"c{op}") for number, op in enumerate(ops)]}


GOOD: list[Event] = [
    *sent(0, 0, 1, 0),
    *unanswered(1, 1.5),
    *sent(2, 5, 6, 2),
    *sent(3, 5.5, 7, 3, producer="other"),
    *unanswered(4, 8),
    *refused(5, 8),
    read(0, 2, 0),
    read(0, 9, 0, "n1"),
    read(1, 3, 1),
    read(0, 9.5, 0),
    Leads(at=0, node="n0", term=1),
    Leads(at=4, node="n1", term=2),
    Leads(at=5, node="n1", term=2),
    Leads(at=6, node="n0", term=3),
]
"""Whether an unanswered one is stored is nobody's business; one that was read is."""


@pytest.mark.parametrize("at_the_end", [stored(0, 1, 2, 3), stored(0, 1, 2, 3, 4)])
def test_a_good_history(at_the_end: Stored) -> None:
    assert judge(GOOD, at_the_end) == []


def test_what_is_old_may_be_deleted() -> None:
    assert judge(GOOD, stored(2, 3, begin=2)) == []


def test_sends_that_overlap_lie_in_any_order() -> None:
    history = [*sent(0, 0, 2, 1), *sent(1, 1, 3, 0)]
    assert judge(history, stored(1, 0)) == []


def test_other_queues_have_an_order_of_their_own() -> None:
    history = [*sent(0, 0, 1, 7), *sent(1, 2, 3, 3, queue="g/1")]
    assert judge(history, {Q: [(7, "c0")], "g/1": [(3, "c1")]}) == []


def test_tried_again_it_may_be_there_twice() -> None:
    assert judge(sent(0, 0, 1, 0), stored(0, 0)) == [], "nobody tells of attempts"
    told = [once(0, 0), Again(at=0.5, op=0), Ok(at=1, op=0, queue=Q, offset=1)]
    assert judge(told, stored(0, 0)) == []


FRESH: Sequence[tuple[str, list[Event]]] = [
    ("it ends where it was acknowledged", [Serves(at=0, node="n0"), ends(2, 3, 1)]),
    ("it was asked before", [Serves(at=0, node="n0"), ends(0.5, 3, 0)]),
    ("a slave may be behind", [Serves(at=0, node="n1"), ends(2, 3, 0)]),
    ("it serves only since", [Serves(at=2.5, node="n0"), ends(2, 3, 0)]),
    (
        "it has ended",
        [Serves(at=0, node="n0"), Serves(at=1.5, node="n0", ends=True), ends(2, 3, 0)],
    ),
    (
        "it ends meanwhile",
        [Serves(at=0, node="n0"), Serves(at=2.5, node="n0", ends=True), ends(2, 3, 0)],
    ),
    (
        "another one was elected",
        [
            Leads(at=0, node="n0", term=1),
            Serves(at=0, node="n0"),
            Leads(at=2.5, node="n1", term=2),
            ends(2, 3, 0),
        ],
    ),
    (
        "it is elected again, and does not serve yet",
        [
            Serves(at=0, node="n0"),
            Leads(at=1.5, node="n1", term=2),
            Leads(at=1.8, node="n0", term=3),
            ends(2, 3, 0),
        ],
    ),
]


@pytest.mark.parametrize(
    "events", [each[1] for each in FRESH], ids=[each[0].replace(" ", "-") for each in FRESH]
)
def test_what_is_not_stale(events: list[Event]) -> None:
    assert judge([*sent(0, 0, 1, 0), *events], stored(0)) == []


BAD: Sequence[tuple[str, list[Event], Stored, list[Kind]]] = [
    ("missing at the end of its queue", sent(0, 0, 1, 0), {Q: []}, [Kind.LOST]),
    ("its whole queue is missing", sent(0, 0, 1, 0), {}, [Kind.LOST]),
    (
        "missing in the middle",
        [*sent(0, 0, 1, 0), *sent(1, 2, 3, 1), *sent(2, 4, 5, 2)],
        stored(0, 2),
        [Kind.LOST, Kind.LOST],
    ),
    ("elsewhere", [*sent(0, 0, 1, 1), *unanswered(1, 0)], stored(0, 1), [Kind.LOST]),
    ("refused and stored", refused(0, 0), stored(0), [Kind.REFUSED]),
    ("never sent, stored", [], stored(0), [Kind.PHANTOM]),
    ("read before it was sent", [*unanswered(0, 5), read(0, 4, 0)], stored(0), [Kind.PHANTOM]),
    (
        "behind a later one of the same producer",
        [*sent(0, 0, 1, 1), *sent(1, 2, 3, 0)],
        stored(1, 0),
        [Kind.ORDER],
    ),
    (
        "behind a later one of another producer, with one in between",
        [*sent(0, 0, 1, 2), *sent(1, 2, 3, 0, "other"), *sent(2, 0.5, 3, 1)],
        stored(1, 2, 0),
        [Kind.ORDER],
    ),
    (
        "two have one place",
        [*sent(0, 0, 2, 0), *sent(1, 0, 2, 0)],
        stored(0),
        [Kind.LOST, Kind.SAME_OFFSET],
    ),
    ("read, then gone", [*unanswered(0, 0), read(0, 1, 0)], {Q: []}, [Kind.GONE]),
    (
        "read, then another one",
        [*unanswered(0, 0), *unanswered(1, 0), read(0, 1, 0)],
        stored(1),
        [Kind.CHANGED],
    ),
    (
        "two observers see different ones, told once",
        [*unanswered(0, 0), *unanswered(1, 0), read(0, 1, 0), read(1, 2, 0), read(1, 3, 0, "d")],
        stored(0),
        [Kind.CHANGED],
    ),
    (
        "so in what has been deleted since",
        [*unanswered(0, 0), *unanswered(1, 0), *unanswered(2, 0), read(0, 1, 0), read(1, 2, 0)],
        stored(2, begin=5),
        [Kind.CHANGED],
    ),
    (
        "twice, of one attempt whose answer came",
        [once(0, 0), Ok(at=1, op=0, queue=Q, offset=0)],
        stored(0, 0),
        [Kind.DOUBLED],
    ),
    (
        "twice, of one attempt whose answer did not come",
        [once(0, 0), Unknown(at=3, op=0)],
        stored(0, 0),
        [Kind.DOUBLED],
    ),
    (
        "in another queue, where it is acknowledged",
        [once(0, 0), Ok(at=1, op=0, queue="g/1", offset=0)],
        {"g/1": [(0, "c0")]},
        [Kind.ELSEWHERE],
    ),
    (
        "three times, of two attempts",
        [once(0, 0), Again(at=1, op=0), Ok(at=2, op=0, queue=Q, offset=2)],
        stored(0, 0, 0),
        [Kind.DOUBLED],
    ),
    (
        "acknowledged before it was asked, and not shown",
        [Serves(at=0, node="n0"), *sent(0, 0, 1, 0), *sent(1, 1, 2, 1), ends(1.5, 3, 0)],
        stored(0, 1),
        [Kind.STALE],
    ),
    (
        "not shown by who is elected again",
        [
            Leads(at=0, node="n0", term=1),
            Serves(at=0, node="n0"),
            Leads(at=2, node="n1", term=2),
            Leads(at=3, node="n0", term=3),
            Serves(at=4, node="n0"),
            *sent(0, 0, 1, 0),
            ends(5, 6, 0),
        ],
        stored(0),
        [Kind.STALE],
    ),
    (
        "an offset without a message",
        [*unanswered(0, 0), *unanswered(1, 0)],
        {Q: [(0, "c0"), (2, "c1")]},
        [Kind.HOLE],
    ),
    (
        "two leaders in one term, told once",
        [
            Leads(at=1, node="n0", term=4),
            Leads(at=9, node="n1", term=4),
            Leads(at=10, node="n1", term=4),
        ],
        {},
        [Kind.TWO_LEADERS],
    ),
]


@pytest.mark.parametrize(
    ("history", "at_the_end", "kinds"),
    [each[1:] for each in BAD],
    ids=[each[0].replace(" ", "-") for each in BAD],
)
def test_a_bad_history(history: list[Event], at_the_end: Stored, kinds: list[Kind]) -> None:
    assert [each.kind for each in judge(history, at_the_end)] == kinds
    assert [each.kind for each in judge([*GOOD_ELSEWHERE, *history], {**AT_THE_END, **at_the_end})
            ] == kinds, "also in the midst of good ones"  # fmt: skip


GOOD_ELSEWHERE: list[Event] = [
    *sent(100, 0, 1, 0, queue="g/9"),
    *sent(101, 2, 3, 1, queue="g/9"),
    Leads(at=0, node="n0", term=1),
]
AT_THE_END: Stored = {"g/9": [(0, "c100"), (1, "c101")]}


def test_every_kind_has_a_bad_history() -> None:
    assert {kind for *_, kinds in BAD for kind in kinds} == set(Kind) - {Kind.LOGS}


def test_a_finding_says_where_to_look() -> None:
    [found] = judge(sent(0, 0.25, 1.5, 3), {Q: []})
    assert "c0 of p, sent at 0.250, acknowledged at 1.500 as g/0@3; there is nothing" in str(found)


def log(content: bytes, begin: int = 0) -> Log:
    return Log(
        begin, begin + len(content), lambda at, size: content[at - begin : at - begin + size]
    )


BYTES = bytes(range(256)) * 8192  # more than is read at once


def test_logs_that_are_the_same() -> None:
    logs = {"n0": log(BYTES), "n1": log(BYTES), "n2": log(BYTES[1000:], 1000)}
    assert compare_logs(logs) == []


@pytest.mark.parametrize("at", [0, 1, 1 << 20, len(BYTES) - 1])
def test_logs_with_another_byte(at: int) -> None:
    other = bytearray(BYTES)
    other[at] ^= 1
    [found] = compare_logs({"n0": log(BYTES), "n1": log(bytes(other))})
    assert str(found).endswith(f"n0 and n1 differ from position {at} on")


def test_logs_of_different_length() -> None:
    found = compare_logs({"n0": log(BYTES), "n1": log(BYTES[:-1]), "n2": log(BYTES)})
    assert [each.what for each in found] == [
        f"n0 ends at {len(BYTES)}, n1 at {len(BYTES) - 1}",
        f"n1 ends at {len(BYTES) - 1}, n2 at {len(BYTES)}",
    ]


def test_what_a_consumer_has_missed() -> None:
    assert unread(GOOD, stored(0, 1, 2), "c") == [(Q, 2)]


def test_history_as_text() -> None:
    assert list(from_lines(to_lines(GOOD))) == GOOD
    line = to_lines(sent(7, 0.25, 0.5, 4)[1:])
    assert line == b'{"type":"ok","at":0.5,"op":7,"queue":"g/0","offset":4}\n'
