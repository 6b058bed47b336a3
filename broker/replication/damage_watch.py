"""When to look for what is damaged: at once when something has been found, and every now and then,
for what could not be mended before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from ...remoting.clock import Clock
from ...remoting.services import happens_within
from ...store.log.damage import DamagedRecords

LOOK_S: Final = 10.0


class DamageWatch:
    """Of one service."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._found: Final = asyncio.Event()

    async def next(self) -> None:
        """Return when it is time to look."""
        await happens_within(self._found, LOOK_S, self._clock)
        self._found.clear()

    def found(self) -> None:
        self._found.set()


@asynccontextmanager
async def watching(damage: DamagedRecords, clock: Clock) -> AsyncIterator[DamageWatch]:
    """Threads find damage, too."""
    watch = DamageWatch(clock)
    tell = partial(asyncio.get_running_loop().call_soon_threadsafe, watch.found)
    damage.on_found.append(tell)
    try:
        yield watch
    finally:
        damage.on_found.remove(tell)
