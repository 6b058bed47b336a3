"""Records found many at once: never anything that a look at one after the other would not find."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record import MAGIC, MIN_RECORD_SIZE
from aiorocketmq.store.record_chain import FEW, HEAD_SIZE, RECORD_HEAD, Places, _places_of, _with_first_of_magic, chained

numpy: Any = pytest.importorskip("numpy")

BASE = 7_000_000
SIZES = st.binary(min_size=FEW + 10, max_size=2 * FEW).map(lambda octets: [MIN_RECORD_SIZE + each for each in octets])
"""Of many records, drawn at once: as a list of numbers they would take ten times as long as the test."""


def records(sizes: list[int]) -> tuple[bytearray, list[int]]:
    """What ``chained`` looks at, and zeros; and where each begins."""
    data = bytearray(sum(sizes))
    starts, at = [], 0
    for size in sizes:
        RECORD_HEAD.pack_into(data, at, size, MAGIC, BASE + at)
        starts.append(at)
        at += size
    return data, starts


def walk(data: bytes | bytearray) -> tuple[list[int], int]:
    """All that can be found, and the end of it."""
    found: list[int] = []
    at = 0
    while (piece := chained(bytes(data[at:]), BASE + at))[1]:
        starts, size = piece
        assert len(starts)
        found += [at + int(start) for start in starts]
        at += size
    return found, at


@given(SIZES)
def test_whole_records_are_all_found(sizes: list[int]) -> None:
    data, starts = records([MIN_RECORD_SIZE, *sizes])
    assert walk(data) == (starts, len(data))


@given(st.lists(st.tuples(st.integers(MIN_RECORD_SIZE, 1000), st.integers(1, 3 * FEW)), min_size=1, max_size=5))
def test_runs_of_one_size_are_found_whatever_follows(runs: list[tuple[int, int]]) -> None:
    data, starts = records([size for size, count in runs for _ in range(count)])
    assert walk(data) == (starts, len(data))


@pytest.mark.parametrize("size", [MIN_RECORD_SIZE, 285, 4000])
def test_records_of_one_size_are_a_range(size: int) -> None:
    data, starts = records([size] * 4 * FEW)
    assert chained(bytes(data), BASE) == (range(0, len(data), size), len(data))
    found, end = chained(bytes(data[: -size // 2]), BASE)
    assert (found, end) == (range(0, starts[-1], size), starts[-1]), "half a record is none"


@pytest.mark.parametrize("size", [100, 1000])
@pytest.mark.parametrize("at", [4, 7, 35])
@pytest.mark.parametrize("bad", [0, 1, 100, 199])
def test_a_broken_one_among_records_of_one_size_is_where_they_end(size: int, at: int, bad: int) -> None:
    data, starts = records([size] * 200)
    data[bad * size + at] ^= 1
    assert walk(data) == (starts[:bad], bad * size)


@settings(max_examples=300)
@given(SIZES, st.integers(1, 300), st.sampled_from(["size", "magic", "offset", "fake", "cut"]), st.data())
def test_it_stops_in_front_of_what_is_unusual(sizes: list[int], amount: int, problem: str, data: st.DataObject) -> None:
    """Up to there it has found what is there; and the places that look like a record inside of another one are none."""
    log, starts = records([MIN_RECORD_SIZE, *sizes])
    bad = data.draw(st.integers(1, len(starts) - 1))
    at = starts[bad]
    expected, end = starts[:bad], at
    if problem == "cut":
        del log[at + amount :]
        expected = [start for start, size in zip(starts, [MIN_RECORD_SIZE, *sizes], strict=True) if start + size <= len(log)]
        end = starts[len(expected)] if len(expected) < len(starts) else len(log)
    elif problem == "fake":
        inside = at + RECORD_HEAD.size
        if inside + RECORD_HEAD.size > (starts[bad + 1] if bad + 1 < len(starts) else len(log)):
            return
        RECORD_HEAD.pack_into(log, inside, amount, MAGIC, BASE + inside)
        expected, end = starts, len(log)
    elif problem == "size":
        size = RECORD_HEAD.unpack_from(log, at)[0]
        log[at + 2] ^= amount % 255 + 1
        found, _ = walk(log)
        assert found[:bad] == expected
        assert RECORD_HEAD.unpack_from(log, at)[0] != size
        return
    else:
        log[at + {"magic": 4, "offset": 35}[problem]] ^= amount % 255 + 1
    assert walk(log) == (expected, end)


@pytest.mark.parametrize("size", [100, 1000])
def test_one_that_is_shorter_than_a_record_can_be_is_where_they_end(size: int) -> None:
    """However well it fits: its magic and its place are right, and the next one begins behind it."""
    usual = [size, size + 20] * FEW
    data, starts = records([*usual, MIN_RECORD_SIZE - 1, *usual])
    assert walk(data) == (starts[: len(usual)], sum(usual))


def test_records_of_many_sizes_come_with_their_heads() -> None:
    data, starts = records([MIN_RECORD_SIZE + number % 50 for number in range(2 * FEW)])
    found, _ = chained(bytes(data), BASE)
    assert isinstance(found, Places)
    assert list(found) == starts
    assert [bytes(head) for head in found.heads] == [bytes(data[at : at + HEAD_SIZE]) for at in starts]


@given(
    st.one_of(st.binary(max_size=100), st.lists(st.sampled_from(b"ab"), max_size=100).map(bytes)), st.sampled_from(b"ab\0")
)
def test_every_place_of_a_byte_is_found_in_order(data: bytes, wanted: int) -> None:
    """Also where words of eight bytes have several."""
    found = _places_of(numpy.frombuffer(data, numpy.uint8), wanted, len(data))
    assert found.tolist() == [at for at, octet in enumerate(data) if octet == wanted]


def test_a_body_full_of_the_first_byte_of_the_magic_is_not_looked_at_place_by_place() -> None:
    """It would take a hundred times its size in memory."""
    sizes = [MIN_RECORD_SIZE, MIN_RECORD_SIZE + 1] * FEW
    data, starts = records([*sizes, 200_000, *sizes])
    data[starts[len(sizes)] + HEAD_SIZE : starts[len(sizes) + 1]] = b"\xda" * (200_000 - HEAD_SIZE)
    assert _with_first_of_magic(bytes(data)) is None
    assert walk(data) == (starts, len(data))


def test_where_there_is_none_none_is_found() -> None:
    assert chained(b"", BASE) == ([], 0)
    assert chained(bytes(5000), BASE) == ([], 0)
    data, _ = records([MIN_RECORD_SIZE] * 2 * FEW)
    assert chained(bytes(data), BASE + 1) == ([], 0), "they belong elsewhere"
