"""Writing: a message or a batch goes into the commit log and its consume queue (CommitLog,
DefaultAppendMessageCallback).

The order is what recovery relies on: first space in both (that may fail), then the record, then the
unit of the queue (a unit without its record must never be found, nor one of a half message), and
only then the new end of both. A leaf writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from ...remoting.protocol.message.properties import MAX_PROPERTIES_BYTES
from ...remoting.protocol.message.sys_flag import UNQUEUED, MessageSysFlag
from ...remoting.protocol.record import BLANK_SIZE, put_record
from ...remoting.protocol.record.batch import decode_batch, encode_batch
from ...remoting.protocol.record.batch_records import (
    batch_problem,
    batch_size,
    item_size,
    put_batch,
)
from ...remoting.protocol.record.entry import MAX_ENTRY_SIZE
from ...remoting.protocol.record.layout import BATCH_ITEM_OVERHEAD, record_overhead
from ..index.indexing import Indexing
from ..log.commit_log import CommitLog
from ..model.errors import OutOfSpaceError, ShortageError, StoreFileError
from ..model.put import PutBatch, PutMessage
from ..model.status import PutResult, PutStatus
from ..queues.consume_queue import CQ_UNIT, ConsumeQueue
from ..queues.consume_queues import ConsumeQueues, topic_problem
from .append_notice import AppendNotice
from .arrivals import Arrivals
from .put_stages import Write
from .queue_numbers import QueueNumber, QueueNumbers

_RECORD_EXTRA: Final = 64 << 10
"""What a record may be longer than ``max_message_size`` (commitlog.md §4)."""
_PUT_OK: Final = PutStatus.PUT_OK
"""Reading a member of an enumeration costs more than storing it."""
_RETRY_SPACE_MS: Final = 100
_HEAD_SIZE: Final = record_overhead(0) - 1 - 2 * 8
"""Of a record without body, topic (and its length), properties and hosts."""


class MessageWriter:
    """The write half of a store. One thread calls it."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues | QueueNumbers,
        arrivals: Arrivals,
        indexing: Indexing | AppendNotice | None,
        store_host: bytes,
        max_message_size: int,
    ) -> None:
        self.refusal: PutResult | None = None
        """Why nothing is taken at all (slave, closed, disk failed); None in good times."""
        self.on_room: Callable[[StoreFileError | None], None] = lambda _error: None
        """Called when the place of a message could not be made, and when one could."""
        self._log: Final = commit_log
        self.queues: Final = queues
        self._queues_of: Final = queues.by_topic
        self._arrivals: Final = arrivals
        self._indexing: Final = indexing
        self._keys: Final = None if indexing is None else indexing.keys
        commit_log.store_host = store_host
        self._max_file_record: Final = commit_log.files.file_size - BLANK_SIZE - commit_log.head
        self._max_record: Final = (
            min(self._max_file_record, MAX_ENTRY_SIZE - commit_log.head)
            if commit_log.head
            else self._max_file_record
        )
        self._no_space_until = 0
        self.set_max_message_size(max_message_size)

    def set_max_message_size(self, size: int) -> None:
        """Change the limit of a body; values below 10 are ignored, as in the original."""
        if size >= 10:
            self._log.max_body = size
            self._log.max_record = min(size + _RECORD_EXTRA, self._max_record)

    @property
    def max_body(self) -> int:
        """Bytes; see ``set_max_message_size``."""
        return self._log.max_body

    def with_any_size(self, put: Write) -> Write:
        """``put_message``, or what stands around it, with only the size of a file as limit, not
        ``maxMessageSize``."""

        def put_any_size(message: PutMessage) -> PutResult:
            end = self._log
            limits = end.max_body, end.max_record
            end.max_body = end.max_record = self._max_record
            try:
                return put(message)
            finally:
                end.max_body, end.max_record = limits

        return put_any_size

    def _was_full(self, now_ms: int) -> bool:
        return now_ms < self._no_space_until <= now_ms + _RETRY_SPACE_MS

    def put_message(self, message: PutMessage) -> PutResult:
        """Store one message. Prepared and rolled back ones get no number. Never raises for what a
        peer sent: see PutResult.status."""
        return self.put_fields(*msgspec.structs.astuple(message))

    def put_fields(
        self,
        topic: str,
        queue_id: int,
        body: bytes | memoryview,
        properties: bytes,
        born_host: bytes,
        born_timestamp: int,
        store_timestamp: int,
        tags_code: int = 0,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> PutResult:
        """The same without a value in between, for the one handler that does nothing else: to make
        a PutMessage and to read it takes 110 ns more than to hand over its fields by position (a
        bare tuple 70 ns), which is 3 % of a send at 8x64.
        """
        if self.refusal is not None:
            return self.refusal
        try:
            queue = self._queues_of[topic][queue_id]
        except KeyError:
            problem = topic_problem(topic, queue_id)
            if problem is not None:
                return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=problem)
            queue = self.queues.get_or_create(topic, queue_id)
        while (
            placed := put_record(
                self._log, queue, self._keys, body, properties, flag, sys_flag, born_timestamp,
                born_host, store_timestamp,
                reconsume_times, prepared_transaction_offset, tags_code,
            )
        ) is None:  # fmt: skip
            refusal = self._make_room_for(
                queue, body, properties, sys_flag, born_host, store_timestamp
            )
            if refusal is not None:
                return refusal
        phy_offset, queue_offset, size = placed
        if queue.watched and not sys_flag & UNQUEUED:
            self._arrivals.note(queue, tags_code, store_timestamp)
        if (indexing := self._indexing) is not None and indexing.idle:
            indexing.wake()
        return PutResult(_PUT_OK, phy_offset, queue_offset, size)

    def put_batch(self, batch: PutBatch) -> PutResult:
        """Store every item of a batch as a message of its own: all or none of them (a kill leaves
        the first ones), side by side in one file. In a log of entries each of them stands for
        itself, as in the original: where there is no space for one, those in front of it stay.

        All copies of the batch's properties together may be as long as a body, or a body of 20 KB
        could become a GiB. Raises BatchError when the body is not a batch, or one of over 65,536
        messages.
        """
        queue = self.queues.get(batch.topic, batch.queue_id)
        refusal = self.refusal or self._batch_refusal(queue, batch)
        if refusal is not None:
            return refusal
        items, properties, now_ms = batch.items, batch.properties, batch.store_timestamp
        data = items if isinstance(items, (bytes, memoryview)) else encode_batch(items)
        measured = batch_size(data, properties)
        if measured is None:
            raise batch_problem(data)
        queue = queue or self.queues.get_or_create(batch.topic, batch.queue_id)
        count, contents = measured
        total = count * self._overhead(queue, batch.born_host) + contents
        if total > self._max_file_record or count * len(properties) > self.max_body:
            return self._batch_too_long(total, count * len(properties))
        if self._log.head:
            refusal = self._room_for_entries(queue, batch, data, total, count)
        else:
            refusal = self._make_room(queue, total, count, now_ms)
        if refusal is not None:
            return refusal
        first_queue_offset = queue.max_offset
        units, refusal = self._write_items(queue, batch, data)
        if queue.watched:
            for _, _, tags_code in CQ_UNIT.iter_unpack(units):
                self._arrivals.note(queue, tags_code, now_ms)
        if (indexing := self._indexing) is not None and indexing.idle:
            indexing.wake()
        if refusal is not None:
            return refusal
        begin, *_ = CQ_UNIT.unpack_from(units)
        size = self._log.max_phy_offset - begin
        return PutResult(_PUT_OK, begin, first_queue_offset, size, count, units)

    def _write_items(
        self, queue: ConsumeQueue | QueueNumber, batch: PutBatch, data: bytes | memoryview
    ) -> tuple[bytes, PutResult | None]:
        """Records of a batch and their units; why not all."""
        commit_log, first_queue_offset = self._log, queue.max_offset
        at, position, units, refusal = 0, commit_log.position, b"", None
        while at < len(data):
            number = first_queue_offset + len(units) // CQ_UNIT.size
            at, position, more = put_batch(
                commit_log, queue, self._keys, position, number, data, at, batch.properties,
                batch.sys_flag, batch.born_timestamp, batch.born_host, batch.store_timestamp,
                batch.reconsume_times,
            )  # fmt: skip
            units += more
            if not more:
                commit_log.position = position
                size = self._overhead(queue, batch.born_host) + item_size(
                    data, at, batch.properties
                )
                refusal = self._make_room(queue, size, 0, batch.store_timestamp)
                if refusal is not None:
                    break
                position = commit_log.position
        queue.extend_bytes(units)
        commit_log.position = position
        commit_log.last_store_timestamp = batch.store_timestamp
        if commit_log.head:
            commit_log.index += len(units) // CQ_UNIT.size
        return units, refusal

    def _room_for_entries(
        self,
        queue: ConsumeQueue | QueueNumber,
        batch: PutBatch,
        data: bytes | memoryview,
        total: int,
        count: int,
    ) -> PutResult | None:
        """For the units and for the first of the entries: the others may go into the next file. Or
        why an item is too long for an entry."""
        overhead, at = self._overhead(queue, batch.born_host), 0
        if total > self._log.max_record:
            for item in decode_batch(data):
                size = overhead + item_size(data, at, batch.properties)
                if size > self._log.max_record:
                    return self._illegal(len(item.body), 0, size)
                at += BATCH_ITEM_OVERHEAD + len(item.body) + len(item.properties)
        size = overhead + item_size(data, 0, batch.properties)
        return self._make_room(queue, size, count, batch.store_timestamp)

    def _batch_refusal(
        self, queue: ConsumeQueue | QueueNumber | None, batch: PutBatch
    ) -> PutResult | None:
        problem = topic_problem(batch.topic, batch.queue_id) if queue is None else None
        if problem is None and batch.sys_flag & MessageSysFlag.TRANSACTION_MASK:
            problem = "a batch cannot be part of a transaction"
        if problem is not None:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=problem)
        items = batch.items
        if isinstance(items, (bytes, memoryview)) and len(items) > self.max_body:
            return self._illegal(len(items), 0, 0)
        return None

    def _batch_too_long(self, total: int, shared: int) -> PutResult:
        if shared > self.max_body:
            remark = (
                f"the properties of the batch take {shared} bytes in its messages, "
                f"maxMessageSize is {self.max_body}"
            )
        else:
            remark = (
                f"the batch takes {total} bytes, a file of the commit log {self._max_file_record}"
            )
        return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=remark)

    def _make_room_for(
        self,
        queue: ConsumeQueue | QueueNumber,
        body: bytes | memoryview,
        properties: bytes,
        sys_flag: int,
        born_host: bytes,
        now_ms: int,
    ) -> PutResult | None:
        """For one message that was not put. Why it never will be, or not now."""
        size = self._overhead(queue, born_host) + len(body) + len(properties)
        if (
            len(body) > self.max_body
            or len(properties) > MAX_PROPERTIES_BYTES
            or size > self._log.max_record
        ):
            return self._illegal(len(body), len(properties), size)
        return self._make_room(queue, size, 0 if sys_flag & UNQUEUED else 1, now_ms)

    def _overhead(self, queue: ConsumeQueue | QueueNumber, born_host: bytes) -> int:
        """Bytes of a record without its body and properties."""
        return _HEAD_SIZE + len(born_host) + len(self._log.store_host) + len(queue.topic_field)

    def _make_room(
        self, queue: ConsumeQueue | QueueNumber, size: int, units: int, now_ms: int
    ) -> PutResult | None:
        """Space for the record and its units, or why there is none; then nothing has changed."""
        if self._was_full(now_ms):
            return self.refused("the disk is full")
        try:
            if not queue.has_room(units):
                queue.make_room(units)
            if self._log.position + self._log.head + size > self._log.limit:
                self._log.make_room(size)
        except StoreFileError as error:
            return self.failed(error, now_ms)
        self.on_room(None)
        return None

    def failed(self, error: StoreFileError, now_ms: int) -> PutResult:
        """What a put is answered whose place could not be made, or written to."""
        self.on_room(error)
        if isinstance(error, OutOfSpaceError):
            self._no_space_until = now_ms + _RETRY_SPACE_MS
            return self.refused(f"the disk is full: {error}")
        if isinstance(error, ShortageError):
            return self.refused(f"the system is short of something, try again: {error}")
        return PutResult(PutStatus.CREATE_MAPEDFILE_FAILED, remark=str(error))

    def refused(self, remark: str) -> PutResult:
        """What passes, with the reason: SERVICE_NOT_AVAILABLE (code 14). At a member of a group
        that would mean that another one leads: there it is busy (code 1, dledger.md §5.3)."""
        return (
            PutResult(PutStatus.OS_PAGECACHE_BUSY, remark=remark)
            if self._log.head
            else refused(remark)
        )

    def _illegal(self, body_size: int, properties_size: int, size: int) -> PutResult:
        if properties_size > MAX_PROPERTIES_BYTES:
            remark = (
                f"the properties take {properties_size} bytes, the limit is {MAX_PROPERTIES_BYTES}"
            )
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, remark=remark)
        if body_size > self.max_body:
            remark = f"the body takes {body_size} bytes, maxMessageSize is {self.max_body}"
        else:
            remark = f"the record takes {size} bytes, the limit is {self._log.max_record}"
        return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=remark)


def refused(remark: str) -> PutResult:
    """SERVICE_NOT_AVAILABLE with the reason."""
    return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark=remark)
