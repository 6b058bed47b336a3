"""The end of a connection: what was written arrives, and nobody is waited for who takes nothing.

A socket that is closed with bytes in it that nobody has read is reset: its system throws away what
the peer has not taken, answers to what was done among it, and the peer's may do so with what the
peer has not read. So a connection ends by halves. Ours is closed behind the last byte; what comes
is thrown away until the peer has closed the other.

TLS has no halves: asyncio says goodbye and waits 30 s for the peer's, which need not say one, and
Netty's do not. There the connection is cut as soon as the peer's system has everything.
"""

from __future__ import annotations

import asyncio
import select
import struct
import sys
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 0.01
STALL_S: Final = 0.2
"""A peer that takes nothing for so long, or has everything and does not end, is not waited for."""
MOST_DISCARDED_BYTES: Final = 64 << 20
"""Who goes on sending longer does not want to end: 65,535 requests, of which an asynchronous
producer of the original has no more on their way, of a KiB each."""


class Farewell(asyncio.Protocol):
    """Ends one transport, whose protocol it becomes. ``lost`` is called as ``connection_lost``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        lost: Callable[[Exception | None], None],
        longest_s: float,
    ) -> None:
        """``longest_s``: how long a peer may take that still reads."""
        self._loop = loop
        self._transport = transport
        self._lost = lost
        self._socket = _socket_under(transport)
        self._encrypted = transport.get_extra_info("sslcontext") is not None
        self._discarded = 0
        self._left = self._not_taken()
        self._moved_at = loop.time()
        self._deadline = self._moved_at + longest_s
        self._out = False
        """Of TLS: it was seen that nothing waits. The goodbye leaves in the same turn of the loop
        as what is before it."""
        self._timer: asyncio.TimerHandle | None = None
        transport.set_protocol(self)
        self._look()
        self._close_our_half()

    def _close_our_half(self) -> None:
        if self._encrypted:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.resume_reading()
            try:
                self._transport.write_eof()
            except OSError:  # the peer has gone, which reading would have told
                self._transport.abort()

    def _not_taken(self) -> int:
        """Bytes that wait here or are on their way."""
        return self._transport.get_write_buffer_size() + _unacknowledged(self._socket)

    def data_received(self, data: bytes) -> None:
        """Nobody asked for it in time."""
        self._discarded += len(data)
        if self._discarded > MOST_DISCARDED_BYTES:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._lost(exc)

    def _look(self) -> None:
        now, left = self._loop.time(), self._not_taken()
        if left < self._left:
            self._left, self._moved_at = left, now
        out = self._encrypted and left == 0 and _takes_more(self._socket)
        until = min(self._moved_at + STALL_S, self._deadline)
        if (out and self._out) or now >= until:
            self._transport.abort()
            return
        self._out = out
        more_to_see = left > 0 or self._encrypted
        self._timer = self._loop.call_later(LOOK_S if more_to_see else until - now, self._look)


def _socket_under(transport: asyncio.Transport) -> int:
    """Its descriptor; -1: none."""
    socket = transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())


def _takes_more(descriptor: int) -> bool:
    """The system takes bytes for this socket: so the loop, which writes whenever it does, has none
    waiting. (Below TLS there is a second buffer, which nobody shows.)"""
    if not hasattr(select, "poll"):
        return bool(
            select.select([], [descriptor], [], 0)[1]
        )  # Windows, where this has no limit on the number
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


if sys.platform == "linux":
    import fcntl
    import termios

    def _unacknowledged(descriptor: int) -> int:
        """Bytes that were written to this socket and that the peer's system does not have
        (SIOCOUTQ)."""
        try:
            (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
        except (
            OSError,
            ValueError,
        ):  # closed: below TLS a turn of the loop before anybody is told; or there is none
            return 0
        return int(count)

else:

    def _unacknowledged(_descriptor: int) -> int:
        """Other systems do not tell."""
        return 0
