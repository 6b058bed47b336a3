"""Bodies as they are shown: whatever they are, and never more than so much."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.console.model.bodies import (
    MOST_BYTES,
    MOST_DEPTH,
    MOST_HEX_BYTES,
    MOST_NODES,
    hex_lines,
    look_at,
)


def test_text() -> None:
    body = look_at("grüß dich".encode())
    assert (body.text, body.tree, body.size, body.cut) == ("grüß dich", None, 11, 0)


def test_json_is_a_tree() -> None:
    body = look_at(b'{"a": [1, "<b>"], "c": null}')
    assert body.tree is not None
    a, c = body.tree.children
    assert (a.name, a.kind, a.text) == ("a", "array", "2 items")
    assert [child.text for child in a.children] == ["1", '"<b>"']
    assert c.text == "null"


def test_half_a_character_stays_escaped() -> None:
    """No page can have it, and one message must not keep its page from being made."""
    body = look_at(rb'{"a\ud800": ["\udfff", "\ud83d\ude00"]}')
    assert body.tree is not None
    (a,) = body.tree.children
    assert a.name == r"a\ud800"
    assert [child.text for child in a.children] == [r'"\udfff"', '"\U0001f600"']


def test_what_is_no_text() -> None:
    body = look_at(b"\xff\xfe\x00A")
    assert body.text is None
    assert body.hex == "00000000  ff fe 00 41" + " " * 36 + "  ...A"


def test_json_that_is_too_deep_or_too_much() -> None:
    deep = "[" * (MOST_DEPTH + 2) + "]" * (MOST_DEPTH + 2)
    for text in (deep, json.dumps(list(range(MOST_NODES))), "[" * 100_000):
        body = look_at(text.encode())
        assert body.tree is None
        assert body.text == text


def test_not_more_than_so_much() -> None:
    body = look_at("ä".encode() * MOST_BYTES)
    assert body.cut == MOST_BYTES
    assert len((body.text or "").encode()) == MOST_BYTES
    odd = look_at(b"a" + "ä".encode() * MOST_BYTES)  # a character is cut in two
    assert odd.text is not None
    assert len(odd.text.encode()) == MOST_BYTES - 1
    assert len(body.hex.splitlines()) == MOST_HEX_BYTES // 16


@given(st.binary(max_size=400))
def test_anything_can_be_looked_at(data: bytes) -> None:
    body = look_at(data)
    shown = bytes.fromhex("".join(line[10:57] for line in hex_lines(data).splitlines()))
    assert shown == data
    assert body.text is None or body.text.encode() == data
