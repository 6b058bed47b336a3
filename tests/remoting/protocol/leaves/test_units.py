"""Units of a consume queue that go on from each other: compiled and in Python."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.leaves import TWINS
from aiorocketmq.remoting.protocol.record.units import believed_units

from .both import compiled_leaves

compiled = compiled_leaves()
pure_believed = TWINS[believed_units.__name__]
LEAST, FILLER = 91, 0x7FFFFFFF

steps = st.tuples(
    st.sampled_from([0, 0, 0, 1, 5000, -1]),
    st.sampled_from([91, 100, 100, 2000, 90, 1 << 30, FILLER, 0, -1]),
)
odd = st.tuples(
    st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**50 - 1, 2**50]),
    st.integers(-(2**31), 2**31 - 1),
)


def packed(found: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qiq", phy_offset, size, 7) for phy_offset, size in found)


@given(
    st.lists(steps, max_size=40),
    st.lists(odd, max_size=2),
    st.integers(0, 3000),
    st.sampled_from([0, 1000, 4096, 1 << 30]),
)
def test_units(
    found: list[tuple[int, int]], more: list[tuple[int, int]], end: int, file_size: int
) -> None:
    units, at = [], 2000
    for gap, size in found:
        at += gap
        units.append((at, size))
        at += size if 0 < size < FILLER else 0
    data = packed(units + more)
    for cut in (0, 1, 19):
        arguments = data[: len(data) - cut], LEAST, end, file_size
        assert compiled.believed_units(*arguments) == pure_believed(*arguments)


@given(st.lists(odd, max_size=3), st.integers(-5, 2**50), st.integers(0, 2**40))
def test_any_units(found: list[tuple[int, int]], end: int, file_size: int) -> None:
    data = packed(found)
    assert compiled.believed_units(data, LEAST, end, file_size) == pure_believed(
        data, LEAST, end, file_size
    )


def test_files_one_after_the_other() -> None:
    data = packed([(950, 100), (1050, 100), (3000, FILLER), (3000, 200)])
    expected = (
        4,
        3200,
        [(0, 100, 100 * 2000, 1050), (1, 100, 100 * 200, 150), (3, 200, 200 * 200, 200)],
    )
    for leaf in (compiled.believed_units, pure_believed):
        assert leaf(data, LEAST, 0, 1000) == expected
