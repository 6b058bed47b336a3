"""What a pull does with the units of a queue: compiled and in Python."""

from __future__ import annotations

import mmap
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.leaves import TWINS
from aiorocketmq.remoting.protocol.record import MAGIC, pull

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
LEAVES = (pull.survey_units, pull.join_records, pull.records_fit)
pure_survey, pure_join, pure_fit = (TWINS[leaf.__name__] for leaf in LEAVES)
BEGIN = 1 << 33
"""Where the buffer lies in the commit log."""

sizes = st.sampled_from([91, 91, 91, 100, 90, 8, 0, -1, -(1 << 31), 1 << 30])
odd = st.sampled_from([2**50, -(2**33), -(2**63), 2**63 - 1]).map(lambda at: at - BEGIN)
units = st.lists(
    st.tuples(st.integers(-5, 2000) | odd, sizes, st.sampled_from([0, 5, -7])),
    min_size=1,
    max_size=40,
)


def packed(found: list[tuple[int, int, int]]) -> bytes:
    return b"".join(
        struct.pack(">qiq", BEGIN + phy_offset, size, code) for phy_offset, size, code in found
    )


@example([(0, 91, 0), (91, -1, 0)], 2, 90, None)
@given(
    units,
    st.integers(1, 50),
    st.sampled_from([0, 90, 91, 200, 1000, 2**31, 2**62]),
    st.sampled_from([None, frozenset({0, 5}), frozenset({0, 5, -7}), frozenset()]),
)
def test_surveys(
    found: list[tuple[int, int, int]], most: int, most_bytes: int, tags: frozenset[int] | None
) -> None:
    arguments = packed(found), most, most_bytes, tags
    assert compiled.survey_units(*arguments) == pure_survey(*arguments)


@pytest.mark.parametrize(
    ("most_bytes", "surveyed"),
    [(0, (1, 100)), (299, (1, 100)), (300, (2, 300)), (599, (2, 300)), (600, (3, 600))],
)
def test_a_survey_ends_where_there_are_bytes_enough(
    most_bytes: int, surveyed: tuple[int, int]
) -> None:
    """One record there is always, however long."""
    found = packed([(0, 100, 0), (100, 200, 0), (300, 300, 0), (600, 100, 0)])
    ends = {(1, 100): 100, (2, 300): 300, (3, 600): 600}
    for survey in (compiled.survey_units, pure_survey):
        end = BEGIN + ends[surveyed]
        assert survey(found, 3, most_bytes, None) == (*surveyed, BEGIN, end, end)


@given(units, st.binary(min_size=0, max_size=3000), st.booleans())
def test_joins(found: list[tuple[int, int, int]], data: bytes, mapped: bool) -> None:
    source: bytes | memoryview = data
    if mapped:
        mapping = mmap.mmap(-1, 4096)
        mapping[: len(data)] = data
        source = memoryview(mapping)[: len(data)]
    for count in {1, len(found)}:
        assert compiled.join_records(source, BEGIN, packed(found), count) == pure_join(
            source, BEGIN, packed(found), count
        )


def record(size: int) -> bytes:
    return struct.pack(">II", size, MAGIC) + bytes(size - 8)


def fits(records: bytes, units: bytes, count: int) -> bool:
    """What both say."""
    found: set[bool] = {
        leaf(kind(records), units, count)
        for leaf in (compiled.records_fit, pure_fit)
        for kind in KINDS
    }
    (fit,) = found
    return fit


KINDS = (bytes, memoryview, bytearray)


@given(
    st.lists(st.sampled_from([91, 92, 100]), min_size=1, max_size=20)
    | st.integers(1, 90).map(lambda n: [97] * n),
    st.data(),
)
def test_heads_that_do_not_fit_are_noticed(lengths: list[int], data: st.DataObject) -> None:
    records, found = [record(size) for size in lengths], packed([(0, size, 0) for size in lengths])
    everything, count = b"".join(records), len(lengths)
    number, byte = data.draw(st.integers(0, count - 1)), data.draw(st.integers(0, 7))
    changed = records.copy()
    changed[number] = bytes(b ^ (i == byte) for i, b in enumerate(records[number]))
    assert fits(everything, found, count)
    assert fits(everything, found, 1)
    assert not fits(b"".join(changed), found, count)
    assert not fits(everything[: -lengths[-1]], found, count)
    assert not fits(
        everything, packed([(0, data.draw(sizes.filter(lambda n: n != lengths[0])), 0)]), 1
    )


@pytest.mark.parametrize("size", range(190))
def test_ends_of_buffers(size: int) -> None:
    data, two = (record(91) * 2)[:size], packed([(0, 91, 0), (91, 91, 0)])
    for count in (1, 2):
        assert fits(data, two, count) == (size >= 91 * count)
        joined = compiled.join_records(data, BEGIN, two, count)
        assert (
            joined
            == pure_join(data, BEGIN, two, count)
            == (data[: 91 * count] if size >= 91 * count else None)
        )


def test_much_is_joined_as_little_is() -> None:
    data, many = (
        record(40_000) * 9,
        packed([(40_000 * (number * 4 % 9), 40_000, 0) for number in range(9)]),
    )
    assert compiled.join_records(data, BEGIN, many, 9) == pure_join(data, BEGIN, many, 9) == data


@pytest.mark.parametrize("count", [-1, 0, 3])
def test_so_many_units_there_are_not(count: int) -> None:
    two = packed([(0, 91, 0)] * 2)
    for leaf, twin, arguments in (
        (compiled.join_records, pure_join, (record(91), BEGIN, two, count)),
        (compiled.records_fit, pure_fit, (record(91), two, count)),
        (compiled.survey_units, pure_survey, (two if count < 1 else b"", count, 1 << 20, None)),
    ):
        assert outcome(leaf, *arguments) == outcome(twin, *arguments)
        assert outcome(leaf, *arguments)[0] is ValueError  # type: ignore[index]
