"""What was sent, what arrived where, and whether the two agree. Pure.

Rows are numbered from 0 in the order of the file; a few bytes are kept per row, so that a file of
millions fits.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import NamedTuple

_NOT_SENT = -1


class Sent:
    """The rows that a broker has confirmed, and their tags."""

    def __init__(self) -> None:
        self.tags: list[str | None] = []
        """Every tag seen, in the order of first sight."""
        self.confirmed: Counter[str | None] = Counter()
        """Rows per tag."""
        self._tag_of_row = array("i")
        self._tag_numbers: dict[str | None, int] = {}

    @property
    def total(self) -> int:
        """How many rows are confirmed."""
        return self.confirmed.total()

    def add(self, row: int, tag: str | None) -> None:
        """A row was confirmed."""
        if tag not in self._tag_numbers:
            self._tag_numbers[tag] = len(self.tags)
            self.tags.append(tag)
        if row >= len(self._tag_of_row):
            self._tag_of_row.extend([_NOT_SENT] * (row + 1 - len(self._tag_of_row)))
        self._tag_of_row[row] = self._tag_numbers[tag]
        self.confirmed[tag] += 1

    def rows(self, tag: str | None = None) -> list[int]:
        """The rows that were confirmed, all of them or those of one tag."""
        if tag is None:
            return [row for row, number in enumerate(self._tag_of_row) if number != _NOT_SENT]
        wanted = self._tag_numbers.get(tag)
        return [row for row, number in enumerate(self._tag_of_row) if number == wanted]


class Received:
    """What the consumers of one group were given."""

    def __init__(self) -> None:
        self.per_consumer: Counter[str] = Counter()
        """Messages, repeated ones too."""
        self.per_tag: Counter[str | None] = Counter()
        """Rows, each once."""
        self.distinct = 0
        """Rows, each once."""
        self.out_of_order = 0
        """Rows that came for the first time behind a later one of their queue."""
        self._times = bytearray()
        self._last_offset: dict[tuple[str, int], int] = {}

    @property
    def duplicated(self) -> int:
        """How many messages brought a row that was there already."""
        return self.per_consumer.total() - self.distinct

    def add(
        self, consumer: str, row: int, tag: str | None, queue: tuple[str, int], queue_offset: int
    ) -> None:
        """A consumer was given a row; ``queue`` is (broker name, queue id)."""
        self.per_consumer[consumer] += 1
        if row >= len(self._times):
            self._times.extend(bytes(row + 1 - len(self._times)))
        times = self._times[row]
        self._times[row] = min(times + 1, 255)
        if times:
            return
        self.distinct += 1
        self.per_tag[tag] += 1
        if queue_offset <= self._last_offset.get(queue, -1):
            self.out_of_order += 1
        else:
            self._last_offset[queue] = queue_offset

    def count(self, row: int) -> int:
        """How often a row came (255: that often or more)."""
        return self._times[row] if row < len(self._times) else 0


class Verdict(NamedTuple):
    """A group held against what was sent to it."""

    expected: int
    lost: int
    """Rows that were confirmed to the producer and never came."""
    unexpected: int
    """Rows that came although they have another tag."""
    unconfirmed: int
    """Rows that came although the producer was told that sending them failed (a lost answer,
    say)."""
    duplicated: int
    out_of_order: int

    @property
    def good(self) -> bool:
        """Nothing lost, nothing that should not be there, every queue in order."""
        return not (self.lost or self.unexpected or self.out_of_order)


def judge(sent: Sent, received: Received, tag: str | None = None) -> Verdict:
    """Hold what a group received, subscribed to one tag or to all, against what was sent."""
    expected = sent.rows(tag)
    came = sum(1 for row in expected if received.count(row))
    unexpected = 0 if tag is None else received.distinct - received.per_tag[tag]
    return Verdict(
        expected=len(expected),
        lost=len(expected) - came,
        unexpected=unexpected,
        unconfirmed=received.distinct - unexpected - came,
        duplicated=received.duplicated,
        out_of_order=received.out_of_order,
    )
