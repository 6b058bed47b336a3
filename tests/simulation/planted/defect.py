"""What a planted defect is, and how code is made to do nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..seeds import SHAPES


class Defect(NamedTuple):
    """``of.name`` becomes ``by``; ``real``: so it once was. ``shapes``: the clusters in which that
    code runs."""

    what: str
    real: bool
    of: Any
    name: str
    by: Any
    shapes: tuple[str, ...] = SHAPES


def nothing(*_args: Any, **_more: Any) -> None:
    """In the place of any function."""


async def nothing_later(*_args: Any) -> None:
    """In the place of any coroutine."""
