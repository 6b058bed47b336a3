"""Writing much without copying it: pieces go from where they lie to the kernel.

A transport takes one piece at a time, and joining an answer of 256 KiB that lies in a mapped file
copies it twice. What the kernel does not take at once is copied, so nothing of the pieces is needed
afterwards.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Final

Buffer = bytes | bytearray | memoryview

MUCH_BYTES: Final = 64 << 10
"""From so many on it pays."""
_HAS_WRITEV: Final = hasattr(os, "writev")


def socket_of(transport: asyncio.BaseTransport) -> int:
    """The descriptor that may be written to beside the transport; -1: none, everything has to be
    encrypted."""
    socket = transport.get_extra_info("socket")
    if socket is None or not _HAS_WRITEV or transport.get_extra_info("sslcontext") is not None:
        return -1
    return int(socket.fileno())


def stays_as_it_is(body: Buffer) -> bool:
    """Nobody changes it before it is written: who hands over a read-only view vouches for that."""
    return isinstance(body, bytes) or (isinstance(body, memoryview) and body.readonly)


def unwritten(socket: int, transport: asyncio.Transport, pieces: Sequence[Buffer]) -> bytes:
    """Write pieces, if nothing else waits to be sent; what is left of them, for the transport."""
    if socket < 0 or transport.get_write_buffer_size() or transport.is_closing():
        return b"".join(pieces)
    try:
        sent = os.writev(socket, pieces)
    # it takes nothing now, these are too many, or the connection has ended: the transport knows
    # what to do
    except OSError:
        return b"".join(pieces)
    left: list[Buffer] = []
    for piece in pieces:
        if sent < len(piece):
            left.append(memoryview(piece)[sent:])
        sent = max(0, sent - len(piece))
    return b"".join(left)
