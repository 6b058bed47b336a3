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
from aiorocketmq.remoting.protocol.record import property_pairs

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
EDGES, MAPS = leaves.TWINS["property_edges"], leaves.TWINS["property_maps"]

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


@given(st.lists(strings, max_size=6), st.sampled_from([b"", b"\x02", b"\xff", b"x" * 20]))
def test_leaf_twin_and_reader(some: list[bytes], gap: bytes) -> None:
    arguments = laid_out(some, gap)
    edges = EDGES(*arguments, NAMES)
    maps = MAPS(*arguments)
    assert compiled.property_edges(*arguments, NAMES) == edges
    assert compiled.property_maps(*arguments) == maps
    is_plain = all(each.isascii() and each.count(b"b\x02") < 65 for each in some)
    assert (edges is not None) == (maps is not None) == is_plain
    if maps is None:
        return
    read = [decode_properties(each) for each in some]
    assert entries(*maps) == [[*each.items()] for each in map(by_last, some)]
    data = arguments[0]
    for name, begins, ends in zip(NAMES[:3], edges[::2], edges[1::2], strict=False):
        found = [data[at:end].decode() or None for at, end in zip(begins, ends, strict=True)]
        assert found == [each.get(name.decode()) for each in read]


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
    for leaf, twin in ((compiled.property_maps, MAPS), (compiled.property_edges, EDGES)):
        more = [[b"n63"]] if twin is EDGES else []
        assert (found := leaf(*arguments, *more)) == twin(*arguments, *more)
        assert (found is None) == (many == 65)


@pytest.mark.parametrize("position", range(40))
def test_every_place_of_what_is_not_ascii(position: int) -> None:
    text = bytearray(b"KEYS\x01" + b"k" * 40)
    text[position] = 0x80
    arguments = laid_out([b"a\x01b", bytes(text)], b"")
    assert compiled.property_edges(*arguments, []) is EDGES(*arguments, []) is None
    assert compiled.property_maps(*arguments) is MAPS(*arguments) is None


@pytest.mark.parametrize(
    ("begins", "ends"), [([0], [4]), ([-1], [2]), ([2], [1]), ([0, 1], [1]), ([2**62], [2**62])]
)
def test_what_cannot_be(begins: list[int], ends: list[int]) -> None:
    arguments = b"a\x01b", array("q", begins), array("q", ends)
    for name, more in (("property_edges", [[b"a"]]), ("property_maps", [])):
        found = outcome(getattr(compiled, name), *arguments, *more)
        assert found == outcome(leaves.TWINS[name], *arguments, *more)
        assert isinstance(found, tuple)
        assert found[0] is ValueError


def test_what_is_used() -> None:
    assert property_pairs.property_maps(b"", array("q"), array("q")) == MAPS(
        b"", array("q"), array("q")
    )
