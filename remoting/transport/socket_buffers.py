"""How much the system buffers for a connection (``serverSocketSndBufSize`` and its like)."""

from __future__ import annotations

import socket
from typing import Final, NamedTuple, Protocol


class SocketOptions(Protocol):
    """A socket, or what a transport shows of it."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


class SocketBuffers(NamedTuple):
    """Bytes in each direction; 0 leaves it to the system."""

    send_bytes: int = 0
    receive_bytes: int = 0

    def set_on(self, sock: SocketOptions | None) -> None:
        """Does nothing without a socket (a simulated connection)."""
        if sock is None:
            return
        for option, size in (
            (socket.SO_SNDBUF, self.send_bytes),
            (socket.SO_RCVBUF, self.receive_bytes),
        ):
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)


SYSTEM_BUFFERS: Final = SocketBuffers()
