"""What the entries of consume queues say of messages: where they lie, when they were stored, what
their extension has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..log.commit_log import CommitLog
from ..queues.consume_queue import CQ_UNIT, ConsumeQueue
from ..queues.consume_queue_ext import ExtUnit
from .message_reader import MessageReader, tags_code


class QueueEntries:
    """Of all queues of a store."""

    def __init__(
        self, log: CommitLog, table: Mapping[tuple[str, int], ConsumeQueue], reader: MessageReader
    ) -> None:
        self._log: Final = log
        self._table: Final = table
        self._reader: Final = reader

    def some(
        self, topic: str, queue_id: int, offset: int, max_count: int
    ) -> list[tuple[int, int, int]] | None:
        """Physical offset, size and tags code of messages from ``offset`` on, at most to the end of
        the file that these entries lie in; empty when there is none, None without such a queue.
        """
        queue = self._table.get((topic, queue_id))
        if queue is None:
            return None
        units = CQ_UNIT.iter_unpack(queue.units(offset, max_count))
        if queue.ext is None:
            return list(units)
        return [(phy_offset, size, tags_code(queue, code)) for phy_offset, size, code in units]

    def ext_unit(self, topic: str, queue_id: int, offset: int) -> ExtUnit | None:
        """The extension of a message: tags code, store time, bitmap. None without one."""
        queue = self._table.get((topic, queue_id))
        unit = None if queue is None else queue.unit(offset)
        return (
            None if queue is None or queue.ext is None or unit is None else queue.ext.get(unit[2])
        )

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        """Number of the message stored nearest to a time (ms); never behind what may be read."""
        queue = self._table.get((topic, queue_id))
        if queue is None:
            return 0
        found, readable = self._reader.offset_by_time(queue, timestamp), self._reader.readable
        return found if readable is None else min(found, readable.end_of(queue))

    def stored_at(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message of a queue was stored (ms), -1 when it is not there."""
        queue = self._table.get((topic, queue_id))
        unit = None if queue is None else queue.unit(offset)
        return -1 if unit is None else self._reader.store_timestamp(unit[0])

    def first_stored_at(self, topic: str, queue_id: int) -> int:
        """When the oldest message of a queue was stored (ms), -1 when there is none."""
        queue = self._table.get((topic, queue_id))
        return -1 if queue is None else self.stored_at(topic, queue_id, queue.min_offset)

    def last_stored_at(self, topic: str, queue_id: int) -> int:
        """When the newest message of a queue was stored (ms), 0 when there is none (as the admin
        tools expect it)."""
        queue = self._table.get((topic, queue_id))
        return 0 if queue is None else max(0, self.stored_at(topic, queue_id, queue.max_offset - 1))

    def log_begins_at(self) -> int:
        """When the oldest message of the commit log was stored (ms), -1 when there is none."""
        begin = self._log.min_phy_offset
        return self._reader.store_timestamp(begin + self._log.head_at(begin))
