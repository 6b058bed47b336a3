"""What a node is given: a store, and how it is to speak with others."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Protocol

import msgspec

from ...remoting.transport.config import ClientSettings, ServerSettings
from ...store.model.status import PutResult
from ...store.raft.entry_log import EntryLog
from ...store.raft.ready import HardState


class MemberStore(Protocol):
    """A store of which the node makes a member (``RaftStore``)."""

    on_appended: Callable[[], None]
    """Called when a put has appended entries, once until ``take_appended``."""
    on_readable: list[Callable[[], None]]
    """Each is called when more can be read."""

    @property
    def log(self) -> EntryLog: ...
    @property
    def committed_index(self) -> int: ...
    @property
    def committed_end(self) -> int:
        """Where the last entry that is committed ends in the log."""

    @property
    def readable_end(self) -> int:
        """Where what is in queues ends: not behind ``committed_end``."""

    @property
    def hard_state(self) -> HardState: ...
    @property
    def votes(self) -> bool: ...
    async def save(self, hard_state: HardState | None, votes: bool | None) -> None:
        """What is not None is on the disk when it returns. Raises StoreError."""

    def take_appended(self) -> None:
        """The node looks at the end of the log now."""

    def commit(self, index: int) -> None:
        """Everything up to this entry is committed: it gets into queues and index."""

    def lead(self, term: int) -> None:
        """Puts are taken from now on. Raises StoreError."""

    def follow(self) -> None:
        """Puts are refused: another one leads, or nobody."""

    def refuse(self, result: PutResult | None) -> None:
        """What a leader's puts are answered; None: they are taken."""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is told besides who is in the group."""

    server: ServerSettings
    """Its port, and what is granted there."""
    client: ClientSettings = ClientSettings()
    outbound: ssl.SSLContext | None = None
    """It speaks TLS with the others; ``None``: plain."""
    secret: bytes = b""
    allowed: Callable[[str], bool] = lambda _address: False
    """Addresses besides those of the configuration that members may come from."""
    takes_puts: Callable[[], bool] = lambda: True
    """Whether this broker could store messages; a leader that cannot has another one lead, and
    who cannot takes leadership from nobody."""
    wait_ack_ms: int = 2500
    """How long a sender waits until its message is committed (maxWaitAckTimeMs)."""
    most_waiting: int = 10_000
    """So many may wait (maxPendingRequestsNum)."""
    broker_address: Callable[[], str | None] = lambda: None
    """Where the broker takes requests; told to who asks for metadata."""
