"""Reading: a pull, and the search by time (commitlog.md §13, consumequeue-index.md §1.5; DefaultMessageStore).

Pure: works on a commit log and a consume queue, knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..remoting.protocol.record import MAGIC, size_and_magic
from ..remoting.protocol.sys_flag import MessageSysFlag
from .commit_log import CommitLog
from .config import MessageStoreConfig
from .consume_queue import CQ_UNIT, FILLER_SIZE, ConsumeQueue
from .status import GetMessageStatus, GetResult

__all__ = ["MessageReader"]

_MIN_SCAN_UNITS: Final = 800
_SCAN_FACTOR: Final = 20
_UP_TO_STORE_TIMESTAMP: Final = 76
_EXT_ADDRESS_LIMIT: Final = -2147483649
"""At or below: not a tags code but an address in an extension file, which matches everything."""


class MessageReader:
    """The read half of a store."""

    def __init__(self, log: CommitLog, config: MessageStoreConfig, memory_size: int) -> None:
        self._log: Final = log
        self._config: Final = config
        self._in_memory: Final = memory_size * config.access_message_in_memory_max_ratio // 100

    def get(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        tags: frozenset[int] | None,
        accept: Callable[[bytes], bool] | None,
        max_bytes: int | None,
        *,
        correct: bool,
    ) -> GetResult:
        """Messages from ``offset`` on, see MessageStore.get. ``correct`` is False on a slave that leaves wrong
        offsets as they are."""
        low, high = queue.min_offset, queue.max_offset
        status, following = GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
        if high == 0:
            pass
        elif offset < low:
            status, following = GetMessageStatus.OFFSET_TOO_SMALL, low
        elif offset == high:
            status, following = GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
        elif offset > high:
            status, following = GetMessageStatus.OFFSET_OVERFLOW_BADLY, high
        else:
            units = queue.units(offset, max(_MIN_SCAN_UNITS, max_count * _SCAN_FACTOR))
            if units:
                return self._scan(queue, offset, units, max_count, tags, accept, max_bytes)
            status, following = GetMessageStatus.OFFSET_FOUND_NULL, queue.first_of_next_file(offset)
        return GetResult(status, following if correct else offset, low, high)

    def _scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        units: bytes,
        max_count: int,
        tags: frozenset[int] | None,
        accept: Callable[[bytes], bool] | None,
        max_bytes: int | None,
    ) -> GetResult:
        log, config = self._log, self._config
        end = log.max_phy_offset
        on_disk_below = end - self._in_memory
        count = total = scanned = phy_offset = 0
        run_start = run_end = -1  # records that lie next to each other are copied as one slice
        oldest = log.min_phy_offset
        removed = False
        wanted = config.max_transfer_bytes_on_message_in_memory if max_bytes is None else max_bytes
        memory_bytes = min(config.max_transfer_bytes_on_message_in_memory, wanted)
        memory_count = min(max_count, config.max_transfer_count_on_message_in_memory)
        disk_bytes = min(config.max_transfer_bytes_on_message_in_disk, wanted)
        disk_count = min(max_count, config.max_transfer_count_on_message_in_disk)
        parts: list[bytes] = []
        for phy_offset, size, code in CQ_UNIT.iter_unpack(units):
            if count:
                if phy_offset < on_disk_below:
                    if count >= disk_count or total + size > disk_bytes:
                        break
                elif count >= memory_count or total + size > memory_bytes:
                    break
            scanned += 1
            if tags is not None and code not in tags and not _matches_unusual(code, tags):
                continue
            if phy_offset < oldest or phy_offset + size > end or size == FILLER_SIZE:
                removed = True
                continue
            if accept is not None:
                record = log.read(phy_offset, size)
                if record is None or not accept(record):
                    continue
            count += 1
            total += size
            if phy_offset == run_end:
                run_end += size
            else:
                if run_start >= 0:
                    parts.append(self._slice(run_start, run_end))
                run_start, run_end = phy_offset, phy_offset + size
        if run_start >= 0:
            parts.append(self._slice(run_start, run_end))
        if count:
            status = GetMessageStatus.FOUND
        else:
            status = GetMessageStatus.MESSAGE_WAS_REMOVING if removed else GetMessageStatus.NO_MATCHED_MESSAGE
        behind = end - phy_offset
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return GetResult(
            status, offset + scanned, queue.min_offset, queue.max_offset, body, count, behind, behind > self._in_memory
        )

    def _slice(self, start: int, stop: int) -> bytes:
        data = self._log.read(start, stop - start)
        return b"" if data is None else data

    def store_timestamp(self, phy_offset: int) -> int:
        """Store time of the record at an offset, -1 when there is none."""
        start = self._log.read(phy_offset, _UP_TO_STORE_TIMESTAMP)
        if start is None or size_and_magic(start, 0)[1] != MAGIC:
            return -1
        at = 68 if start[39] & MessageSysFlag.BORN_HOST_V6 else 56
        return int.from_bytes(start[at : at + 8], "big", signed=True)

    def offset_by_time(self, queue: ConsumeQueue, timestamp: int) -> int:
        """The number of the message stored nearest to a time; of two equally near the earlier one, of several stored at
        exactly that time the first.

        The original searches only the file whose modification time fits, which a copy of the store changes; here the
        whole queue is searched. 0 for a queue without messages.
        """
        if queue.min_offset >= queue.max_offset:
            return 0
        found = queue.first_where(lambda phy_offset, _size: self.store_timestamp(phy_offset) >= timestamp)
        before = self._stored_at(queue, found - 1)
        after = self._stored_at(queue, found)
        if after < 0:
            return max(queue.min_offset, found - 1)
        return found - 1 if 0 <= before and timestamp - before <= after - timestamp and after != timestamp else found

    def _stored_at(self, queue: ConsumeQueue, offset: int) -> int:
        unit = queue.unit(offset)
        return -1 if unit is None else self.store_timestamp(unit[0])


def _matches_unusual(code: int, tags: frozenset[int]) -> bool:
    """Codes outside of 32 bits: an extension address matches everything, a delivery time by its low 32 bits."""
    if -0x80000000 <= code <= 0x7FFFFFFF:
        return False
    return code <= _EXT_ADDRESS_LIMIT or ((code & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000 in tags
