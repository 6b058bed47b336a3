"""What a consumer holds of one queue: pulled, not yet consumed (client.md §4.6; class
ProcessQueue). Pure.

Invariants:

* ``commit_offset`` never passes the smallest offset that is still held, so a message that was not
  consumed is delivered again after a crash;
* ``size_bytes`` is the sum of the stored bodies of the held messages, 0 when nothing is held.

Memory for a message goes as soon as it is removed; the line of offsets behind it is cleared from
its front, which costs a constant per message however they are finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ...remoting.protocol.record.decode import MessageExt

NOTHING_CONSUMED = -1


class ProcessQueue:
    """Messages of one queue between being pulled and being consumed."""

    __slots__ = ("_end", "_held", "_line", "dropped", "last_begun", "max_offset", "size_bytes")

    def __init__(self) -> None:
        self._held: dict[int, MessageExt] = {}
        self._line: deque[int] = deque()
        """Offsets in rising order; those that were removed out of turn stay until they come to the
        front."""
        self._end = NOTHING_CONSUMED
        self.size_bytes: int = 0
        """Stored body bytes of what is held."""
        self.max_offset: int = 0
        """The queue's end as the last pull saw it."""
        self.last_begun: float = 0.0
        """When a handler was last given something (monotonic seconds)."""
        self.dropped: bool = False
        """The queue belongs to somebody else now; results of handlers still running count no
        more."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, queue_offset: int) -> bool:
        return queue_offset in self._held

    @property
    def first(self) -> MessageExt | None:
        """The message with the smallest offset held."""
        return self._held[self._line[0]] if self._line else None

    @property
    def first_offset(self) -> int | None:
        """The smallest offset held."""
        return self._line[0] if self._line else None

    @property
    def last_offset(self) -> int | None:
        """The greatest offset held, or lately held while smaller ones still are."""
        return self._line[-1] if self._line else None

    @property
    def span(self) -> int:
        """Distance between the first and the last offset."""
        return self._line[-1] - self._line[0] if self._line else 0

    @property
    def commit_offset(self) -> int:
        """Everything below is consumed; ``NOTHING_CONSUMED`` before the first message came."""
        return self._line[0] if self._line else self._end

    def put(self, messages: list[MessageExt]) -> list[MessageExt]:
        """Take what was pulled. Returns the new ones: a message that is already held is not taken
        twice."""
        if not messages:
            return messages
        held, line = self._held, self._line
        offsets = [message.queue_offset for message in messages]
        if (line and offsets[0] <= line[-1]) or offsets != sorted(set(offsets)):
            return self._put_unusual(messages)
        held.update(zip(offsets, messages, strict=True))
        line.extend(offsets)
        self._end = max(self._end, offsets[-1] + 1)
        self.size_bytes += sum([len(message.stored_body) for message in messages])
        return messages

    def _put_unusual(self, messages: list[MessageExt]) -> list[MessageExt]:
        """Some do not come behind what is held, or not in order."""
        held = self._held
        new = []
        for message in messages:
            offset = message.queue_offset
            if offset not in held:
                held[offset] = message
                self._end = max(self._end, offset + 1)
                self.size_bytes += len(message.stored_body)
                new.append(message)
        self._line = deque(sorted({*self._line, *(message.queue_offset for message in new)}))
        return new

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """These are consumed (or given back to the broker). Returns the new ``commit_offset``."""
        held, line = self._held, self._line
        for message in messages:
            if held.pop(message.queue_offset, None) is not None:
                self.size_bytes -= len(message.stored_body)
        while line and line[0] not in held:
            line.popleft()
        return line[0] if line else self._end

    def clear(self) -> None:
        """Forget everything held; the messages will be pulled again."""
        self._held.clear()
        self._line.clear()
        self.size_bytes = 0
