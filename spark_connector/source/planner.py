"""Offsets to tasks: which ranges of which queues each task reads. Pure, and the same for the same
arguments.

A task in Python costs Spark 25 to 60 ms whatever it reads, so there may be too many of them
(``maxPartitions``) as well as too few (``minPartitions``).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ...remoting.protocol.message.message_queue import MessageQueue

__all__ = ["QueueRange", "plan", "ranges_between"]

WORTH_A_TASK: Final = 2000
"""Offsets. Reading so many takes a tenth of the time that a task takes to begin."""


class QueueRange(NamedTuple):
    """Messages ``from_offset`` to before ``until_offset`` of one queue."""

    topic: str
    broker_name: str
    queue_id: int
    from_offset: int
    until_offset: int

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @property
    def size(self) -> int:
        """Offsets in it; messages may be fewer (holes, filters)."""
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return (
            f"{self.topic}/{self.broker_name}/{self.queue_id} [{self.from_offset}, "
            f"{self.until_offset})"
        )


def ranges_between(
    start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]
) -> list[QueueRange]:
    """What lies between two offsets, sorted, without empty ranges. A queue that ``start`` does not
    have begins at 0: it was found later, and where it begins must not depend on when this is
    planned."""
    found = [QueueRange(*queue, start.get(queue, 0), end[queue]) for queue in sorted(end)]
    return [each for each in found if each.size > 0]


def plan(
    ranges: Sequence[QueueRange],
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
    max_partitions: int | None = None,
) -> list[tuple[QueueRange, ...]]:
    """The tasks, each with its ranges in order.

    ``min_partitions`` splits large ranges in proportion to their size, as Kafka's does (a hint:
    there may be a few more or less); ``max_records_per_partition`` splits what is longer;
    ``max_partitions`` lets tasks read several ranges, of about the same size in all. The last one
    wins. Where nothing is said, there is a task for each range, or fewer: one for every
    ``WORTH_A_TASK`` offsets.
    """
    if (min_partitions, max_records_per_partition, max_partitions) == (None, None, None):
        max_partitions = max(1, sum(each.size for each in ranges) // WORTH_A_TASK)
    pieces = list(ranges)
    if max_records_per_partition is not None:
        pieces = [
            part
            for each in pieces
            for part in _split(each, -(-each.size // max_records_per_partition))
        ]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _at_least(pieces, min_partitions)
    pieces.sort()
    if max_partitions is None or len(pieces) <= max_partitions:
        return [(each,) for each in pieces]
    return _together(pieces, max_partitions)


def _at_least(ranges: list[QueueRange], count: int) -> list[QueueRange]:
    total = sum(each.size for each in ranges)
    return [
        part for each in ranges for part in _split(each, max(1, round(each.size / total * count)))
    ]


def _split(whole: QueueRange, parts: int) -> list[QueueRange]:
    """Into so many parts of the same size (one more or less), at most one per offset."""
    parts = max(1, min(parts, whole.size))
    edges = [whole.from_offset + whole.size * number // parts for number in range(parts + 1)]
    return [
        whole._replace(from_offset=begin, until_offset=end)
        for begin, end in itertools.pairwise(edges)
    ]


def _together(pieces: list[QueueRange], count: int) -> list[tuple[QueueRange, ...]]:
    """The largest first, each to the task that has least so far."""
    tasks: list[list[QueueRange]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for piece in sorted(pieces, key=lambda each: (-each.size, each)):
        load, number = heapq.heappop(loads)
        tasks[number].append(piece)
        heapq.heappush(loads, (load + piece.size, number))
    return sorted(tuple(sorted(task)) for task in tasks)
