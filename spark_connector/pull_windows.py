"""Several pulls at once of one queue, and their answers in order. Pure.

A pull tells where the next one begins, so pulls of one stretch follow each other. Therefore a range is cut into windows that
are pulled side by side; what they bring comes out in the order of the queue::

    range    |------------------------------------------------|
    windows  |--------- 1 ---------|--------- 2 ---------|---- 3
             taken  brought  in flight    brought  in flight

A window ends exactly where the next one begins: what an answer brings beyond that is cut off.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final

from ..remoting.protocol.frame import Body

__all__ = ["Window", "Windows", "cut_at"]

_SIZE: Final = Struct(">i")
_QUEUE_OFFSET: Final = Struct(">q")
_QUEUE_OFFSET_AT: Final = 20


class Window:
    """Offsets ``next_offset`` to before ``until`` are still to be pulled."""

    __slots__ = ("bodies", "in_flight", "next_offset", "size_bytes", "until", "waits")

    def __init__(self, begin: int, until: int) -> None:
        self.next_offset: int = begin
        self.until: int = until
        self.bodies: list[Body] = []
        self.size_bytes: int = 0
        self.in_flight: bool = False
        self.waits: bool = False
        """Its last pull brought nothing, and the next one would not either, yet."""

    @property
    def done(self) -> bool:
        return self.next_offset >= self.until


class Windows:
    """The windows of one range.

    At most ``count`` are pulled at once. While more than ``max_ahead_bytes`` have been brought that cannot be taken, only
    the first one is pulled. Invariant: windows lie next to each other, and everything before the first has been taken.
    """

    def __init__(self, begin: int, until: int, *, count: int, size: int, max_ahead_bytes: int) -> None:
        self._begin = begin
        self._until = until
        self._count = count
        self._size = size
        self._max_ahead_bytes = max_ahead_bytes
        self._windows: deque[Window] = deque()
        self._ahead_bytes = 0

    @property
    def done(self) -> bool:
        """Everything was pulled and taken."""
        return not self._windows and self._begin >= self._until

    @property
    def position(self) -> int:
        """The first offset that has not been pulled."""
        return self._windows[0].next_offset if self._windows else self._begin

    def to_pull(self) -> list[Window]:
        """Windows whose next pull is due; they are in flight then."""
        while len(self._windows) < self._count and self._begin < self._until:
            end = min(self._begin + self._size, self._until)
            self._windows.append(Window(self._begin, end))
            self._begin = end
        full = self._ahead_bytes > self._max_ahead_bytes
        due = [
            window
            for number, window in enumerate(self._windows)
            if not (window.in_flight or window.waits or window.done or (full and number))
        ]
        for window in due:
            window.in_flight = True
        return due

    def advance(self, window: Window, next_offset: int, body: Body | None = None) -> None:
        """Its pull is answered; go on at ``next_offset``."""
        window.in_flight = False
        if body is not None:
            if next_offset > window.until:
                body = cut_at(body, window.until)
            if len(body):
                window.bodies.append(body)
                window.size_bytes += len(body)
                self._ahead_bytes += len(body)
        window.next_offset = next_offset

    def wait(self, window: Window) -> None:
        """Its pull brought nothing; it is not pulled again until ``wake``."""
        window.in_flight = False
        window.waits = True

    def wake(self) -> None:
        """Try those again that wait."""
        for window in self._windows:
            window.waits = False

    def lost(self) -> None:
        """The connection broke: what was in flight has to be pulled again."""
        for window in self._windows:
            window.in_flight = window.waits = False

    def skip_to(self, offset: int) -> int:
        """What lies before ``offset`` cannot be had. Returns how many offsets are left out."""
        skipped = 0
        for window in self._windows:
            end = min(offset, window.until)
            skipped += max(0, end - window.next_offset)
            window.next_offset = max(window.next_offset, end)
        begin = max(self._begin, min(offset, self._until))
        skipped += begin - self._begin
        self._begin = begin
        return skipped

    def take(self) -> list[Body]:
        """Answers that are next in the order of the queue."""
        taken: list[Body] = []
        while self._windows:
            first = self._windows[0]
            if first.bodies:
                taken += first.bodies
                self._ahead_bytes -= first.size_bytes
                first.bodies, first.size_bytes = [], 0
            if not first.done or first.in_flight:
                break
            self._windows.popleft()
        return taken


def cut_at(body: Body, until: int) -> Body:
    """The records of a pull answer with queue offsets below ``until``. Bytes that are no record stay, for the decoder to
    complain about."""
    at, end = 0, len(body)
    while end - at >= _QUEUE_OFFSET_AT + 8:
        if _QUEUE_OFFSET.unpack_from(body, at + _QUEUE_OFFSET_AT)[0] >= until:
            return body[:at]
        (size,) = _SIZE.unpack_from(body, at)
        if size <= 0:
            break
        at += size
    return body
