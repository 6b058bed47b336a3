"""A browser's connection: closed where it asks for nothing.

Who opens connections and stays silent on them, or sends a request letter by letter, would otherwise
keep everybody else out: so many are open at once, and no more.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_S: Final = 20.0
"""For the head of a request; a form that does not come has a limit of its own."""


class ConsoleConnection(H11Protocol):
    """h11, whatever else is installed: it has a limit for the size of a head."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_again = self.loop.call_later(PATIENCE_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_again.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self._look_again = self.loop.call_later(PATIENCE_S, self._look)
