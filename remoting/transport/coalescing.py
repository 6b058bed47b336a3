"""When answers leave: at once, or, while many connections are read in one turn of the loop, all at
the end of it.

A write to a peer that sleeps wakes it, which costs more than the write. Where many connections
belong to a few peers, the first answer wakes a peer, it has dealt with it before the second one is
there, and sleeps again. Answers that leave one behind the other find it awake. With few connections
the peer and we would only take turns instead of working side by side.

Measured in turn with and without (two cores): 64 clients with a send each 12.5 µs of CPU and
78,000/s, without 15.2 and 64,000.

So every few milliseconds a turn is tried: answers wait for its end, and connections are counted.
While these are many it goes on like that.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

_MIN_CONNECTIONS: Final = 12
"""Connections that were read in a turn. With 32 it saves a fifth; 8 on an idle machine paid 15.5
instead of 12.8 µs."""
_EVERY_MS: Final = 4
"""A turn that is tried in vain delays answers to its end. Every ms costs no more, every 32 ms finds
32 clients too late."""


class Flushed(Protocol):
    """A connection, as it is seen from here."""

    def flush(self) -> None: ...


class Coalescing:
    """The answers of one server."""

    def __init__(self) -> None:
        self._late = False
        self._tried = 0
        """When it was tried last."""
        self._waiting: list[Flushed] = []

    def waits(self, now_ms: int) -> bool:
        """Answers wait for the end of this turn."""
        return self._late or self._tried != now_ms // _EVERY_MS

    def add(self, connection: Flushed, now_ms: int) -> None:
        """Flush it at the end of this turn."""
        self._late, self._tried = True, now_ms // _EVERY_MS
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(connection)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._late = len(waiting) >= _MIN_CONNECTIONS
        connections = iter(waiting)
        try:
            for connection in connections:
                connection.flush()
        finally:  # some are left after a bug: they are not to suffer from it
            for connection in connections:
                asyncio.get_running_loop().call_soon(connection.flush)
