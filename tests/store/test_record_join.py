"""Records that lie apart are copied as slices would be, however it is done."""

from __future__ import annotations

import mmap
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.store import record_join
from aiorocketmq.store.consume_queue import CQ_UNIT
from aiorocketmq.store.record_join import joined_records

LENGTH = 1 << 16


@pytest.fixture(scope="module")
def mapping() -> mmap.mmap:
    data = mmap.mmap(-1, LENGTH)
    data[:] = random.Random(1).randbytes(LENGTH)
    return data


def units_of(places: list[tuple[int, int]]) -> bytes:
    return b"".join(CQ_UNIT.pack(at, size, 7) for at, size in places)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, LENGTH - 300), min_size=1, max_size=40, unique=True).map(sorted),
    st.one_of(st.just([300]), st.lists(st.integers(100, 300), min_size=1, max_size=3)),
    st.sampled_from([0, 100, 1 << 40]),
    st.booleans(),
)
def test_joined_as_slices(mapping: mmap.mmap, starts: list[int], sizes: list[int], base: int, more: bool) -> None:
    places = [(base + at, sizes[number % len(sizes)]) for number, at in enumerate(starts)]
    expected = b"".join(mapping[at : at + size] for at, (_, size) in zip(starts, places, strict=True))
    units = units_of([*places, (base + 5, 9)] if more else places)
    phy_offsets, lengths = tuple(at for at, _ in places), tuple(size for _, size in places)
    assert joined_records(mapping, base, units, phy_offsets, lengths) == expected


def test_records_of_one_size_are_copied_together(mapping: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    places = [(number * 1000, 300) for number in range(20)]
    expected = joined_records(mapping, 0, units_of(places), [at for at, _ in places], (300,) * 20)
    asked: list[int] = []
    row = record_join._row
    monkeypatch.setattr(record_join, "_row", lambda size: asked.append(size) or row(size))  # type: ignore[func-returns-value]
    assert joined_records(mapping, 0, units_of(places), [at for at, _ in places], (300,) * 20) == expected
    assert asked == [300]
    monkeypatch.setattr(record_join, "numpy", None)
    assert joined_records(mapping, 0, units_of(places), [at for at, _ in places], (300,) * 20) == expected
    assert asked == [300]


def test_a_damaged_queue_is_no_error(mapping: mmap.mmap) -> None:
    places = [(number * 1000, 300) for number in range(20)]
    places[5] = (LENGTH - 100, 300)
    body = joined_records(mapping, 0, units_of(places), [at for at, _ in places], (300,) * 20)
    assert len(body) == 19 * 300 + 100
