"""Limits on what a peer can make us hold, as a pure state machine.

A peer that does not read is first not read from (so that it cannot ask for more), then cut.
``FlowControl`` decides; the connection obeys.

Invariant: reading is paused exactly while more than ``write_pause_bytes`` wait to be sent or the
transport said stop.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from ..protocol.bodies.registration import MAX_TOPICS, MAX_UNPACKED_BYTES
from ..protocol.frames.frame import MAX_FRAME_BYTES
from ..protocol.wire import Record

count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
buffered = Annotated[int, Meta(ge=4096, le=2**31 - 1)]
header = Annotated[int, Meta(ge=4096, le=16 * 1024 * 1024)]
keys = Annotated[int, Meta(ge=64, le=1_000_000)]
patience = Annotated[float, Meta(ge=1)]
"""Nobody could be served with less. Checked where text is read, not when a Record is made."""


class Limits(Record, frozen=True, kw_only=True):
    """What one server or client grants its peers."""

    max_connections: count = 20_000
    max_frame_bytes: buffered = MAX_FRAME_BYTES
    """The longest frame that is accepted, its length bytes included; also the most that is buffered
    of incomplete input."""
    max_header_bytes: header = 256 * 1024
    """A request with a longer header is refused (code 1). The longest thing that belongs into one
    are the properties of a message: 32,767 bytes, of which JSON may make six each."""
    max_header_keys: keys = 1024
    """A request with more pairs in its header is refused (code 1)."""
    max_inflated_bytes: buffered = MAX_UNPACKED_BYTES
    """A compressed registration that gets longer than this is refused (code 1)."""
    max_topics_per_registration: count = MAX_TOPICS
    """A registration of more topics is refused (code 1). A broker of ours has half as many at
    most."""
    max_queues_per_answer: count = 100_000
    """An answer with a line for each queue (202, 208, 222, 303, 317) of more queues is refused
    (code 1)."""
    max_in_flight: count = 16_384
    """Requests of one connection that are not answered yet (held pulls among them); more are
    answered SYSTEM_BUSY."""
    max_buffered_bytes: Annotated[int, Meta(ge=0)] = 0
    """What all connections of the process may hold together: bytes that came and could not be
    served yet, and answers that were not read. Beyond it the largest and slowest are not read for a
    while, then cut. 0: a quarter of the memory that the process may use."""
    write_pause_bytes: buffered = 1 * 1024 * 1024
    """Answers waiting to be sent beyond which a connection is not read any more."""
    write_cut_bytes: buffered = 64 * 1024 * 1024
    """Answers waiting to be sent beyond which a connection is cut at once."""
    write_stall_s: patience = 60.0
    """A connection whose peer has read nothing for so long, while answers wait, is cut."""
    idle_s: patience = 120.0
    """A connection with no traffic for so long is closed (serverChannelMaxIdleTimeSeconds)."""
    first_byte_s: patience = 120.0
    """A new connection must say something within this time."""
    tls_handshake_s: patience = 10.0
    shutdown_grace_s: Annotated[float, Meta(ge=0)] = 3.0
    """At shutdown, how long requests in progress may take."""


SHORTEST_PAIR_BYTES: Final = 6
"""``"a":1,`` of a JSON header; in the other forms a pair takes more."""


def long_header_bytes(limits: Limits) -> int:
    """A header up to this length keeps the limits on headers, whatever is in it."""
    return min(limits.max_header_bytes, SHORTEST_PAIR_BYTES * limits.max_header_keys)


class FlowControl:
    """When to stop reading from a peer, when to go on, and when to cut it."""

    __slots__ = ("_last_buffered", "_limits", "_progress_at", "stopped")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.stopped: bool = False
        """The peer has too much to read already."""
        self._last_buffered = 0
        self._progress_at = 0.0

    def stop(self, now: float) -> None:
        """The transport holds more than ``write_pause_bytes``."""
        if not self.stopped:
            self.stopped = True
            self._progress_at = now
            self._last_buffered = 1 << 62

    def resume(self) -> None:
        """The peer has read enough."""
        self.stopped = False

    def verdict(self, buffered_bytes: int, now: float) -> str | None:
        """Why the connection must be cut now, or ``None``. Ask after writing and about once a
        second while paused."""
        if buffered_bytes > self._limits.write_cut_bytes:
            return (
                f"peer does not read: {buffered_bytes} bytes wait for it, the limit is "
                f"{self._limits.write_cut_bytes}"
            )
        if not self.stopped:
            return None
        if buffered_bytes < self._last_buffered:
            self._last_buffered = buffered_bytes
            self._progress_at = now
        elif now - self._progress_at > self._limits.write_stall_s:
            return (
                f"peer has read nothing for {now - self._progress_at:.0f} s while "
                f"{buffered_bytes} bytes wait for it"
            )
        return None
