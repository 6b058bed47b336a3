"""Entries of an index file: compiled and in Python."""

from __future__ import annotations

import mmap
import struct
from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.index_keys import TopicPrefixes
from aiorocketmq.remoting.protocol.leaves import pure_index as pure
from aiorocketmq.remoting.protocol.leaves.pure_index import PendingMessage

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
PREFIXES = TopicPrefixes()

PIECES = ["UNIQ_KEY\x01", "KEYS\x01", "XKEYS\x01", "TAGS\x01a", "\x02", "\x01", " ", "  ", "k", "7F00", "é😀"]
pieces = st.sampled_from([piece.encode() for piece in PIECES] + [b"\xc3", b"\xff"])
properties = st.lists(pieces, max_size=12).map(b"".join) | st.binary(max_size=60)
i64 = st.integers(-(2**63), 2**63 - 1)
messages = st.tuples(
    i64, st.sampled_from(["T", "topic", "中文"]), properties, i64, st.sampled_from([0, 1, 4, 8, 12, 15]), st.integers(-1, 40)
)


@given(st.lists(messages, max_size=30))
@example([(0, "T", b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01\x02KEYS\x01k", 0, 0, 0)])  # an empty one does not count
@example([(0, "T", b"UNIQ_KEY\x01" + bytes(range(1, 128)) * 300, 0, 0, 0)])
@example([(0, "T", b"KEYS\x01" + b"k " * 300, 0, 0, 0)])
def test_entries(found: list[PendingMessage]) -> None:
    for most in (len(found), 3, 0):
        assert compiled.index_entries(found, PREFIXES, most) == pure.index_entries(found, PREFIXES, most)


def test_one_call_looks_at_a_limited_number_of_keys_and_bytes() -> None:
    keys = (1, "T", b"KEYS\x01" + b"k " * 16_000, 2, 0, 0)
    none = (1, "T", b"TAGS\x01" + b"t" * 32_000, 2, 0, 0)
    long = (1, "T", b"UNIQ_KEY\x01" + b"k" * 32_000, 2, 0, 32_009)
    for leaf in (compiled.index_entries, pure.index_entries):
        taken, entries = leaf([keys] * 128, PREFIXES, 20_000)
        assert (taken, [*map(len, entries)]) == (2, [32_000] * 3)
        assert leaf([none] * 128, PREFIXES, 128)[0] == -(-pure.LOOKED_AT // len(none[2]))
        assert leaf([long] * 128, PREFIXES, 128)[0] == -(-pure.LOOKED_AT // 32_009)


@pytest.mark.parametrize("size", range(50))
def test_keys_of_every_length_at_the_end_of_a_buffer(size: int) -> None:
    for text in (b"x" * size, b"x" * (size - 1) + b"\x80", b"polygenelubricants"[:size]):
        for end in (0, 9 + size):
            found = [(1, "T", b"UNIQ_KEY\x01" + text, 2, 0, end)]
            assert compiled.index_entries(found, PREFIXES, 9) == pure.index_entries(found, PREFIXES, 9)


slots = st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 40), min_size=1, max_size=12)
entries = st.lists(st.tuples(st.integers(0, 2**31 - 1), i64, i64 | st.integers(0, 10**7)), max_size=40)


@given(slots, st.sampled_from([1, 2, 30, 2**31 - 100]), st.sampled_from([0, -5, 1, 5_000_000, 2**62]), entries)
def test_items(numbers: list[int], first: int, begin: int, found: list[tuple[int, int, int]]) -> None:
    """Whatever stands in the slots: what a crash left there may be of an item that is gone."""
    columns = [array(code, [entry[at] for entry in found]) for at, code in enumerate("iqq")]
    one, other = (bytearray(struct.pack(f">{len(numbers)}i", *numbers)) for _ in range(2))
    assert compiled.chain_items(one, first, begin, *columns) == pure.chain_items(other, first, begin, *columns)
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
