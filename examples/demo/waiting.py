"""Waiting for a condition that nobody announces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .errors import DemoError

_LOOK_EVERY_S = 0.01


async def until(condition: Callable[[], bool], within_s: float, problem: str) -> None:
    """Return as soon as the condition holds. Raises ``DemoError`` with the problem when it does not
    in time."""
    try:
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110  (nothing sets an event when it begins to hold)
                await asyncio.sleep(_LOOK_EVERY_S)
    except TimeoutError:
        raise DemoError(f"{problem} within {within_s:.0f} s") from None
