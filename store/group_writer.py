"""What writers of many messages at once share: room for all of them, or for none, then records, units, arrivals, index items
in the order of ``MessageWriter`` (with numpy)."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final, NamedTuple

from .arrivals import Arrivals
from .commit_log import CommitLog
from .config import CQ_UNIT_SIZE
from .consume_queue import ConsumeQueue
from .consume_queues import ConsumeQueues
from .errors import StoreFileError
from .indexing import Indexing
from .message_writer import MessageWriter

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["GroupWriter", "QueueOrder"]

_UNIT_TYPE: Final = [("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")]
_PLAIN_UNIT: Final = f"V{CQ_UNIT_SIZE}"
"""Ordered five times as fast as one with fields."""
_MAX_QUEUES: Final = 1 << 16


class QueueOrder(NamedTuple):
    """Messages of one topic in the order of their queues."""

    found: list[ConsumeQueue]
    counts: list[int]
    order: Any
    """Which message comes next, queue after queue; those of a queue in the order in which they came."""

    @classmethod
    def of(cls, table: dict[tuple[str, int], ConsumeQueue], topic: str, queue_ids: Any) -> QueueOrder | None:
        """None when a queue is not there, its units would lie in two files, or not all queues can be mapped together.
        Raises StoreFileError.
        """
        if queue_ids.max() >= _MAX_QUEUES:
            return None
        in_queues = numpy.bincount(queue_ids)
        ids = in_queues.nonzero()[0]
        counts = in_queues[ids].tolist()
        found: list[ConsumeQueue] = []
        for queue_id, count in zip(ids.tolist(), counts, strict=True):
            queue = table.get((topic, queue_id))
            if queue is None or not queue.find_room(count):
                return None
            found.append(queue)
        if not all(queue.has_room(count) for queue, count in zip(found, counts, strict=True)):
            return None  # room for one has cost another one its mapping
        return cls(found, counts, queue_ids.astype(numpy.uint16).argsort(kind="stable"))

    def offsets(self) -> Any:
        """The number that each message gets in its queue."""
        befores = accumulate(self.counts, initial=0)
        firsts = [queue.max_offset - before for queue, before in zip(self.found, befores, strict=False)]
        offsets = numpy.empty(len(self.order), numpy.int64)
        offsets[self.order] = numpy.arange(len(self.order)) + numpy.array(firsts).repeat(self.counts)
        return offsets

    def write(self, phy_offsets: Any, sizes: Any, tags_code: int) -> None:
        """Append the units."""
        units = numpy.empty(len(phy_offsets), _UNIT_TYPE)
        units["phy_offset"], units["size"], units["tags_code"] = phy_offsets, sizes, tags_code
        data = units.view(_PLAIN_UNIT).take(self.order).tobytes()
        at = 0
        for queue, count in zip(self.found, self.counts, strict=True):
            stop = at + count * CQ_UNIT_SIZE
            queue.buffer[queue.position : queue.position + stop - at] = data[at:stop]
            queue.position += stop - at
            queue.max_offset += count
            at = stop


class GroupWriter:
    """Stands beside the writer of a store. One thread calls it."""

    def __init__(
        self,
        writer: MessageWriter,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        arrivals: Arrivals,
        indexing: Indexing | None,
        store_host: bytes,
    ) -> None:
        self._writer: Final = writer
        self._log: Final = commit_log
        self._table: Final = queues.table
        self._arrivals: Final = arrivals
        self._indexing: Final = indexing
        self._store_host: Final = store_host

    def _topic_field(self, topic: str, queue_id: int, now_ms: int) -> bytes | None:
        """How the topic stands in a record. None when nothing is taken now, or the first queue is not there."""
        queue = self._table.get((topic, queue_id))
        takes = queue is not None and len(self._store_host) == 8 and self._writer.takes_groups(now_ms)
        return queue.topic_field if takes and queue is not None else None

    def _find_room(self, topic: str, queue_ids: Any, size: int) -> QueueOrder | None:
        """Room for messages in these queues and for so many bytes of records; None when there is none for all of them in
        this file of the log and of each queue."""
        try:
            queues = QueueOrder.of(self._table, topic, queue_ids)
            return queues if queues is not None and self._log.find_room(size) else None
        except StoreFileError:  # who puts one comes to it, too, and answers for it
            return None

    def _write(
        self, topic: str, queues: QueueOrder, records: bytes | bytearray, phy_offsets: Any, sizes: Any, tags_code: int,
        keys: Any, store_timestamp: int,
    ) -> bool:  # fmt: skip
        """There is room. ``sizes``: of each record, or of all. False, and nothing written, if the disk does not take it."""
        try:
            self._log.write_many(records)
        except StoreFileError:  # who puts one comes to it, too, and answers for it
            return False
        queues.write(phy_offsets, sizes, tags_code)
        for queue in queues.found:
            if queue.watched:
                self._arrivals.note(queue, tags_code, store_timestamp)
        self._log.last_store_timestamp = store_timestamp
        if self._indexing is not None:
            self._indexing.note_keys(topic, keys, phy_offsets, store_timestamp)
        return True
