"""Work in slices on the event loop (``slices.py``)."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from .slices import Steps

T = TypeVar("T")


async def in_turns(steps: Steps[T]) -> T:
    """All of it, with a turn of the event loop after each slice."""
    try:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await asyncio.sleep(0)
    finally:
        steps.close()
