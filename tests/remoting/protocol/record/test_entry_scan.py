"""Entries are believed while heads go on from each other and records are intact; a walk finds what
lies behind damage."""

from __future__ import annotations

import struct

import pytest

from aiorocketmq.remoting.protocol.record import Reason, Records, scan
from aiorocketmq.remoting.protocol.record.entry import entry_blank
from aiorocketmq.remoting.protocol.record.entry_verdict import (
    BEFORE_ALL,
    EntryEnd,
    entry_verdict_of,
)
from aiorocketmq.remoting.protocol.record.scan import entry_of
from aiorocketmq.remoting.protocol.record.walk import Gap, LogFile, LogWalk

from .entry_logs import HEAD, START, changed_head, entries_of

ENTRY = entries_of([b"body"])
CASES = {
    "intact": (ENTRY, None, None),
    "blank": (entry_blank(200) + bytes(192), Reason.BLANK, None),
    "zeros": (bytes(200), Reason.NOTHING, None),
    "record without a head": (bytes(HEAD) + ENTRY[HEAD:], Reason.NOTHING, None),
    "first bytes not written": (bytes(8) + ENTRY[8:], Reason.MAGIC, None),
    "another magic": (changed_head(ENTRY, magic=2), Reason.MAGIC, None),
    "negative size": (changed_head(ENTRY, size=-5), Reason.SIZE, None),
    "size over the end": (changed_head(ENTRY, size=len(ENTRY) + 1), Reason.SIZE, None),
    "other body size": (changed_head(ENTRY, body_size=5), Reason.HEAD, None),
    "channel": (changed_head(ENTRY, channel=1), Reason.HEAD, None),
    "chain CRC": (changed_head(ENTRY, chain_crc=1), Reason.HEAD, None),
    "body CRC": (changed_head(ENTRY, body_crc=-1), Reason.HEAD, None),
    "another place": (changed_head(ENTRY, pos=START + 8), Reason.PLACE, None),
    "negative index": (changed_head(ENTRY, index=-1), Reason.INDEX, None),
    "negative term": (changed_head(ENTRY, term=-1), Reason.TERM, None),
    "next": (ENTRY, None, BEFORE_ALL),
    "same term": (ENTRY, None, EntryEnd(-1, 1)),
    "a gap": (ENTRY, Reason.INDEX, EntryEnd(3, 1)),
    "an older one": (ENTRY, Reason.TERM, EntryEnd(-1, 2)),
    "head of a longer record": (
        changed_head(ENTRY + b"x", size=len(ENTRY) + 1, body_size=len(ENTRY) + 1 - HEAD),
        Reason.HEAD,
        None,
    ),
    "body": (ENTRY[:137] + b"!" + ENTRY[138:], Reason.CRC, None),
    "head only": (ENTRY[:HEAD] + bytes(len(ENTRY) - HEAD), Reason.HEAD, None),
}


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: str) -> None:
    data, reason, after = CASES[case]
    verdict = entry_verdict_of(data, 0, START, len(data), after=after)
    assert (None if verdict is None else verdict.reason) is reason
    assert len(scan(data, START, head=HEAD, after=after).records) == (reason is None)


def test_each_flipped_bit_is_seen() -> None:
    """Of head and body, of which nothing is unknown beforehand but the term; and a higher one is
    believed."""
    record_at = HEAD + 88
    for at in [*range(HEAD), record_at + 1]:
        for bit in range(8):
            data = bytearray(ENTRY)
            data[at] ^= 1 << bit
            believed = scan(bytes(data), START, head=HEAD, after=EntryEnd(-1, 1)).records
            higher_term = 16 <= at < 24 and (at, bit) not in ((16, 7), (23, 0))
            assert len(believed) == higher_term, (at, bit)


def test_every_end_of_a_buffer() -> None:
    """More is asked for until it is shown."""
    log = ENTRY + entries_of([b"x"], index=1, place=START + len(ENTRY))
    for shown in range(len(log)):
        found = scan(log[:shown], START, left=len(log), head=HEAD)
        assert len(found.records) == (shown >= len(ENTRY))
        assert found.verdict.reason is Reason.MORE
        assert shown - found.end < found.verdict.needed <= len(log) - found.end
    assert len(scan(log, START, head=HEAD).records) == 2


def test_columns_speak_of_records() -> None:
    log = entries_of([b"a", b"bb"], index=5, terms=[2, 3])
    records, end, _ = scan(b"..." + log, START - 3, at=3, head=HEAD, after=EntryEnd(4, 2))
    assert end == len(log) + 3
    assert [*records.phy_offsets] == [START - 3 + at for at in records.at]
    assert [records.body(number) for number in (0, 1)] == [b"a", b"bb"]
    assert [entry_of(records, number) for number in (0, 1)] == [(5, 2), (6, 3)]


def walked(
    data: bytes, size: int, walk: LogWalk, start: int = START
) -> list[Gap | tuple[int, ...]]:
    found: list[Gap | tuple[int, ...]] = []
    file = LogFile(
        start, size, lambda at, length: data.ljust(size, b"\0")[at : at + length],
        lambda at: [(at, len(data))] if at < len(data) else [], HEAD,
    )  # fmt: skip
    for piece in walk.through(file):
        if isinstance(piece, Records):
            found.append(tuple(entry_of(piece, row).index for row in range(len(piece))))
        else:
            found.append(piece)
    return found


def test_a_walk_over_two_files() -> None:
    first = entries_of([b"a", b"b"])
    second = entries_of([b"c"], index=2, place=START + 1000)
    walk = LogWalk(chunk=150)
    assert walked(first + entry_blank(1000 - len(first)), 1000, walk)[:2] == [(0,), (1,)]
    found = walked(second, 1000, walk, START + 1000)
    assert found[0] == (2,)
    assert isinstance(found[1], Gap)
    assert (found[1].verdict.reason, found[1].tail) == (Reason.NOTHING, True)


@pytest.mark.parametrize("damage", ["head", "record", "CRC"])
def test_behind_damage(damage: str) -> None:
    log = bytearray(entries_of([b"a" * 50, b"b" * 50, b"c" * 50]))
    size = len(log) // 3
    at = {"head": size + 5, "record": size + HEAD + 2, "CRC": 2 * size - 30}[damage]
    log[at] ^= 0xFF
    before, gap, behind, end = walked(bytes(log), 1000, LogWalk())
    assert (before, behind) == ((0,), (2,))
    assert isinstance(gap, Gap)
    assert (gap.begin, gap.end, gap.tail) == (START + size, START + 2 * size, False)
    assert isinstance(end, Gap)
    assert end.tail


@pytest.mark.parametrize(("index", "term"), [(3, 1), (1, 9), (0, 9)])
def test_leftovers_behind_the_end(index: int, term: int) -> None:
    """Of a log that was cut here once: entries of an older term, or of numbers that are taken."""
    log = entries_of([b"a", b"b"], terms=[2, 2])
    old = entries_of([b"old"], index=index, terms=[term], place=START + len(log) + 7)
    walk = LogWalk()
    *_, gap = walked(log + bytes(7) + old, 1000, walk)
    assert isinstance(gap, Gap)
    assert gap.tail
    assert walk.after == (1, 2)


def test_a_head_that_is_not_written_hides_its_record() -> None:
    """The head's first bytes come last."""
    torn = struct.pack(">8x") + ENTRY[8:]
    (gap,) = walked(torn, 1000, LogWalk())
    assert isinstance(gap, Gap)
    assert gap.tail
