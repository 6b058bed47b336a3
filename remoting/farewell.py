"""The end of a connection: what was written goes out, TLS says goodbye, and nobody's answer is waited for.

A transport that is closed sends what waits, however long the peer takes nothing; with TLS it then waits for the peer's
goodbye, 30 s by default. Peers need not say one, and Netty's do not. So who closes looks after it: the connection is cut as
soon as everything is with the system, or when the peer takes nothing any more.
"""

from __future__ import annotations

import asyncio
import select
from typing import Final

__all__ = ["STALL_S", "Farewell"]

LOOK_S: Final = 0.01
STALL_S: Final = 0.2
"""A peer that takes nothing for so long is not waited for."""


class Farewell:
    """Of one transport whose ``close`` was called. ``stop`` belongs into ``connection_lost``."""

    __slots__ = ("_deadline", "_descriptor", "_left", "_loop", "_moved_at", "_out", "_timer", "_transport")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, longest_s: float) -> None:
        """``longest_s``: how long a peer may take that still reads."""
        self._loop = loop
        self._transport = transport
        self._descriptor = _encrypted_socket(transport)
        self._left = transport.get_write_buffer_size()
        self._moved_at = loop.time()
        self._deadline = self._moved_at + longest_s
        self._out = False
        """It was seen that nothing waits. The goodbye is written in the same turn of the loop as what comes before it."""
        self._timer: asyncio.TimerHandle | None = None
        if self._left or self._descriptor >= 0:
            self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now, left = self._loop.time(), self._transport.get_write_buffer_size()
        if left < self._left:
            self._left, self._moved_at = left, now
        gone = self._descriptor >= 0 and left == 0 and _takes_more(self._descriptor)
        if (gone and self._out) or now - self._moved_at >= STALL_S or now >= self._deadline:
            self._transport.abort()
            return
        self._out = gone
        self._timer = self._loop.call_later(LOOK_S, self._look)


def _encrypted_socket(transport: asyncio.Transport) -> int:
    """The descriptor under TLS; -1 where there is none: a plain transport ends by itself once everything is out."""
    if transport.get_extra_info("sslcontext") is None:
        return -1
    socket = transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())


def _takes_more(descriptor: int) -> bool:
    """The system takes bytes for this socket: so the loop, which writes whenever it does, has none waiting. (Below TLS
    there is a second buffer, which nobody shows.)"""
    if not hasattr(select, "poll"):
        return bool(select.select([], [descriptor], [], 0)[1])  # Windows, where this has no limit on the number
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))
