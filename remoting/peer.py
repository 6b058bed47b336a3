"""What the rest of a daemon sees of a connection (``transport/connection.py``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from .outages import Cause, Outages
from .protocol.codes import RequestCode
from .protocol.frames.frame import Body
from .protocol.frames.serialization import RemotingCommand
from .protocol.wire import Record

Buffer = bytes | bytearray | memoryview


class HeaderLimits(Protocol):
    """Of a request's header, see ``transport/flow.py``."""

    @property
    def max_header_bytes(self) -> int: ...
    @property
    def max_header_keys(self) -> int: ...


class Peer(Protocol):
    """The other end of a connection, as dispatcher and handlers use it."""

    peer: str
    """``ip:port``."""
    packed_peer: bytes
    """The same as records have it (``message_id.pack_host``)."""
    closed: bool
    in_flight: int
    """Requests of the peer that were not answered yet."""
    max_in_flight: int
    answer_bytes: int
    """Bytes of answer bodies since the last write, and of what long requests have behind."""
    out: list[Buffer]
    """Encoded frames that have not been written. Whoever puts the first one there has to see to
    ``flush``."""
    attributes: dict[str, Any]
    """Free for whoever answers."""
    outages: Outages
    """Of the port: what its peers do wrong again and again."""
    on_close: list[Callable[[Any], None]]

    @property
    def limits(self) -> HeaderLimits: ...
    @property
    def writable(self) -> bool:
        """It is open, and its peer has not too much to read already."""

    def tell_of(
        self,
        log: logging.Logger,
        kind: Cause,
        message: str,
        *args: object,
        level: int = logging.WARNING,
        exc_info: BaseException | None = None,
    ) -> None:
        """What this peer does wrong: of its host, which may come again each time, ``kind`` is a
        line a minute at most."""

    def send(self, pieces: list[Buffer]) -> None:
        """Queue encoded frames; they leave with everything else of this turn of the loop."""

    def flush(self) -> None:
        """Write what was queued, in one call."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in a task that the connection's owner owns."""

    def weigh(self, size: int) -> None:
        """A request of so many bytes is worked on in a task; negative: not any more."""

    def enqueued(self, size: int) -> None:
        """A request of so many bytes waits for its turn."""

    def dequeued(self, size: int) -> None:
        """It does not wait any more."""

    def complete(self, command: RemotingCommand, body: Body) -> None:
        """Take the answer to a request of ours."""

    def close(self, reason: str = "closed") -> None:
        """Close after what was written has been sent."""

    def invoke(
        self, code: RequestCode, header: Record | None = None, body: Buffer = b"", *, timeout: float
    ) -> asyncio.Future[Any]:
        """Ask the peer; its answer comes through the future."""

    def invoke_oneway(
        self, code: RequestCode, header: Record | None = None, body: Buffer = b""
    ) -> None:
        """Tell the peer. Raises ``ConnectionLostError``."""
