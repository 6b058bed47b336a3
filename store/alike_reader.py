"""Pulls that are alike, read together: so many messages each, from any queues of one topic (with numpy).

Their queue units are unpacked at once, and the records of all of them, when they have one size and lie in one file, are
copied at once. What is in any way unusual is not read here: ``MessageReader`` decides what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..remoting.protocol.record import MIN_RECORD_SIZE
from .commit_log import CommitLog
from .config import CQ_UNIT_SIZE
from .consume_queue import ConsumeQueue
from .message_reader import MessageReader
from .record_chain import copies_at
from .record_check import word_of
from .status import GetMessageStatus, GetResult

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["AlikeReader"]

_UNIT: Final[Any] = None if numpy is None else numpy.dtype([("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])


class AlikeReader:
    """Reads for many what ``MessageReader.get`` reads for one that wants every message."""

    def __init__(self, log: CommitLog, table: Mapping[tuple[str, int], ConsumeQueue], reader: MessageReader) -> None:
        self._log: Final = log
        self._table: Final = table
        self._reader: Final = reader

    def get(
        self, topic: str, queue_ids: Sequence[int], offsets: Sequence[int], max_count: int, most_bytes: int
    ) -> list[GetResult] | None:
        """Up to ``max_count`` messages from each offset of its queue. None when not everything is as usual: there are fewer,
        sizes differ, they lie in several files or too far back, or have more than ``most_bytes`` for one of them.
        """
        queues = [self._table[topic, queue_id] for queue_id in queue_ids if (topic, queue_id) in self._table]
        if len(queues) < len(queue_ids):
            return None
        count, byte_limit = self._reader.limits_in_memory(max_count)
        with_next = count + 1  # what lies behind is counted from there
        units = b"".join([queue.units(offset, with_next) for queue, offset in zip(queues, offsets, strict=True)])
        if len(units) != len(queues) * with_next * CQ_UNIT_SIZE:
            return None
        table = numpy.frombuffer(units, _UNIT).reshape(len(queues), with_next)
        phy_offsets, sizes = table["phy_offset"].astype(numpy.int64), table["size"][:, :count]
        size, end = int(sizes[0, 0]), self._log.max_phy_offset
        first, last = int(phy_offsets.min()), int(phy_offsets[:, :count].max())
        file = self._log.file_of(first, size)
        if (
            file is None
            or size < MIN_RECORD_SIZE
            or count * size > min(byte_limit, most_bytes)
            or end - first > self._reader.in_memory_bytes
            or first < self._reader.proven_from
            or last + size > min(file.end, end)
            or (sizes != size).any()
        ):
            return None
        records = copies_at(file.map, phy_offsets[:, :count].reshape(-1) - file.start, size)
        if (numpy.ndarray((len(queues) * count,), ">u8", records, 0, (size,)) != word_of(size)).any():
            return None
        data, width = memoryview(records).cast("B"), count * size
        bodies = [data[at : at + width] for at in range(0, len(data), width)]
        behind = (end - phy_offsets[:, count]).tolist()
        return [
            GetResult(
                GetMessageStatus.FOUND, offset + count, queue.min_offset, queue.max_offset, body, count, behind_bytes, False
            )
            for queue, offset, body, behind_bytes in zip(queues, offsets, bodies, behind, strict=True)
        ]
