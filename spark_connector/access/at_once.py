"""Many questions side by side, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

__all__ = ["by_key"]

K = TypeVar("K")
V = TypeVar("V")

_AT_ONCE: Final = 256
"""Questions under way: a topic may have thousands of queues."""


async def by_key(keys: Iterable[K], ask: Callable[[K], Awaitable[V]]) -> dict[K, V]:
    """All answers; not all at once. The first error ends the others."""
    permits = asyncio.Semaphore(_AT_ONCE)

    async def one(key: K) -> V:
        async with permits:
            return await ask(key)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(one(key)) for key in keys}
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return {key: task.result() for key, task in tasks.items()}
