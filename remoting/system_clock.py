"""The machine's clock, for whoever is not given another one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .clock import Timer


class SystemClock:
    """A ``Clock``."""

    __slots__ = ()

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic: Final = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        import asyncio  # Spark's processes know this module without a loop

        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        import asyncio

        return asyncio.get_running_loop().call_later(seconds, callback)


@dataclass(frozen=True)
class BlockingClock:
    """The time in seconds for code that may block, in threads and in Spark's tasks."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    time_ms: Callable[[], int] = SystemClock().time_ms
    """Since 1970."""


BLOCKING_CLOCK: Final = BlockingClock()
