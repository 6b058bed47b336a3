"""What the consume queues on the disk hold, looked at before anything is changed, and which of them
are not what they were.

With ``queueends`` of the last checkpoint each queue is compared with what it says: its files reach
from the oldest message then to the next one, the last unit is the same, and all units in between go
on from each other (``UnitChain``). All units of ``_WHOLE_BYTES`` are looked at; of queues that are
not among these only the first of each file, and the last two hundred. A unit that was changed so
that the others still go on from it (a smaller size, a tags code) is not seen, nor are zeros in the
middle of a queue that is not looked at as a whole: only the log knows better.

Without it (a store of the original) all units are read once, as far as they go on from each other,
and what they account for in each file of the commit log is added up: see ``log_coverage``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..model.config import CQ_UNIT_SIZE
from ..model.errors import StoreFileError, is_of_bad_sector
from .consume_queue import CQ_UNIT, ConsumeQueue, Edges
from .consume_queues import ConsumeQueues
from .queue_ends import KnownEnds, QueueEnd, QueueKey
from .queue_units import Account, UnitChain

_WHOLE_BYTES: Final = 256 << 20
"""13 million units: 10 ms when they are in memory, without compiled leaves 1.3 s."""
_TAIL: Final = 200
_FIRST_LOOK: Final = 200 * CQ_UNIT_SIZE
_CHUNK: Final = 13_000 * CQ_UNIT_SIZE
_ZEROS: Final = bytes(64 << 10)
"""No page is longer."""


class Doubt(NamedTuple):
    """A queue that has to be made again, all of it or its end."""

    kept: int
    """The units below this number may be right."""
    problem: str


class QueueSurvey:
    """Look at all queues once: with ``compare`` (20,000 small ones take 0.2 s) or with
    ``derive``."""

    def __init__(self, queues: ConsumeQueues, log_start: int) -> None:
        self.doubts: Final[dict[QueueKey, Doubt]] = {}
        self.accounts: Final[dict[int, Account]] = {}
        """See ``UnitChain``: of all queues together; only after ``derive``."""
        self._queues: Final = queues
        self._log_start: Final = log_start
        self._left = _WHOLE_BYTES

    def compare(self, known: KnownEnds) -> None:
        """Hold the queues against what is known. Raises StoreFileError."""
        for key, queue in self._queues.table.items():
            end = known.queues.get(key)
            with self._doubting_what_is_lost(queue):
                if (
                    end is None
                ):  # of a topic that was deleted and came back, or newer than the checkpoint
                    self._derive_one(queue, UnitChain())
                elif (doubt := self._compare_one(queue, end)) is not None:
                    self.doubts[key] = doubt
                    queue.accept(max(doubt.kept, queue.min_offset))
        for key, end in known.queues.items():
            if key not in self._queues.table and end.phy_end >= 0:
                self.doubts[key] = Doubt(0, f"it is gone, it had {_entries(end)}")

    def _compare_one(self, queue: ConsumeQueue, end: QueueEnd) -> Doubt | None:
        first, stop = queue.min_offset, end.next_offset
        if end.phy_end < 0:
            queue.accept(first)
            return None
        if not queue.files.files or first >= stop:
            return Doubt(0, f"it has none of {_entries(end)}")
        chain, length = UnitChain(), (stop - first) * CQ_UNIT_SIZE
        edges = behind = None
        if length > self._left:
            reached = self._feed_ends(queue, chain, first, stop)
        else:
            self._left -= length
            edges, behind = _feed_all(queue, chain, first, stop)
            reached = first + chain.count
        if first > end.first_offset and (
            not chain.count or queue.first_phy_offset() > self._log_start
        ):
            return Doubt(
                0, f"it begins at {first}, it had {_entries(end)}"
            )  # and not because they have expired
        if reached != stop or chain.end != end.phy_end:
            return Doubt(max(first, reached - 1), f"it ends at {reached}, it had {_entries(end)}")
        queue.accept(stop, edges, behind)
        return None

    def _feed_ends(self, queue: ConsumeQueue, chain: UnitChain, first: int, stop: int) -> int:
        """Not all units of a long queue. Returns up to where it seems right."""
        tail = max(first, stop - _TAIL)
        per_file = queue.files.file_size // CQ_UNIT_SIZE
        for number in range(first, tail, per_file):
            if not chain.feed(
                queue.read_bytes(number * CQ_UNIT_SIZE, CQ_UNIT_SIZE) or bytes(CQ_UNIT_SIZE)
            ):
                return number
        for data in _pieces(queue, tail, stop, _CHUNK):
            before = chain.count
            good = chain.feed(data)
            tail += chain.count - before
            if not good:
                break
        return tail

    def derive(self, log_file_size: int) -> None:
        """Find out what the queues hold from themselves alone. Raises StoreFileError."""
        for queue in self._queues.table.values():
            chain = UnitChain(log_file_size)
            with self._doubting_what_is_lost(queue):
                self._derive_one(queue, chain)
            for file, account in chain.accounts.items():
                self.accounts[file] = self.accounts.get(file, Account()).plus(account)

    @contextlib.contextmanager
    def _doubting_what_is_lost(self, queue: ConsumeQueue) -> Iterator[None]:
        """A queue that lies on a bad sector is made again. Raises StoreFileError for what may be
        read the next time."""
        try:
            yield
        except StoreFileError as error:
            if not is_of_bad_sector(error):
                raise
            queue.accept(queue.files.start // CQ_UNIT_SIZE)
            self.doubts[queue.topic, queue.queue_id] = Doubt(0, f"it cannot be read ({error})")

    def _derive_one(self, queue: ConsumeQueue, chain: UnitChain) -> None:
        believe(queue, chain)
        if queue.files.behind_hole:
            problem = (
                f"it ends at {queue.max_offset}, in front of a file that is missing or has a "
                "wrong length"
            )
            self.doubts[queue.topic, queue.queue_id] = Doubt(queue.max_offset, problem)


def believe(queue: ConsumeQueue, chain: UnitChain) -> None:
    """Accept the units of a queue as far as they go on from each other. Raises StoreFileError."""
    first = queue.files.start // CQ_UNIT_SIZE
    for data in _pieces(queue, first, queue.files.end // CQ_UNIT_SIZE, _FIRST_LOOK):
        if not chain.feed(data):
            break
    queue.accept(first + chain.count)


def _feed_all(
    queue: ConsumeQueue, chain: UnitChain, first: int, stop: int
) -> tuple[Edges | None, bytes | None]:
    """All units, and what else ``accept`` takes of a queue that can be read at once, as most can:
    then a start does not come back to its file.
    """
    length, file = (stop - first) * CQ_UNIT_SIZE, queue.files.files[0]
    if length > _CHUNK or length >= file.size:
        for data in _pieces(queue, first, stop, _CHUNK):
            if not chain.feed(data):
                break
        return None, None
    data, is_all = file.read_to_page_end(0, length)
    if not chain.feed(data[:length]):
        return None, None
    edges = {
        first: CQ_UNIT.unpack_from(data),
        stop - 1: CQ_UNIT.unpack_from(data, length - CQ_UNIT_SIZE),
    }
    return edges, _without_zeros(data[length:]) if is_all else None


def _without_zeros(data: bytes) -> bytes:
    """The units up to the last one that is not all zeros. Mostly there is none, or one: that is
    found 50 times as fast as by ``rstrip`` alone.
    """
    kept = 0
    while not _ZEROS.startswith(data[kept:]):
        kept = kept * 2 or CQ_UNIT_SIZE
    size = -(-len(data[:kept].rstrip(b"\0")) // CQ_UNIT_SIZE) * CQ_UNIT_SIZE
    return data[:size].ljust(size, b"\0")


def _entries(end: QueueEnd) -> str:
    return f"{end.first_offset}..{end.next_offset}"


def _pieces(queue: ConsumeQueue, first: int, stop: int, size: int) -> Iterator[bytes]:
    """The units [first, stop) in pieces, the first one of ``size`` bytes; up to a file that is
    missing."""
    at, end = first * CQ_UNIT_SIZE, stop * CQ_UNIT_SIZE
    while at < end and (file := queue.files.find(at)) is not None:
        data = file.read_unmapped(at - file.start, min(size, end - at, file.end - at))
        if not data:
            return
        yield data
        at += len(data)
        size = _CHUNK
