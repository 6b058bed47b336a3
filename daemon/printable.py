"""What peers, or damaged files, wrote, as people may read it: a terminal obeys some characters, and
others hide or turn around what stands beside them. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable

__all__ = ["printable", "printable_json"]


def printable(text: str, kept: str = "") -> str:
    """Without line breaks and control characters, but for those in ``kept``."""
    return _escaped(text, kept, lambda c: c.encode("unicode_escape").decode())


def printable_json(
    value: object, *, indent: int | None = None, default: Callable[[object], object] | None = None
) -> str:
    """JSON of the same value: it has an escape for each of them. Without ``indent`` one line."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(
        value, ensure_ascii=False, indent=indent, separators=separators, default=default
    )
    return _escaped(text, "\n", _json_escape)  # those between values: in a text it is escaped


def _escaped(text: str, kept: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else escape(c) for c in text)


def _json_escape(character: str) -> str:
    """JSON lets all but those below a space stand in a text."""
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]
