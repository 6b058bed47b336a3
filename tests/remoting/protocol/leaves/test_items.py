"""Items of a batch body: the leaf makes what the twin makes, and a broker reads what was meant."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol import leaves
from aiorocketmq.remoting.protocol.record.batch import decode_batch
from aiorocketmq.remoting.protocol.record.batch_items import join_items  # noqa: F401

from .both import compiled_leaves, outcome

compiled = compiled_leaves()
TWIN = leaves.TWINS["join_items"]

texts = st.lists(st.binary(max_size=30), max_size=12)


def column(some: list[bytes], before: bytes = b"") -> tuple[array[int], bytes]:
    ends = array("i", accumulate(map(len, some), initial=len(before)))
    return ends, before + b"".join(some) + b"behind"


@given(texts, st.data(), st.integers(0, 10**19), st.booleans())
def test_leaf_twin_and_reader(
    bodies: list[bytes], data: st.DataObject, first: int, flagged: bool
) -> None:
    count = len(bodies)
    first = min(first, 2**62)
    some = data.draw(st.lists(st.binary(max_size=9), min_size=count, max_size=count))
    flags = data.draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=count, max_size=count))
    pieces = [b"a\x01", range(first, first + count), (b"\x02b\x01", *column(some, b"x"))]
    arguments = *column(bodies, b"xy"), array("i", flags) if flagged else None, pieces
    found = TWIN(*arguments)
    assert compiled.join_items(*arguments) == found
    ends, joined, longest = found
    items = decode_batch(bytes(joined))
    assert [(item.body, item.flag) for item in items] == [
        *zip(bodies, flags if flagged else [0] * count, strict=True)
    ]
    meant = [
        b"a\x01%d" % (first + row) + (b"\x02b\x01" + text if text else b"")
        for row, text in enumerate(some)
    ]
    assert [item.properties for item in items] == meant
    assert longest == max(map(len, meant), default=0)
    sizes = [22 + len(item.body) + len(item.properties) for item in items]
    assert ends.tolist() == [*accumulate(sizes, initial=0)]


TWO = column([b"one", b"two"])


@pytest.mark.parametrize(
    "arguments",
    [
        (array("i"), b"", None, []),
        (array("i", [0, 4]), b"abc", None, []),
        (array("i", [-1, 2]), b"abc", None, []),
        (array("i", [2, 1]), b"abc", None, []),
        (*TWO, array("i", [1]), []),
        (*TWO, array("b", [1]), []),
        (*TWO, array("i", [1, 2, 3]), []),
        (*TWO, None, [range(3)]),
        (*TWO, None, [range(-1, 1)]),
        (*TWO, None, [range(0, 4, 2)]),
        (*TWO, None, [(b"", array("i", [0, 1]), b"a")]),
        (*TWO, None, [(b"", array("i", [0, 1, 2]), b"a")]),
        (*TWO, None, [b"x"] * 17),
    ],
)
def test_what_cannot_be(arguments: tuple[Any, ...]) -> None:
    found = outcome(compiled.join_items, *arguments)
    assert found == outcome(TWIN, *arguments)
    assert isinstance(found, tuple)
    assert found[0] is ValueError


def test_how_long_properties_are_is_told_where_their_length_has_no_room() -> None:
    arguments = *TWO, None, [b"x" * 70_000]
    found = compiled.join_items(*arguments)
    assert found == TWIN(*arguments)
    assert found[2] == 70_000
