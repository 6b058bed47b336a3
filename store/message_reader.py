"""Reading: a pull, and the search by time (commitlog.md §13, consumequeue-index.md §1.5;
DefaultMessageStore).

Pure: works on a commit log and a consume queue, knows no clock.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from ..remoting.protocol.record import MAGIC, size_and_magic
from ..remoting.protocol.sys_flag import MessageSysFlag
from .commit_log import CommitLog
from .config import MessageStoreConfig
from .consume_queue import CQ_UNIT, ConsumeQueue
from .status import GetMessageStatus, GetResult

__all__ = ["MessageReader"]

_MIN_SCAN_UNITS: Final = 800
_SCAN_FACTOR: Final = 20
_I64: Final = struct.Struct(">q")
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
        """Messages from ``offset`` on, see MessageStore.get. ``correct`` is False on a slave that leaves
        wrong offsets as they are."""
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
            max_count = max(max_count, 1)
            filtered = tags is not None or accept is not None
            units = queue.units(offset, max(_MIN_SCAN_UNITS, max_count * _SCAN_FACTOR) if filtered else max_count)
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
        """Collect records until a limit is reached. Hot: what differs from record to record stays in local
        names.
        """
        end = self._log.max_phy_offset
        (phy_offset,) = _I64.unpack_from(units)
        count_limit, byte_limit = self._limits(end - phy_offset <= self._in_memory, max_count, max_bytes)
        count = total = passed_over = 0
        removed = False
        data: Any = b""
        file_start = file_end = 0  # of the mapped file that ``data`` is
        run_start = run_end = 0  # records that lie next to each other are copied as one slice
        parts: list[bytes] = []
        for phy_offset, size, code in CQ_UNIT.iter_unpack(units):
            if count and (count >= count_limit or total + size > byte_limit):
                break
            if tags is not None and code not in tags and not _matches_unusual(code, tags):
                passed_over += 1
                continue
            stop = phy_offset + size
            if phy_offset < file_start or stop > file_end:
                file = self._log.file_of(phy_offset, size)
                if file is None:
                    removed = True
                    passed_over += 1
                    continue
                if run_end > run_start:
                    parts.append(data[run_start - file_start : run_end - file_start])
                data, file_start, file_end = file.map, file.start, min(file.end, end)
                run_start = run_end = phy_offset
            if accept is not None and not accept(data[phy_offset - file_start : stop - file_start]):
                passed_over += 1
                continue
            if phy_offset != run_end:
                if run_end > run_start:
                    parts.append(data[run_start - file_start : run_end - file_start])
                run_start = phy_offset
            run_end = stop
            count += 1
            total += size
        if run_end > run_start:
            parts.append(data[run_start - file_start : run_end - file_start])
        behind = end - phy_offset
        return GetResult(
            _scan_status(count, removed),
            offset + count + passed_over,
            queue.min_offset,
            queue.max_offset,
            parts[0] if len(parts) == 1 else b"".join(parts),
            count,
            behind,
            behind > self._in_memory,
        )

    def _limits(self, in_memory: bool, max_count: int, max_bytes: int | None) -> tuple[int, int]:
        """How many messages and bytes one pull may take; less when it begins where the disk has to be read."""
        config = self._config
        if in_memory:
            count, size = config.max_transfer_count_on_message_in_memory, config.max_transfer_bytes_on_message_in_memory
        else:
            count, size = config.max_transfer_count_on_message_in_disk, config.max_transfer_bytes_on_message_in_disk
        return min(count, max_count), size if max_bytes is None else min(size, max_bytes)

    def store_timestamp(self, phy_offset: int) -> int:
        """Store time of the record at an offset, -1 when there is none."""
        start = self._log.read(phy_offset, _UP_TO_STORE_TIMESTAMP)
        if start is None or size_and_magic(start, 0)[1] != MAGIC:
            return -1
        at = 68 if start[39] & MessageSysFlag.BORN_HOST_V6 else 56
        return int.from_bytes(start[at : at + 8], "big", signed=True)

    def offset_by_time(self, queue: ConsumeQueue, timestamp: int) -> int:
        """The number of the message stored nearest to a time; of two equally near the earlier one, of
        several stored at exactly that time the first.

        The original searches only the file whose modification time fits, which a copy of the store changes;
        here the whole queue is searched. 0 for a queue without messages.
        """
        if queue.min_offset >= queue.max_offset:
            return 0
        found = queue.first_where(lambda phy_offset, _size: self.store_timestamp(phy_offset) >= timestamp)
        before = self._stored_at(queue, found - 1)
        after = self._stored_at(queue, found)
        if after < 0:
            return max(queue.min_offset, found - 1)
        return found - 1 if before >= 0 and timestamp - before <= after - timestamp and after != timestamp else found

    def _stored_at(self, queue: ConsumeQueue, offset: int) -> int:
        unit = queue.unit(offset)
        return -1 if unit is None else self.store_timestamp(unit[0])


def _scan_status(count: int, removed: bool) -> GetMessageStatus:
    if count:
        return GetMessageStatus.FOUND
    return GetMessageStatus.MESSAGE_WAS_REMOVING if removed else GetMessageStatus.NO_MATCHED_MESSAGE


def _matches_unusual(code: int, tags: frozenset[int]) -> bool:
    """Codes outside of 32 bits: an extension address matches everything, a delivery time by its low 32
    bits.
    """
    if -0x80000000 <= code <= 0x7FFFFFFF:
        return False
    return code <= _EXT_ADDRESS_LIMIT or ((code & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000 in tags
