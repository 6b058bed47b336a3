"""Pairs of property strings: the leaf finds what the twin finds, and both what the reader finds."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol import leaves
from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.remoting.protocol.record.property_pairs import property_columns

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
TWIN = leaves.TWINS["property_columns"]

texts = st.text(st.sampled_from("\x00\x01\x02\x02abKTX"), max_size=40).map(str.encode)
pairs = st.lists(
    st.tuples(st.sampled_from([b"KEYS", b"TAGS", b"a", b"UNIQ_KEY", b"WAIT", b""]), texts),
    max_size=9,
).map(lambda some: b"\x02".join(b"\x01".join(pair) for pair in some))
strings = st.one_of(texts, pairs, st.just("名\x01b".encode()), st.just(b"a\x01b\x02" * 65))
NAMES = [b"KEYS", b"a", b"TAGS", b"", b"\x01", b"KEYS"]


def laid_out(some: list[bytes], gap: bytes) -> tuple[bytes, array[int], array[int]]:
    data = gap + gap.join(some) + gap
    begins, at = array("q"), len(gap)
    for each in some:
        begins.append(at)
        at += len(each) + len(gap)
    return data, begins, array("q", map(sum, zip(begins, map(len, some), strict=True)))


@given(
    st.lists(strings, max_size=20),
    st.sampled_from([b"", b"\x02", b"\xff", b"x" * 20]),
    st.booleans(),
)
def test_leaf_twin_and_reader(some: list[bytes], gap: bytes, with_maps: bool) -> None:
    arguments = *laid_out(some, gap), NAMES, with_maps
    found = TWIN(*arguments)
    assert compiled.property_columns(*arguments) == found
    is_plain = all(each.isascii() and each.count(b"b\x02") < 65 for each in some)
    assert (found is not None) == is_plain
    if found is None:
        return
    columns, maps = found
    assert (maps is not None) == with_maps
    if maps is not None:
        assert entries(*maps) == [[*each.items()] for each in map(by_last, some)]
    read = [decode_properties(each) for each in some]
    for name, (there, ends, data) in zip(NAMES, columns, strict=True):
        values = [text or None for text in pieces(ends, data)]
        assert values == [each.get(name.decode()) for each in read]
        bits = [value is not None for value in values]
        assert (there is None) == all(bits)
        if there is not None:
            assert [bool(there[row >> 3] >> (row & 7) & 1) for row in range(len(bits))] == bits


def entries(firsts: Any, name_ends: Any, names: Any, value_ends: Any, values: Any) -> Any:
    both = zip(pieces(name_ends, names), pieces(value_ends, values), strict=True)
    pairs = list(both)
    return [pairs[at:end] for at, end in pairwise(firsts)]


def pieces(ends: Any, data: Any) -> list[str]:
    return [bytes(data[at:end]).decode() for at, end in pairwise(ends)]


def by_last(text: bytes) -> dict[str, str]:
    """In the order of their last places."""
    found: dict[str, str] = {}
    for part in text.decode().split("\x02"):
        for name, value in decode_properties(part).items():
            found.pop(name, None)
            found[name] = value
    return found


@pytest.mark.parametrize("many", [64, 65])
def test_very_many_pairs_are_for_others(many: int) -> None:
    arguments = laid_out([b"".join(b"n%d\x01v\x02" % number for number in range(many))], b"")
    for with_maps in (False, True):
        found = compiled.property_columns(*arguments, [b"n63"], with_maps)
        assert found == TWIN(*arguments, [b"n63"], with_maps)
        assert (found is None) == (many == 65)


@pytest.mark.parametrize("position", range(40))
def test_every_place_of_what_is_not_ascii(position: int) -> None:
    text = bytearray(b"KEYS\x01" + b"k" * 40)
    text[position] = 0x80
    arguments = *laid_out([b"a\x01b", bytes(text)], b""), [b"a"], True
    assert compiled.property_columns(*arguments) is TWIN(*arguments) is None


@pytest.mark.parametrize(
    ("begins", "ends"), [([0], [4]), ([-1], [2]), ([2], [1]), ([0, 1], [1]), ([2**62], [2**62])]
)
def test_what_cannot_be(begins: list[int], ends: list[int]) -> None:
    arguments = b"a\x01b", array("q", begins), array("q", ends), [b"a"], True
    found = outcome(compiled.property_columns, *arguments)
    assert found == outcome(TWIN, *arguments)
    assert isinstance(found, tuple)
    assert found[0] is ValueError


def test_long_values_and_the_end_of_the_buffer() -> None:
    """Values are copied in 16 bytes at once where there are so many behind their beginning."""
    for size in (1, 15, 16, 17, 300):
        arguments = *laid_out([b"KEYS\x01" + b"k" * size] * 3, b""), [b"KEYS", b"no"], True
        assert compiled.property_columns(*arguments) == TWIN(*arguments)


def test_columns_come_as_buffers_of_their_size() -> None:
    found = property_columns(*laid_out([b"a\x01b"] * 9, b""), [b"a", b"no"], False)
    assert found is not None
    (_, ends, data), (_, none, _) = found[0]
    assert (ends.itemsize * len(ends), bytes(data), none.tolist()) == (40, b"b" * 9, [0] * 10)


def test_too_many_names_are_for_others() -> None:
    arguments = *laid_out([b"a\x01b"], b""), [b"a"] * 65, False
    assert compiled.property_columns(*arguments) is TWIN(*arguments) is None
