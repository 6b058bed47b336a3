"""One page of a long list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Page(NamedTuple, Generic[T]):
    """Some of many."""

    rows: Sequence[T]
    total: int
    number: int
    """From 1."""
    last: int


def page_of(found: Sequence[T], number: int, size: int) -> Page[T]:
    """The page of that number, or the nearest that there is."""
    last = max(1, -(-len(found) // size))
    number = min(max(1, number), last)
    return Page(found[(number - 1) * size : number * size], len(found), number, last)
