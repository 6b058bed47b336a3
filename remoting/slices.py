"""Long work in slices, so that others may have their turn in between: a generator that yields
wherever somebody else may go on, and returns its result. Pure; ``sliced_requests.in_slices`` drives
it on an event loop.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work in slices. Each takes some ten milliseconds at most."""


def at_once(steps: Steps[T]) -> T:
    """All of it, one slice after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def in_one(result: T) -> Steps[T]:
    """What needs no slices."""
    return result
    yield


def slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of so many; the last one may be shorter."""
    rest = iter(items)
    while found := list(islice(rest, size)):
        yield found
