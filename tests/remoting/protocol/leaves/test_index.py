"""Entries of an index file: compiled and in Python."""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.leaves import pure_index as pure
from aiorocketmq.remoting.protocol.message.index_keys import key_hash, keys_of

from .both import compiled_leaves, outcome

compiled = compiled_leaves()

PIECES = [
    "UNIQ_KEY\x01",
    "KEYS\x01",
    "XKEYS\x01",
    "TAGS\x01a",
    "\x02",
    "\x01",
    " ",
    "  ",
    "k",
    "7F00",
    "é😀",
]
pieces = st.sampled_from([piece.encode() for piece in PIECES] + [b"\xc3", b"\xff"])
properties = st.lists(pieces, max_size=12).map(b"".join) | st.binary(max_size=60)
i64 = st.integers(-(2**63), 2**63 - 1)
messages = st.tuples(
    st.sampled_from(["T", "topic", "中文"]),
    properties,
    i64,
    i64,
    st.sampled_from([0, 1, 4, 8, 12, 15]),
)
Messages = list[tuple[str, bytes, int, int, int]]


def entries_of(kind: Callable[[], Any], found: Messages, most: int) -> list[list[int]]:
    """All of them, taken a few at a time, some before the others come."""
    keys, columns = kind(), [list[int]() for _ in range(3)]
    for step in (found[: len(found) // 2], found[len(found) // 2 :]):
        for message in step:
            keys.add(*message)
        taken = keys.take(most)
        while any(taken):
            assert [column.typecode for column in taken] == ["i", "q", "q"]
            for column, more in zip(columns, taken, strict=True):
                column += more
            taken = keys.take(most)
        assert (len(keys), keys.first_offset, keys.last_offset) == (0, -1, -1)
    return columns


@given(st.lists(messages, max_size=30), st.sampled_from([1, 3, 1000]))
@example(
    [("T", b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01\x02KEYS\x01k", 0, 0, 0)], 1
)  # an empty one does not count
@example([("T", b"UNIQ_KEY\x01" + bytes(range(1, 128)) * 300, 0, 0, 0)], 1)
@example([("T", b"KEYS\x01" + b"k " * 300, 0, 0, 0)], 7)
def test_entries(found: Messages, most: int) -> None:
    expected = [
        (key_hash(topic, key.decode("utf-8", "replace")), phy_offset, timestamp)
        for topic, text, phy_offset, timestamp, sys_flag in found
        for key in (keys_of(text) if sys_flag & 12 != 12 else [])
    ]
    for kind in (compiled.KeyEntries, pure.KeyEntries):
        assert [*zip(*entries_of(kind, found, most), strict=True)] == expected


def test_what_waits_is_known_by_its_first_and_last_message() -> None:
    for kind in (compiled.KeyEntries, pure.KeyEntries):
        keys = kind()
        for phy_offset in (100, 200, 300):
            keys.add("T", b"KEYS\x01a b", phy_offset, 5, 0)
        assert (keys.first_offset, keys.last_offset) == (100, 300)
        keys.take(2)
        assert (keys.first_offset, keys.last_offset, bool(keys)) == (200, 300, True)
        with pytest.raises(ValueError, match="nothing"):
            keys.take(0)


def test_what_is_long_or_too_much_or_no_ascii_is_looked_at_later() -> None:
    """Behind such a message all others wait as well: the order is that of the log."""
    usual, long, letters = b"UNIQ_KEY\x01u", b"KEYS\x01" + b"k " * 600, "KEYS\x01é😀".encode()
    for odd in (long, letters):
        keys = compiled.KeyEntries()
        for number, text in enumerate((usual, odd, usual)):
            keys.add("T", text, number, 5, 0)
        assert (len(keys), keys.first_offset, keys.last_offset) == (3, 0, 2)
        first, rest = keys.take(1000), keys.take(1000)
        assert [*first[1]] == [0]
        assert (rest[1][0], rest[1][-1], len(keys)) == (1, 2, 0)
    keys = compiled.KeyEntries()
    for number in range(200):
        keys.add("T", b"KEYS\x01" + b"k " * 500, number, 5, 0)
    assert len(keys) < 70_000
    taken = [
        len(column[0])
        for column in iter(lambda: keys.take(8192), (array("i"), array("q"), array("q")))
    ]
    assert (sum(taken), max(taken)) == (100_000, 8192)


def test_one_call_of_the_twin_looks_at_a_limited_number_of_keys_and_bytes() -> None:
    many = ("T", b"KEYS\x01" + b"k " * 16_000, 1, 2, 0)
    long = ("T", b"UNIQ_KEY\x01" + b"k" * 32_000, 1, 2, 0)
    for message, most, taken in (
        (many, 20_000, 32_000),
        (long, 128, -(-pure.LOOKED_AT // len(long[1]))),
    ):
        keys = pure.KeyEntries()
        for _ in range(128):
            keys.add(*message)
        assert [*map(len, keys.take(most))] == [taken] * 3


@pytest.mark.parametrize("size", range(50))
def test_keys_of_every_length_at_the_end_of_a_buffer(size: int) -> None:
    for text in (b"x" * size, b"x" * (size - 1) + b"\x80", b"polygenelubricants"[:size]):
        found = [("T", b"UNIQ_KEY\x01" + text, 1, 2, 0)]
        assert entries_of(compiled.KeyEntries, found, 9) == entries_of(pure.KeyEntries, found, 9)


slots = st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 40), min_size=1, max_size=12)
entries = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), i64, i64 | st.integers(0, 10**7)), max_size=40
)


@given(
    slots,
    st.sampled_from([1, 2, 30, 2**31 - 100]),
    st.sampled_from([0, -5, 1, 5_000_000, 2**62]),
    entries,
)
def test_items(
    numbers: list[int], first: int, begin: int, found: list[tuple[int, int, int]]
) -> None:
    """Whatever stands in the slots: what a crash left there may be of an item that is gone."""
    columns = [array(code, [entry[at] for entry in found]) for at, code in enumerate("iqq")]
    one, other = (bytearray(struct.pack(f">{len(numbers)}i", *numbers)) for _ in range(2))
    assert compiled.chain_items(one, first, begin, *columns) == pure.chain_items(
        other, first, begin, *columns
    )
    assert one == other


def test_slots_may_be_a_part_of_a_mapping() -> None:
    columns = array("i", [3, 10, 3]), array("q", [1, 2, 3]), array("q", [4, 5, 6])
    with mmap.mmap(-1, 4096) as mapping:
        with memoryview(mapping)[40:68] as part:
            written = compiled.chain_items(part, 1, 0, *columns)
        expected = bytearray(28)
        assert written == pure.chain_items(expected, 1, 0, *columns)
        assert mapping[40:68] == expected


@pytest.mark.parametrize("wrong", range(3))
def test_columns_of_different_lengths_are_refused(wrong: int) -> None:
    columns = [array("i", [1]), array("q", [2]), array("q", [3])]
    columns[wrong].append(4)
    for leaf in (compiled.chain_items, pure.chain_items):
        assert outcome(leaf, bytearray(40), 1, 0, *columns)[0] is ValueError  # type: ignore[index]
