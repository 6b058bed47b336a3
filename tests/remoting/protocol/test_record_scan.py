"""All records of a buffer, as columns: what ``take_apart`` says of each, one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record import (
    NewRecord,
    NoRecord,
    Reason,
    Verdict,
    blank_record,
    encode_record,
    scan,
)
from aiorocketmq.remoting.protocol.record.search import next_record, possible_records
from aiorocketmq.remoting.protocol.record.verdict import Parts, take_apart
from aiorocketmq.remoting.protocol.record.walk import CHUNK, LogFile, LogWalk

from .test_record import fields, sample

START = 1 << 40


def log_of(records: list[dict[str, Any]]) -> bytes:
    """Where each says that it lies where it does."""
    log = b""
    for record in records:
        log += encode_record(NewRecord(**record | {"phy_offset": START + len(log)}))
    return log


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Of intact records, or with damage, cut short, ended by a blank or zeros."""
    log = log_of(draw(st.lists(fields, max_size=5)))
    for _ in range(draw(st.integers(0, 2)) if log else 0):
        at = draw(st.integers(0, len(log) - 1))
        zeros = draw(st.sampled_from([0, 1, 8, 512]))
        damage = bytes(min(zeros, len(log) - at)) or bytes([log[at] ^ draw(st.integers(1, 255))])
        log = log[:at] + damage + log[at + len(damage) :]
    log = log[: len(log) - draw(st.integers(0, min(len(log), 60)))]
    return log + draw(st.sampled_from([b"", blank_record(9) + b"x", bytes(100)]))


def one_by_one(
    data: bytes, place: int | None, left: int, **how: Any
) -> tuple[list[Parts], int, Verdict]:
    found, at = list[Parts](), 0
    try:
        while True:
            found.append(
                Parts(
                    *take_apart(data, at, None if place is None else place + at, left - at, **how)
                )
            )
            at += found[-1].size
    except NoRecord as error:
        return found, at, error.verdict


@given(logs(), st.sampled_from([None, START]), st.integers(0, 600), st.booleans(), st.booleans())
def test_a_scan_is_one_look_after_the_other(
    data: bytes, place: int | None, more: int, check: bool, any_version: bool
) -> None:
    how: dict[str, Any] = {} if check else {"crc": None}
    how |= {"any_version": any_version}
    found, end, verdict = one_by_one(data, place, len(data) + more, **how)
    records, *rest = scan(data, place, left=len(data) + more, **how)
    assert rest == [end, verdict]
    assert len(records) == len(found)
    columns = zip(
        records.at, records.sizes, records.phy_offsets, records.queue_ids, records.queue_offsets,
        records.sys_flags,
        records.store_timestamps, records.body_at, records.body_sizes,
        map(records.topic, range(len(found))),
        records.all_properties(), strict=True,
    )  # fmt: skip
    assert list(columns) == found
    for number, parts in enumerate(found):
        assert records.properties(number) == parts.properties
        assert records.body(number) == data[parts.body_at : parts.body_at + parts.body_size]
    assert not found or records.end == end


@given(logs(), st.integers(0, 1000))
def test_a_scan_may_begin_anywhere(data: bytes, at: int) -> None:
    at = min(at, len(data))
    found = scan(b"rubbish" + data, START - 7, at=7)
    assert list(found.records.phy_offsets) == list(scan(data, START).records.phy_offsets)
    behind, there = (
        scan(data, START, at=at, left=1 << 20),
        scan(data[at:], START + at, left=(1 << 20) - at),
    )
    assert (behind.end, behind.verdict) == (at + there.end, there.verdict)


def test_why_it_ends() -> None:
    assert scan(b"", START, left=100).verdict.reason is Reason.MORE
    record = sample(phy_offset=START)
    assert scan(record, START, left=1 << 20).verdict.needed == 8
    assert scan(record, START).verdict.reason is Reason.NOTHING
    assert scan(record + blank_record(20), START).verdict.size == 20


def test_topics_are_counted() -> None:
    data = b"".join(sample(topic=topic) for topic in ("a", "b", "a", "ü"))
    records = scan(data).records
    assert (records.names, records.topics.tolist()) == (["a", "b", "ü"], [0, 1, 0, 2])


# -- where they may begin


def test_records_are_found_behind_rubbish() -> None:
    own, other = sample(phy_offset=START + 50), sample(phy_offset=7)
    data = other[:50] + own + other + own[:40]
    assert list(possible_records(data, 0, None)) == [0, 50, 50 + len(own), 50 + 2 * len(own)]
    assert list(possible_records(data, 1, None)) == [50, 50 + len(own), 50 + 2 * len(own)]
    assert list(possible_records(data, 0, START)) == [50]
    assert next_record(data, 51, START) is None
    assert next_record(data[: 50 + 35], 0, START) is None
    assert next_record(data[: 50 + 36], 0, START) == 50


@pytest.mark.parametrize(
    "zeros", [0, 1, CHUNK - 100, CHUNK - 36, CHUNK - 35, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1]
)
def test_a_record_behind_zeros_is_found_wherever_a_piece_that_is_read_ends(zeros: int) -> None:
    data = bytes(zeros) + sample(phy_offset=START + zeros)
    file = LogFile(
        START, len(data), lambda at, size: data[at : at + size], lambda at: [(at, len(data))]
    )
    assert LogWalk().next_intact(file) == zeros
    assert LogWalk().next_intact(file, zeros + 1) is None
