"""Reading: a pull, and the search by time (commitlog.md §13, consumequeue-index.md §1.5;
DefaultMessageStore).

Pure: works on a commit log and a consume queue, knows no clock.

One file: the short way and the long way of a pull have to give the same, and are read side by side.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from ...remoting.protocol.record import MAGIC, MIN_RECORD_SIZE
from ...remoting.protocol.record.layout import SIZE_AND_MAGIC, STORED_AT_SHOWN, offset_of, stored_at
from ...remoting.protocol.record.pull import join_records, records_fit, survey_units
from ...remoting.protocol.record.verdict import problem_of
from ..log.commit_log import NEAR, CommitLog
from ..log.damage import DamagedRecords, lies_in
from ..model.config import CQ_UNIT_SIZE, MessageStoreConfig
from ..model.status import GetMessageStatus, GetResult
from ..queues.consume_queue import CQ_UNIT, FILLER_SIZE, ConsumeQueue
from ..queues.consume_queue_ext import ExtUnit, is_ext_address
from .readable import Readable


class RecordFilter(Protocol):
    """What is asked for messages one by one."""

    @property
    def scan_limit(self) -> int:
        """How many messages may be looked at in one turn of the event loop: about a millisecond's
        work."""

    def accepts(self, data: Any, start: int, stop: int) -> bool:
        """Whether the record ``data[start:stop]`` is wanted. ``data`` may be a mapped file: slice
        what is needed, keep none of it."""

    @property
    def accepts_ext(self) -> Callable[[ExtUnit], bool] | None:
        """Whether a message may be wanted, from the ``ExtUnit`` of its consume queue alone;
        ``None``: that does not tell."""


_SCAN_UNITS: Final = 800
"""At most so many units, or as many as are wanted, are looked at in one pull."""
_FOUND: Final = GetMessageStatus.FOUND
_MUCH: Final = 64 << 10
"""Bytes that are not copied when the reader can do with a view."""
_FRESH: Final = 64 << 20
"""So far behind its end the log is in memory as it was written: where much is pulled of that, a
look at each record would cost a tenth more and show nothing."""
_MAGIC: Final = struct.pack(">I", MAGIC)
_MAGIC_AT: Final = slice(offset_of("magic"), offset_of("magic") + len(_MAGIC))
_MAX_WHOLE: Final = 4097 * CQ_UNIT_SIZE
"""Of so many units the short way is taken, whose leaves look at all of them at once."""
_MOST_AROUND: Final = 2 << 20
"""Bytes that are read at once for records that lie among those of others."""
_I64: Final = struct.Struct(">q")
_size_and_magic: Final = SIZE_AND_MAGIC.unpack_from


class _Limits(NamedTuple):
    """Of one pull."""

    in_memory: bool
    """It begins where the log is in memory."""
    max_count: int
    max_bytes: int | None


class _Collected(NamedTuple):
    """What a pull has found message by message."""

    parts: list[bytes | memoryview]
    records: int
    passed_over: int
    damaged: int
    removed: int
    """Records that are not there any more; these, too, are passed over."""
    looked_at: int
    """Where the last record lies that was looked at, or the first that did not fit."""


class MessageReader:
    """The read half of a store."""

    def __init__(
        self, log: CommitLog, config: MessageStoreConfig, memory_size: int, damage: DamagedRecords
    ) -> None:
        self._log: Final = log
        self._config: Final = config
        self._memory_size: Final = memory_size
        self._damage: Final = damage
        self.readable: Readable | None = None
        """How far queues may be read; None: to their ends."""
        self.proven_from: int = 0
        """What lies in front of that was not written by this process: it comes from the disk, and
        is checked."""
        self.is_behind: Callable[[], bool] = lambda: False
        """Queues lack messages that are committed: what lies behind their ends may come yet."""
        self.follows: Callable[[], bool] = lambda: False
        """Another replica leads."""
        self.awaited: Callable[[], Mapping[int, int]] = dict
        """What is damaged, and another replica may have intact, sizes by physical offsets: nothing
        behind it is handed out before that is known."""
        self.held_back: dict[ConsumeQueue, None] = {}
        """Queues of which that was so, for who waits there."""
        self.reconfigure()

    def reconfigure(self) -> None:
        """The configuration has changed."""
        self._in_memory = self._memory_size * self._config.access_message_in_memory_max_ratio // 100

    def get(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        tags: frozenset[int] | None,
        record_filter: RecordFilter | None,
        max_bytes: int | None,
        views: bool,
        *,
        correct: bool,
    ) -> GetResult:
        """Messages from ``offset`` on, see MessageStore.get. ``correct`` is False on a slave that
        leaves wrong offsets as they are."""
        low = queue.min_offset
        high = queue.max_offset if self.readable is None else self.readable.end_of(queue)
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
            scan_units, left = max(_SCAN_UNITS, max_count), high - offset
            if record_filter is not None:
                scan_units = record_filter.scan_limit
            else:
                # One more than is taken: what lies behind is counted from there.
                units = queue.units(offset, max_count + 1 if max_count < left else left)
                if 0 < len(units) <= _MAX_WHOLE:
                    whole = self._whole(
                        queue, high, offset, units, max_count, tags, max_bytes, views
                    )
                    if whole is not None:
                        return whole
                if units and tags is None:
                    result = self._scan(
                        queue, offset, units, max_count, None, None, max_bytes, views
                    )
                    if result.count:
                        return result
            units = queue.units(offset, min(scan_units, left))
            if units:
                return self._scan(
                    queue, offset, units, max_count, tags, record_filter, max_bytes, views
                )
            status, following = GetMessageStatus.OFFSET_FOUND_NULL, queue.first_of_next_file(offset)
        return self.nothing(status, offset, following if correct else offset, (low, high))

    def nothing(
        self, status: GetMessageStatus, offset: int, following: int, ends: tuple[int, int]
    ) -> GetResult:
        """There is no message at ``offset``. Who asks for one behind the end of a queue that is
        known to lack some has them from another replica: he waits for them."""
        if offset > ends[1] and self.is_behind():
            status, following = GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
        return GetResult(status, following, *ends)

    def _scan(
        self, queue: ConsumeQueue, offset: int, units: bytes, max_count: int,
        tags: frozenset[int] | None, record_filter: RecordFilter | None,
        max_bytes: int | None, views: bool,
    ) -> GetResult:  # fmt: skip
        """Look at messages one by one, from ``offset`` on."""
        (first,) = _I64.unpack_from(units)
        end = self._log.max_phy_offset
        limits = _Limits(end - first <= self._in_memory, max_count, max_bytes)
        intact = self._until_damage(queue, offset, units)
        found = self._collect(queue, offset, intact, tags, record_filter, limits, views)
        if found.damaged and self.awaited():  # it has just been found
            intact = self._until_damage(queue, offset, units)
            found = self._collect(queue, offset, intact, tags, record_filter, limits, views)
        following, low = offset + found.records + found.passed_over, queue.min_offset
        high = queue.max_offset if self.readable is None else self.readable.end_of(queue)
        if len(intact) < len(units) and not found.records:  # nothing is said of how far behind
            return GetResult(GetMessageStatus.OFFSET_OVERFLOW_ONE, following, low, high)
        behind = end - found.looked_at
        return GetResult(
            _scan_status(found.records, found.removed or found.damaged),
            following,
            low,
            high,
            found.parts[0] if len(found.parts) == 1 else b"".join(found.parts),
            found.records,
            behind,
            behind > self._in_memory,
            found.damaged,
        )

    def _until_damage(self, queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
        """Those in front of the first that is damaged, or lost and may be in what is damaged, where
        that is waited for: whoever were told to go on behind it would never see it."""
        if self.follows():
            units = self._that_came(queue, offset, units)
        if not self._damage.is_known or not (places := self.awaited()):
            return units
        is_damaged = lies_in(places)
        for number, (phy_offset, size, _) in enumerate(CQ_UNIT.iter_unpack(units)):
            if is_damaged(phy_offset) or _may_stand_for_damage(phy_offset, size):
                self.held_back[queue] = None
                return units[: number * CQ_UNIT.size]
        return units

    def is_awaited(self, phy_offset: int, size: int) -> bool:
        """The message of a unit cannot be read now, and may be mended."""
        places = self.awaited()
        return lies_in(places)(phy_offset) or (
            bool(places) and _may_stand_for_damage(phy_offset, size)
        )

    def _that_came(self, queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
        """Without those at the end whose records have not come, or come again: a record could not
        be written after its unit, or a start found that a queue had lost its last messages."""
        is_end = offset + len(units) // CQ_UNIT.size >= queue.max_offset
        log_end = self._log.max_phy_offset
        while units:
            phy_offset, size, _ = CQ_UNIT.unpack_from(units, len(units) - CQ_UNIT.size)
            if not (is_end if size == FILLER_SIZE else phy_offset + size > log_end):
                break
            units = units[: -CQ_UNIT.size]
        return units

    def _collect(
        self, queue: ConsumeQueue, offset: int, units: bytes, tags: frozenset[int] | None,
        record_filter: RecordFilter | None, limits: _Limits, views: bool,
    ) -> _Collected:  # fmt: skip
        """Records until a limit is reached. Hot: what differs from record to record stays in local
        names."""
        accepts = None if record_filter is None else record_filter.accepts
        accepts_ext = None if record_filter is None else record_filter.accepts_ext
        end, phy_offset, proven_from = self._log.max_phy_offset, -1, 0
        always_from = self.proven_from if limits.in_memory else end
        count_limit, byte_limit = self._limits(*limits)
        count = total = passed_over = damaged = removed = run_start = run_end = 0
        data: Any = b""
        data_start = data_end = 0  # where ``data`` lies in the log
        parts: list[bytes | memoryview] = []
        for phy_offset, size, code in CQ_UNIT.iter_unpack(units):
            if (count and (count >= count_limit or total + size > byte_limit)) and (
                limits.in_memory or self._is_full(count, total + size, end - phy_offset, limits)
            ):
                break
            if (
                tags is not None and code not in tags and not _matches_unusual(queue, code, tags)
            ) or (accepts_ext is not None and not _is_accepted(queue, code, accepts_ext)):
                passed_over += 1
                continue
            stop = phy_offset + size
            if phy_offset < data_start or stop > data_end:
                window = self._log.window(phy_offset, size)
                if window is None:
                    removed += 1
                    passed_over += 1
                    continue
                proven_from = max(always_from, self._damage.up_to)  # as that read has raised it
                if run_end > run_start:
                    parts.append(data[run_start - data_start : run_end - data_start])
                data, data_start, data_end = window
                run_start = run_end = phy_offset
            at = phy_offset - data_start
            if (
                phy_offset < proven_from
                or size < MIN_RECORD_SIZE
                or _size_and_magic(data, at) != (size, MAGIC)
            ) and self._is_damaged(queue, offset + count + passed_over, data, at, phy_offset, size):
                damaged += 1
                passed_over += 1
                continue
            if accepts is not None and not accepts(data, at, at + size):
                passed_over += 1
                continue
            if phy_offset != run_end:  # those that lie next to each other are copied as one slice
                if run_end > run_start:
                    parts.append(data[run_start - data_start : run_end - data_start])
                run_start = phy_offset
            run_end = stop
            count += 1
            total += size
        if run_end > run_start:
            source = memoryview(data) if views and total >= _MUCH else data
            parts.append(source[run_start - data_start : run_end - data_start])
        return _Collected(parts, count, passed_over, damaged, removed, phy_offset)

    def _whole(
        self, queue: ConsumeQueue, high: int, offset: int, units: bytes, max_count: int,
        tags: frozenset[int] | None, max_bytes: int | None, views: bool,
    ) -> GetResult | None:  # fmt: skip
        """The usual pull: everything is wanted, in one file and in memory, within the limits; the
        queue may be read up to ``high``. None when it is not so."""
        end = self._log.max_phy_offset
        count_limit, byte_limit = self._limits(True, max_count, max_bytes)
        found = survey_units(units, count_limit, byte_limit, tags)
        if found is None:
            return None
        count, total, first, stop, behind_from = found
        file = self._log.file_of(first, 1)
        if (
            end - first > self._in_memory
            or first < self.proven_from
            or first < self._damage.up_to
            or file is None
            or not first < stop <= min(file.end, end)
        ):
            return None
        start = file.start
        body: Any
        if stop - first == total:
            body = (
                file.view(first - start, total)
                if views and total >= _MUCH
                else file.read(first - start, total)
            )
        else:
            most = min(NEAR * count, _MOST_AROUND)
            if (data := file.around(first - start, stop - start, most)) is None:
                return None
            body = join_records(data[0], start + data[1], units, count)
        fresh = total >= _MUCH and end - first < _FRESH and stop - start <= file.solid
        if (
            first < self._damage.up_to  # again: the read may have come upon a bad sector
            or body is None
            or (body[_MAGIC_AT] != _MAGIC if fresh else not records_fit(body, units, count))
        ):
            return None
        behind = end - behind_from
        following, much = offset + count, behind > self._in_memory
        return GetResult(_FOUND, following, queue.min_offset, high, body, count, behind, much)

    def _is_damaged(
        self, queue: ConsumeQueue, number: int, data: Any, at: int, phy_offset: int, size: int
    ) -> bool:
        """Whether the record of message ``number`` is not what was written; then that is noted."""
        problem = problem_of(data, at, size, phy_offset)
        if problem is not None:
            self._damage.note(
                phy_offset, size, problem, f"queue={queue.topic}/{queue.queue_id} offset={number}"
            )
        return problem is not None

    def _is_full(self, count: int, size: int, behind: int, limits: _Limits) -> bool:
        """Whether a pull that began where the disk has to be read is full, at a record that may be
        in memory."""
        in_memory = behind <= self._in_memory
        count_limit, byte_limit = self._limits(in_memory, limits.max_count, limits.max_bytes)
        return count >= count_limit or size > byte_limit

    def _limits(self, in_memory: bool, max_count: int, max_bytes: int | None) -> tuple[int, int]:
        """How many messages and bytes one pull may take; less when it begins where the disk has to
        be read."""
        config = self._config
        if in_memory:
            count = config.max_transfer_count_on_message_in_memory
            size = config.max_transfer_bytes_on_message_in_memory
        else:
            count = config.max_transfer_count_on_message_in_disk
            size = config.max_transfer_bytes_on_message_in_disk
        if max_bytes is None:
            return min(count, max_count), size
        return max_count, min(size, max_bytes)

    def store_timestamp(self, phy_offset: int) -> int:
        """Store time of the record at an offset, -1 when there is none."""
        start = self._log.read(phy_offset, STORED_AT_SHOWN)
        found = None if start is None else stored_at(start)
        return -1 if found is None else found

    def offset_by_time(self, queue: ConsumeQueue, timestamp: int) -> int:
        """The number of the message stored nearest to a time; of two equally near the earlier one,
        of several stored at exactly that time the first.

        The original searches only the file whose modification time fits, which a copy of the store
        changes; here the whole queue is searched. 0 for a queue without messages.
        """
        if queue.min_offset >= queue.max_offset:
            return 0
        found = queue.first_where(
            lambda phy_offset, size: self._is_since(phy_offset, size, timestamp)
        )
        before = self._stored_at(queue, found - 1)
        after = self._stored_at(queue, found)
        if after < 0:
            return max(queue.min_offset, found - 1)
        return (
            found - 1
            if before >= 0 and timestamp - before <= after - timestamp and after != timestamp
            else found
        )

    def _is_since(self, phy_offset: int, size: int, timestamp: int) -> bool:
        """Whether a message was stored at a time or later. For one that is damaged what lies behind
        it tells; where nothing does it counts as late: whoever searches passes over nothing."""
        found = self.store_timestamp(phy_offset)
        if found < 0:
            found = self.store_timestamp(phy_offset + size + self._log.head_at(phy_offset))
        return found >= timestamp if found >= 0 else phy_offset >= self._log.min_phy_offset

    def _stored_at(self, queue: ConsumeQueue, offset: int) -> int:
        unit = queue.unit(offset)
        return -1 if unit is None else self.store_timestamp(unit[0])


def _scan_status(count: int, removed: bool | int) -> GetMessageStatus:
    if count:
        return GetMessageStatus.FOUND
    return GetMessageStatus.MESSAGE_WAS_REMOVING if removed else GetMessageStatus.NO_MATCHED_MESSAGE


def _may_stand_for_damage(phy_offset: int, size: int) -> bool:
    """A filler: what it stands for may lie in any damaged place."""
    return size == FILLER_SIZE and phy_offset > 0


def _matches_unusual(queue: ConsumeQueue, code: int, tags: frozenset[int]) -> bool:
    """Codes outside of 32 bits: an address stands for what the extension says (without it
    everything matches), a delivery time matches by its low 32 bits.
    """
    if -0x80000000 <= code <= 0x7FFFFFFF:
        return False
    if is_ext_address(code):
        unit = _ext_unit(queue, code)
        if unit is None:
            return True
        code = unit.tags_code
    return ((code & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000 in tags


def _is_accepted(queue: ConsumeQueue, code: int, accept_ext: Callable[[ExtUnit], bool]) -> bool:
    unit = _ext_unit(queue, code)
    return unit is None or accept_ext(unit)


def tags_code(queue: ConsumeQueue, code: int) -> int:
    """The tags code, or time of delivery, that a unit has or has in its extension; an address that
    leads nowhere stays."""
    unit = _ext_unit(queue, code)
    return code if unit is None else unit.tags_code


def _ext_unit(queue: ConsumeQueue, code: int) -> ExtUnit | None:
    ext = queue.ext
    return ext.get(code) if ext is not None and is_ext_address(code) else None
