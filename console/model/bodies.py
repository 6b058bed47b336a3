"""What is in a message, as text that can be looked at."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

MOST_BYTES: Final = 1 << 20
MOST_HEX_BYTES: Final = 16 << 10
MOST_DEPTH: Final = 100
"""Of JSON that is shown folded; what is deeper is text."""
MOST_NODES: Final = 5000


class Node(NamedTuple):
    """A piece of JSON: a value, or a list of named pieces. ``kind``: ``object``, ``array`` or
    ``value``."""

    name: str
    kind: str
    text: str
    children: tuple[Node, ...] = ()


class Body(NamedTuple):
    """A body of ``size`` bytes; ``cut``: so many are not shown."""

    size: int
    cut: int
    text: str | None
    """``None``: it is no UTF-8."""
    tree: Node | None
    """``None``: it is no JSON, or too much of it to fold."""
    hex: str


def look_at(body: bytes) -> Body:
    shown = body[:MOST_BYTES]
    text = _text(shown, cut=len(body) > MOST_BYTES)
    tree = _tree(text) if text is not None and len(body) <= MOST_BYTES else None
    return Body(len(body), len(body) - len(shown), text, tree, hex_lines(shown[:MOST_HEX_BYTES]))


def _text(shown: bytes, *, cut: bool) -> str | None:
    for shorter in range(4 if cut else 1):  # a character may have been cut in two
        try:
            return shown[: len(shown) - shorter].decode("utf-8")
        except UnicodeDecodeError:
            continue
    return None


def hex_lines(data: bytes) -> str:
    """``00000000  68 65 6c 6c 6f  hello``, 16 bytes a line."""
    lines = []
    for at in range(0, len(data), 16):
        piece = data[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append(f"{at:08x}  {piece.hex(' '):<47}  {shown}")
    return "\n".join(lines)


def _tree(text: str) -> Node | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    left = [MOST_NODES]
    try:
        return _node("", value, left, 0)
    except _TooMuch:
        return None


class _TooMuch(Exception):
    pass


def _node(name: str, value: object, left: list[int], depth: int) -> Node:
    left[0] -= 1
    if left[0] < 0 or depth > MOST_DEPTH:
        raise _TooMuch
    if isinstance(value, dict):
        children = tuple(_node(_shown(key), each, left, depth + 1) for key, each in value.items())
        return Node(name, "object", f"{len(children)} fields", children)
    if isinstance(value, list):
        children = tuple(
            _node(str(number), each, left, depth + 1) for number, each in enumerate(value)
        )
        return Node(name, "array", f"{len(children)} items", children)
    return Node(name, "value", _shown(json.dumps(value, ensure_ascii=False)))


def _shown(text: str) -> str:
    """JSON can name half a character (``\\ud800``), which no page can have: it stays escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
