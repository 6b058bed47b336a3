"""One index file over a plain buffer: the layout byte by byte, searching, damage."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.store.index.index_file import HEADER_SIZE, PAUSE_AFTER, IndexFile, index_file_size

SLOTS, ITEMS = 7, 50
T0 = 1_700_000_000_000


def new_file(slots: int = SLOTS, items: int = ITEMS) -> tuple[bytearray, IndexFile]:
    buffer = bytearray(index_file_size(slots, items))
    return buffer, IndexFile(buffer, slots, items)


def put(
    index: IndexFile, hashes: Iterable[int], phy_offsets: Iterable[int], timestamps: Iterable[int]
) -> None:
    index.put(array("i", hashes), array("q", phy_offsets), array("q", timestamps))


def found(index: IndexFile, hashed: int, begin: int = 0, end: int = 1 << 62) -> list[int]:
    return [phy_offset for phy_offset in index.find(hashed, begin, end) if phy_offset is not None]


def whatever(_hashed: int, _phy_offset: int) -> bool:
    """Every item has its message."""
    return True


def test_the_usual_size() -> None:
    assert index_file_size(5_000_000, 20_000_000) == 420_000_040


# --- layout
# --------------------------------------------------------------------------------------------------


def test_every_byte_of_a_file_with_three_items() -> None:
    buffer, index = new_file()
    put(index, [3, 10], [1000, 1000], [T0, T0])
    put(index, [3], [2000], [T0 + 2999])
    assert struct.unpack_from(">qqqqii", buffer) == (T0, T0 + 2999, 1000, 2000, 1, 4)
    slots = struct.unpack_from(f">{SLOTS}i", buffer, HEADER_SIZE)
    assert slots == (0, 0, 0, 3, 0, 0, 0)  # 3 % 7 and 10 % 7 are one slot
    at = HEADER_SIZE + 4 * SLOTS
    items = [struct.unpack_from(">iqii", buffer, at + 20 * number) for number in range(5)]
    assert items == [(0, 0, 0, 0), (3, 1000, 0, 0), (10, 1000, 0, 1), (3, 2000, 2, 2), (0, 0, 0, 0)]


def test_a_file_behind_a_full_one_begins_with_its_end() -> None:
    _, full = new_file(items=3)
    assert full.free_items == 2
    put(full, [1, 2], [5, 6], [T0, T0 + 10])
    assert full.free_items == 0
    buffer, index = new_file()
    index.follow(full)
    assert struct.unpack_from(">qqqqii", buffer) == (T0 + 10, T0 + 10, 6, 6, 0, 1)
    put(index, [1], [9], [T0 + 5010])
    assert (index.begin_timestamp, index.begin_phy_offset) == (T0 + 5010, 9)
    assert list(index.items()) == [(1, 9, 5, 0)]  # counted from the end of the full one
    assert found(index, 1, T0 + 5010, T0 + 5010) == [9]


@pytest.mark.parametrize(
    ("time", "seconds"), [(T0 - 5000, 0), (T0 + 1999, 1), (T0 + (1 << 50), 0x7FFFFFFF)]
)
def test_seconds_stay_in_their_limits(time: int, seconds: int) -> None:
    _, index = new_file()
    put(index, [1, 1], [1, 2], [T0, time])
    assert list(index.items())[1][2] == seconds


def test_an_invalid_slot_counts_as_empty() -> None:
    buffer, index = new_file()
    struct.pack_into(">i", buffer, HEADER_SIZE + 4, 40)
    struct.pack_into(">i", buffer, HEADER_SIZE + 8, -1)
    put(index, [1, 2], [10, 20], [T0, T0])
    assert [item[3] for item in index.items()] == [0, 0]
    assert index.slots_used == 2


# --- searching
# --------------------------------------------------------------------------------------------------

messages = st.lists(
    st.tuples(st.integers(1, 13), st.integers(0, 9000)), min_size=1, max_size=ITEMS - 1
)


@settings(deadline=None)
@given(messages, st.integers(1, 13), st.integers(0, 9000), st.integers(0, 9000))
def test_what_was_put_is_found_newest_first(
    puts: list[tuple[int, int]], hashed: int, begin: int, end: int
) -> None:
    buffer, index = new_file()
    times = sorted(T0 + time for _, time in puts)
    for number, (own, _) in enumerate(puts):
        put(index, [own], [number], [times[number]])
    mine = [number for number, (own, _) in enumerate(puts) if own == hashed]
    exact = [n for n in mine if T0 + begin <= times[n] <= T0 + end]
    near = [n for n in mine if T0 + begin - 1000 < times[n] < T0 + end + 1000]
    result = found(IndexFile(buffer, SLOTS, ITEMS), hashed, T0 + begin, T0 + end)
    assert result == sorted(result, reverse=True)
    assert set(exact) <= set(result) <= set(near)
    assert found(index, hashed) == mine[::-1]


def test_a_long_way_without_a_find_has_pauses() -> None:
    count = 3 * PAUSE_AFTER
    _, index = new_file(1, count + 2)
    put(index, [1] + [2] * count, list(range(count + 1)), [T0] * (count + 1))
    assert list(index.find(1, T0, T0)) == [None, None, None, 0]


def test_a_chain_that_does_not_go_back_ends() -> None:
    buffer, index = new_file()
    put(index, [1, 1], [10, 20], [T0, T0])
    struct.pack_into(">i", buffer, HEADER_SIZE + 4 * SLOTS + 20 + 16, 2)
    assert found(index, 1) == [20, 10]


# --- damage
# --------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(messages, st.integers(0, 60))
def test_a_cut_file_is_as_if_the_rest_had_never_come(
    puts: list[tuple[int, int]], limit: int
) -> None:
    _, index = new_file()
    _, expected = new_file()
    times = sorted(T0 + time * 1000 for _, time in puts)
    for number, (hashed, _) in enumerate(puts):
        put(index, [hashed], [number], [times[number]])
        if number < limit:
            put(expected, [hashed], [number], [times[number]])
    assert index.cut(limit, whatever) is None
    assert list(index.items()) == list(expected.items())
    assert index.slots_used == expected.slots_used
    for hashed in range(14):
        assert found(index, hashed) == found(expected, hashed)
    if limit:
        assert index.end_phy_offset == expected.end_phy_offset
        assert expected.end_timestamp <= index.end_timestamp <= expected.end_timestamp + 999


def test_a_lost_item_is_noticed() -> None:
    buffer, index = new_file()
    put(index, [1, 2, 3], [100, 200, 300], [T0, T0, T0])
    at = HEADER_SIZE + 4 * SLOTS + 20 * 2
    buffer[at : at + 20] = bytes(20)
    assert index.cut(1000, whatever) == 100
    assert [item[1] for item in index.items()] == [100]
    assert found(index, 1) == [100]
    assert found(index, 2) == found(index, 3) == []


def test_an_item_of_an_earlier_life_is_no_next_one() -> None:
    """A start had forgotten it, and made items anew in front of it, one less; of those behind them
    a power failure lost the sector (seed 14103402)."""
    buffer, index = new_file()
    put(index, [1, 2, 1, 2, 1], [10, 20, 30, 35, 40], [T0] * 5)
    forgotten = bytes(buffer[index.end - 20 : index.end])
    index.cut(20, whatever)
    put(index, [1, 2, 1, 2], [30, 35, 40, 50], [T0] * 4)
    buffer[index.end - 20 : index.end] = forgotten
    assert index.cut(50, whatever) == 40
    assert found(index, 1) == [40, 30, 10]
    put(index, [2], [50], [T0])
    assert (found(index, 1), found(index, 2)) == ([40, 30, 10], [50, 35])


def test_an_item_that_is_torn_and_looks_like_one_in_front_of_it_is_noticed() -> None:
    buffer, index = new_file()
    put(index, [1, 2, 3, 4], [0x100, 0x200, 0x345, 0x400], [T0, T0, T0, T0])
    at = HEADER_SIZE + 4 * SLOTS + 20 * 3
    assert buffer[at + 11] == 0x45
    buffer[at + 11 : at + 20] = bytes(9)
    assert (
        index.cut(0x345, lambda *item: item in {(1, 0x100), (2, 0x200), (3, 0x345), (4, 0x400)})
        == 0x200
    )
    assert [item[1] for item in index.items()] == [0x100, 0x200]


def test_items_at_end() -> None:
    _, index = new_file()
    assert index.items_at_end() == 0
    put(index, [1, 2, 3], [100, 200, 200], [T0, T0, T0])
    assert index.items_at_end() == 2


def test_many_items_are_written_without_the_buffer() -> None:
    expected, together = new_file(1000, 400)
    buffer, _ = new_file(1000, 400)
    sizes: list[int] = []

    def write(position: int, data: bytes) -> bool:
        sizes.append(len(data))
        buffer[position : position + len(data)] = data
        return True

    written = IndexFile(buffer, 1000, 400, write)
    for at, count in ((0, 20), (20, 300)):
        hashes = [number * 7919 for number in range(at, at + count)]
        for index in (together, written):
            put(index, hashes, range(at, at + count), [T0 + at] * count)
    assert buffer == expected
    assert [size for size in sizes if size < 4096] == []
    assert sum(sizes) == 300 * 20
