"""Several pulls at once of one queue, and their answers in order. Pure.

A pull tells where the next one begins, so pulls of one stretch follow each other. Therefore a range
is cut into windows that are pulled side by side; what they bring comes out in the order of the
queue::

    range    |------------------------------------------------|
    windows  |--------- 1 ---------|--------- 2 ---------|---- 3
             taken  brought  in flight    brought  in flight

A window ends exactly where the next one begins: what an answer brings beyond that is cut off. While
answers bring as much as was asked for, a window is one pull long: then they also come in order. How
much that is follows from the bytes of the messages that came last, as an answer has room for so
many bytes.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ...remoting.protocol.record.layout import glance
from ..access.frame_buffer import Stretch

__all__ = ["Brought", "Window", "Windows", "cut_at"]

_SIZE_AND_QUEUE_OFFSET: Final = glance("store_size", "queue_offset")


class Brought(Stretch, frozen=True, gc=False):
    """What an answer brought, and the offsets that it is wanted for."""

    from_offset: int
    until_offset: int


class Window:
    """Offsets ``next_offset`` to before ``until`` are still to be pulled."""

    __slots__ = ("bodies", "in_flight", "next_offset", "size_bytes", "until", "waits")

    def __init__(self, begin: int, until: int) -> None:
        self.next_offset: int = begin
        self.until: int = until
        self.bodies: list[Brought] = []
        self.size_bytes: int = 0
        self.in_flight: bool = False
        self.waits: bool = False
        """Its last pull brought nothing, and the next one would not either, yet."""

    @property
    def done(self) -> bool:
        return self.next_offset >= self.until


class Windows:
    """The windows of one range.

    At most ``count`` are pulled at once. While more than ``max_ahead_bytes`` have been brought that
    cannot be taken, only the first one is pulled. Invariant: windows lie next to each other, and
    everything before the first has been taken.
    """

    def __init__(
        self,
        begin: int,
        until: int,
        *,
        count: int,
        pull: int,
        most: int,
        full_bytes: int,
        size: int,
        max_ahead_bytes: int,
    ) -> None:
        """``pull``: offsets of the first pulls; later ones have as many as are likely to take
        ``full_bytes``, ``most`` of them. ``size``: of a window when pulls bring less than that."""
        self._begin = begin
        self._until = until
        self._count = count
        self._pull = pull
        self._most = most
        self._full_bytes = full_bytes
        self._size_of_short = size
        self._size = pull
        self._max_ahead_bytes = max_ahead_bytes
        self._windows: deque[Window] = deque()
        self._ahead_bytes = 0
        self._some_are_unfinished = False
        """There may be windows that were pulled, not to their end, and are not in flight."""

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
        full = self._ahead_bytes > self._max_ahead_bytes
        due = self._unfinished(full) if self._some_are_unfinished else []
        while (
            len(self._windows) < self._count
            and self._begin < self._until
            and not (full and self._windows)
        ):
            end = min(self._begin + self._size, self._until)
            window = Window(self._begin, end)
            self._windows.append(window)
            due.append(window)
            self._begin = end
        for window in due:
            window.in_flight = True
        return due

    def _unfinished(self, full: bool) -> list[Window]:
        """Those that were pulled before and have to be again."""
        unfinished = [
            window
            for window in self._windows
            if not (window.in_flight or window.waits or window.next_offset >= window.until)
        ]
        due = [window for window in unfinished if not full or window is self._windows[0]]
        self._some_are_unfinished = len(due) < len(unfinished)
        return due

    def advance(self, window: Window, next_offset: int, body: Stretch | None = None) -> None:
        """Its pull is answered; go on at ``next_offset``."""
        window.in_flight = False
        brought, size = min(next_offset, window.until) - window.next_offset, 0
        if body is not None:
            if next_offset > window.until:
                body = cut_at(body, window.until)
            size = body.end - body.begin
            if size:
                wanted = (window.next_offset, window.until)
                window.bodies.append(Brought(body.buffer, body.begin, body.end, *wanted))
                window.size_bytes += size
                self._ahead_bytes += size
                self._pull = max(1, min(self._most, brought * self._full_bytes // size))
        if next_offset < window.until and size < self._full_bytes:
            self._size = self._size_of_short
        elif brought >= min(self._pull, self._size):
            self._size = self._pull
        window.next_offset = next_offset
        if next_offset < window.until:
            self._some_are_unfinished = True

    def ignore(self, window: Window) -> None:
        """Its pull is answered, but the answer is of no use any more."""
        window.in_flight = False
        self._some_are_unfinished = True

    def wait(self, window: Window) -> None:
        """Its pull brought nothing; it is not pulled again until ``wake``."""
        window.in_flight = False
        window.waits = True

    def wake(self) -> None:
        """Try those again that wait."""
        self._some_are_unfinished = True
        for window in self._windows:
            window.waits = False

    def lost(self) -> None:
        """The connection broke: what was in flight has to be pulled again."""
        self._some_are_unfinished = True
        for window in self._windows:
            window.in_flight = window.waits = False

    def skip_to(self, offset: int) -> int:
        """What lies before ``offset`` cannot be had. Returns how many offsets are left out."""
        skipped = 0
        self._some_are_unfinished = True
        for window in self._windows:
            end = min(offset, window.until)
            skipped += max(0, end - window.next_offset)
            window.next_offset = max(window.next_offset, end)
        begin = max(self._begin, min(offset, self._until))
        skipped += begin - self._begin
        self._begin = begin
        return skipped

    def take(self) -> list[Brought]:
        """Answers that are next in the order of the queue."""
        taken: list[Brought] = []
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


def cut_at(body: Stretch, until: int) -> Stretch:
    """The records of a pull answer with queue offsets below ``until``. Bytes that are no record
    stay, for the decoder to complain about."""
    buffer, at, end = body.buffer, body.begin, body.end
    while end - at >= _SIZE_AND_QUEUE_OFFSET.size:
        size, queue_offset = _SIZE_AND_QUEUE_OFFSET.unpack_from(buffer, at)
        if queue_offset >= until:
            return Stretch(buffer, body.begin, at)
        if size <= 0:
            break
        at += size
    return body
