"""A browser's connection: closed where it asks for nothing, cut where it reads nothing.

Who opens connections and stays silent on them, sends a request letter by letter, or asks and does
not read, would otherwise keep everybody else out: so many are open at once, and no more.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_S: Final = 20.0
"""For the head of a request, and twice for a byte to be taken; a form that does not come has a
limit of its own."""
MOST_UNSENT_BYTES: Final = 16 * 1024
"""In the kernel. It asks for more only when a third of what it holds has gone, by itself of
megabytes: of somebody who reads slowly nothing would be seen for minutes."""


class ConsoleConnection(H11Protocol):
    """h11, whatever else is installed: it has a limit for the size of a head."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            transport.get_extra_info("socket").setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MOST_UNSENT_BYTES
            )
        # Nothing is added to what waits: it grows less, or nobody reads. (0 is no limit for TLS.)
        transport.set_write_buffer_limits(high=1)
        self._waits = 0
        self._look_again = self.loop.call_later(PATIENCE_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_again.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._waits = 0
        super().resume_writing()

    def _look(self) -> None:
        """Also at a connection that is closed, until the rest of its answer is taken."""
        waits = self.transport.get_write_buffer_size()
        if 0 < self._waits <= waits:
            self.transport.abort()
            return
        self._waits = waits
        self._look_again = self.loop.call_later(PATIENCE_S, self._look)
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
