"""Time as an argument: whoever needs the time is given a ``Clock``, so that a test can own it."""

from __future__ import annotations

import time
from typing import Final, Protocol


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for what is measured, and sleeping."""

    def time_ms(self) -> int:
        """Milliseconds since 1970, as stamped into messages and tables."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic: Final = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        import asyncio  # Spark's processes know this module without a loop

        await asyncio.sleep(seconds)
