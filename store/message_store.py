"""The message store: commit log and consume queues behind ``put`` and ``get`` (class DefaultMessageStore).

One writer: the thread of the event loop calls put and get, plain functions that never block on the disk. Other threads only
sync and make room. The order inside of put is what recovery relies on: room first (it may fail), then the record, then the unit
of the consume queue, in one go and without anything between that can fail.

    store = MessageStore.open(config, clock)      # loads and recovers; blocks, may run in a thread
    result = store.put_message("Orders", 0, body, properties, born_host=peer, born_timestamp=now, store_timestamp=now)
    found = store.get("Orders", 0, result.queue_offset)
    await store.run()                             # syncs and makes room until cancelled
    store.close()                                 # an orderly stop; blocks
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Final

from ..remoting.protocol.batch import BatchError, BatchItem, decode_batch
from ..remoting.protocol.message_id import offset_message_id
from ..remoting.protocol.properties import MAX_PROPERTIES_BYTES, tags_code_of
from ..remoting.protocol.record import BLANK_SIZE, MAGIC, crc32, head_struct
from ..remoting.protocol.sys_flag import MessageSysFlag
from ..remoting.protocol.topic_names import TopicName, is_lmq_topic
from .checkpoint import Checkpoint
from .commit_log import CommitLog
from .config import BrokerRole, MessageStoreConfig
from .consume_queue import CQ_UNIT, ConsumeQueue
from .consume_queues import ConsumeQueues, topic_problem
from .delay_levels import parse_delay_levels
from .errors import OutOfSpaceError, StoreError, StoreFileError
from .flush import FlushService
from .lock_file import AbortFile, LockFile
from .mapped_file import Disk
from .mapped_file_queue import MappedFileQueue
from .message_reader import MessageReader
from .recovery import Recovery, RecoveryReport
from .room import RoomService
from .status import Clock, GetMessageStatus, GetResult, PutResult, PutStatus

__all__ = ["ArrivalListener", "MessageStore"]

log = logging.getLogger(__name__)

ArrivalListener = Callable[[str, int, int, int, int], None]
"""``(topic, queue_id, max_offset, tags_code, store_timestamp)``"""

_RECORD_EXTRA: Final = 64 << 10
"""What a record may be longer than ``max_message_size`` (commitlog.md §4)."""
_PREPARED_BIT: Final = 0x4
_RETRY_SPACE_MS: Final = 100
_HEAD_V4: Final = head_struct(0)
_U16: Final = tuple(struct.pack(">H", number) for number in range(1024))


class MessageStore:
    """See the module. Make one with ``open``."""

    def __init__(self, config: MessageStoreConfig, clock: Clock, disk: Disk, store_host: bytes) -> None:
        self.config: Final = config
        self.on_arrival: Final[list[ArrivalListener]] = []
        """Called by ``notify`` for watched queues."""
        self.arrivals_pending: Callable[[], None] = _nobody
        """Called once when the first arrival since the last ``notify`` is noted: schedule a ``notify`` then."""
        self.recovery: RecoveryReport | None = None
        """What opening found."""
        self._disk: Final = disk
        self._store_host: Final = store_host
        self._host_flag: Final = MessageSysFlag.STORE_HOST_V6 if len(store_host) == 20 else 0
        self._log: Final = CommitLog(
            MappedFileQueue(config.commit_log_path, config.mapped_file_size_commit_log, disk)
        )
        self._queues: Final = ConsumeQueues(config.root / "consumequeue", config.consume_queue_file_size, disk)
        self._table: Final = self._queues.table
        self._checkpoint: Final = Checkpoint(config.root / "checkpoint", disk)
        self._lock: Final = LockFile(config.root / "lock")
        self._abort: Final = AbortFile(config.root / "abort", disk)
        self._reader: Final = MessageReader(self._log, config, disk.memory_size())
        self._flush: Final = FlushService(self._log, self._queues, self._checkpoint, config, clock)
        self._flush.on_broken = self._disk_failed
        self._room: Final = RoomService(self._log, clock)
        self._correct_offsets: Final = config.broker_role is not BrokerRole.SLAVE or config.offset_check_in_slave
        self._refusal: PutResult | None = None
        self._no_space_until = 0
        self._arrived: dict[tuple[ConsumeQueue, int], tuple[int, int]] = {}
        self.set_max_message_size(config.max_message_size)

    # -- life

    @classmethod
    def open(
        cls,
        config: MessageStoreConfig,
        clock: Clock,
        *,
        store_host: bytes,
        disk: Disk | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> MessageStore:
        """Lock the directory, load and recover it; makes it when there is none.

        ``store_host`` is the packed address that goes into every record. ``progress(phy_offset, end)`` is called now and
        then while the log is read. Raises StoreLockedError, StoreFileError, OutOfSpaceError; nothing is changed then
        that a later attempt would need.
        """
        store = cls(config, clock, disk or Disk(), store_host)
        store._prepare_directory()
        store._lock.acquire()
        try:
            store._load(progress)
        except BaseException:
            store._close_files()
            raise
        return store

    def _prepare_directory(self) -> None:
        config = self.config
        if "," in (config.store_path_commit_log or ""):
            raise StoreFileError(config.commit_log_path, "commit logs on several paths are not supported yet")
        try:
            for path in (config.root, config.commit_log_path):
                path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreFileError(path, f"cannot be made: {error.strerror}") from error

    def _load(self, progress: Callable[[int, int], None] | None) -> None:
        clean = not self._abort.exists()
        self._log.files.load()
        self._queues.load()
        self._checkpoint.load()
        if not self._log.files.files and any(queue.max_offset for queue in self._queues.all()):
            raise StoreFileError(
                self.config.commit_log_path,
                "there is no commit log, but there are consume queues: is the disk mounted? "
                f"To start empty, remove {self._queues.directory}",
            )
        recovery = Recovery(
            self._log,
            self._queues,
            self._checkpoint,
            check_crc=self.config.check_crc_on_recover,
            delay_levels=parse_delay_levels(self.config.message_delay_level),
            progress=progress,
        )
        self._abort.create()
        report = self.recovery = recovery.run(clean=clean)
        self._log.flushed_offset = report.end if clean else min(report.start, report.end)
        self._log.last_store_timestamp = self._log.last_store_timestamp or self._checkpoint.physic_msg_timestamp
        if self.config.broker_role is BrokerRole.SLAVE:
            self._refusal = _refused("this broker is a slave")
        log.info(
            "store opened path=%s last_stop=%s commit_log=%d..%d read_from=%d records=%d queues=%d",
            self.config.root, "clean" if clean else "CRASH", self.min_phy_offset, self.max_phy_offset,
            report.start, report.records, len(self._table),
        )  # fmt: skip

    async def run(self) -> None:
        """Sync and make room until cancelled."""
        import asyncio

        async with asyncio.TaskGroup() as group:
            group.create_task(self._flush.run())
            group.create_task(self._room.run())

    def close(self) -> None:
        """Sync everything, note that it was an orderly stop, unlock. Blocks. After ``run`` has been cancelled."""
        self._refusal = _refused("the store is closed")
        self._room.close()
        if self._flush.close():
            self._abort.remove()
        self._close_files()

    def _close_files(self) -> None:
        self._log.close()
        self._queues.close()
        self._lock.release()

    def _disk_failed(self, error: StoreError) -> None:
        log.critical("the disk failed, messages are refused until the broker is restarted: %s", error)
        self._refusal = _refused(f"the disk failed: {error}")

    # -- put

    @property
    def writeable(self) -> bool:
        """Puts are not refused altogether (slave, closed, disk failed)."""
        return self._refusal is None

    def set_max_message_size(self, size: int) -> None:
        """Change the limit of a body at run time; values below 10 are ignored, as in the original."""
        if size >= 10:
            self._max_body = size
            self._max_record = min(size + _RECORD_EXTRA, self.config.mapped_file_size_commit_log - BLANK_SIZE)

    def put_message(
        self,
        topic: str,
        queue_id: int,
        body: bytes | memoryview,
        properties: bytes,
        *,
        born_host: bytes,
        born_timestamp: int,
        store_timestamp: int,
        tags_code: int = 0,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> PutResult:
        """Store one message.

        ``properties`` is the encoded property string; ``tags_code`` what the consume queue gets (``tags_code_of(properties)``,
        or the time of delivery in the schedule topic); ``born_host`` is packed. Prepared and rolled back messages get no
        number. Never raises for what a peer sent: see PutResult.status.
        """
        if self._refusal is not None:
            return self._refusal
        queue = self._table.get((topic, queue_id))
        if queue is None:
            problem = topic_problem(topic, queue_id)
            if problem is not None:
                return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=problem)
            queue = self._queues.get_or_create(topic, queue_id)
        if len(born_host) == 8 and not self._host_flag:
            head = _HEAD_V4
        else:
            sys_flag |= self._host_flag | (MessageSysFlag.BORN_HOST_V6 if len(born_host) == 20 else 0)
            head = head_struct(sys_flag)
        body_size = len(body)
        properties_size = len(properties)
        size = head.size + body_size + len(queue.topic_field) + 2 + properties_size
        if body_size > self._max_body or properties_size > MAX_PROPERTIES_BYTES or size > self._max_record:
            return self._illegal(body_size, properties_size, size)
        commit_log = self._log
        if commit_log.position + size > commit_log.limit or queue.position >= queue.limit:
            refusal = self._make_room(queue, size, 1, store_timestamp)
            if refusal is not None:
                return refusal
        position = commit_log.position
        phy_offset = commit_log.base + position
        queue_offset = 0 if sys_flag & _PREPARED_BIT else queue.max_offset
        unit = CQ_UNIT.pack(phy_offset, size, tags_code)
        commit_log.buffer[position : position + size] = b"".join(
            (
                head.pack(
                    size, MAGIC, crc32(body) & 0x7FFFFFFF, queue_id, flag, queue_offset, phy_offset, sys_flag,
                    born_timestamp, born_host, store_timestamp, self._store_host, reconsume_times,
                    prepared_transaction_offset, body_size,
                ),
                body,
                queue.topic_field,
                _U16[properties_size] if properties_size < 1024 else properties_size.to_bytes(2, "big"),
                properties,
            )
        )  # fmt: skip
        commit_log.position = position + size
        commit_log.last_store_timestamp = store_timestamp
        if not sys_flag & _PREPARED_BIT:
            at = queue.position
            queue.buffer[at : at + 20] = unit
            queue.position = at + 20
            queue.max_offset = queue_offset + 1
            if queue.watched:
                self._note_arrival(queue, tags_code, store_timestamp)
        return PutResult(PutStatus.PUT_OK, phy_offset, queue_offset, size)

    def put_batch(
        self,
        topic: str,
        queue_id: int,
        batch: bytes | memoryview | Sequence[BatchItem],
        properties: bytes = b"",
        *,
        born_host: bytes,
        born_timestamp: int,
        store_timestamp: int,
        sys_flag: int = 0,
        reconsume_times: int = 0,
    ) -> PutResult:
        """Store every item of a batch body as a message of its own: all or none of them, side by side in one file.

        ``properties`` are the batch's own, appended to those of every item. Raises BatchError when the body is not a batch.
        """
        if self._refusal is not None:
            return self._refusal
        problem = topic_problem(topic, queue_id)
        if problem is not None:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=problem)
        if isinstance(batch, (bytes, memoryview)):
            if len(batch) > self._max_body:
                return self._illegal(len(batch), 0, 0)
            batch = decode_batch(batch)
        if not batch:
            raise BatchError("the batch holds no message")
        if sys_flag & MessageSysFlag.TRANSACTION_MASK:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, remark="a batch cannot be part of a transaction")
        sys_flag |= self._host_flag | (MessageSysFlag.BORN_HOST_V6 if len(born_host) == 20 else 0)
        queue = self._queues.get_or_create(topic, queue_id)
        head = head_struct(sys_flag)
        overhead = head.size + len(queue.topic_field) + 2
        merged = [_merge(item.properties, properties) for item in batch]
        sizes = [overhead + len(item.body) + len(own) for item, own in zip(batch, merged, strict=True)]
        total = sum(sizes)
        longest = max(map(len, merged))
        if longest > MAX_PROPERTIES_BYTES:
            raise BatchError(f"the properties of an item take {longest} bytes together with the batch's")
        if total > self.config.mapped_file_size_commit_log - BLANK_SIZE:
            return self._illegal(total, longest, total)
        refusal = self._make_room(queue, total, len(batch), store_timestamp)
        if refusal is not None:
            return refusal
        commit_log = self._log
        position = commit_log.position
        first = phy_offset = commit_log.base + position
        queue_offset = queue.max_offset
        parts: list[bytes | memoryview] = []
        units: list[bytes] = []
        offsets: list[int] = []
        for number, (item, own, size) in enumerate(zip(batch, merged, sizes, strict=True), queue_offset):
            parts += (
                head.pack(
                    size, MAGIC, crc32(item.body) & 0x7FFFFFFF, queue_id, item.flag, number, phy_offset, sys_flag,
                    born_timestamp, born_host, store_timestamp, self._store_host, reconsume_times, 0, len(item.body),
                ),
                item.body,
                queue.topic_field,
                len(own).to_bytes(2, "big"),
                own,
            )  # fmt: skip
            units.append(CQ_UNIT.pack(phy_offset, size, tags_code_of(own)))
            offsets.append(phy_offset)
            phy_offset += size
        commit_log.buffer[position : position + total] = b"".join(parts)
        commit_log.position = position + total
        commit_log.last_store_timestamp = store_timestamp
        queue.extend(units)
        if queue.watched:
            for own in merged:
                self._note_arrival(queue, tags_code_of(own), store_timestamp)
        return PutResult(PutStatus.PUT_OK, first, queue_offset, total, len(batch), tuple(offsets))

    def _make_room(self, queue: ConsumeQueue, size: int, units: int, now_ms: int) -> PutResult | None:
        """Room for the record and its units, or why there is none; then nothing has changed."""
        if now_ms < self._no_space_until:
            return _refused("the disk is full")
        try:
            if units > 1 or queue.position >= queue.limit:
                queue.make_room(units)
            if self._log.position + size > self._log.limit:
                self._log.make_room(size)
        except OutOfSpaceError as error:
            self._no_space_until = now_ms + _RETRY_SPACE_MS
            return _refused(f"the disk is full: {error}")
        except StoreFileError as error:
            return PutResult(PutStatus.CREATE_MAPEDFILE_FAILED, remark=str(error))
        return None

    def _illegal(self, body_size: int, properties_size: int, size: int) -> PutResult:
        if properties_size > MAX_PROPERTIES_BYTES:
            remark = f"the properties take {properties_size} bytes, the limit is {MAX_PROPERTIES_BYTES}"
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, remark=remark)
        if body_size > self._max_body:
            remark = f"the body takes {body_size} bytes, maxMessageSize is {self._max_body}"
        else:
            remark = f"the record takes {size} bytes, the limit is {self._max_record}"
        return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=remark)

    def message_id(self, phy_offset: int) -> str:
        """The offset message id of a record of this store."""
        return offset_message_id(self._store_host, phy_offset)

    def message_ids(self, result: PutResult) -> str:
        """What the answer to a send says: the id, of a batch all ids joined with commas."""
        return ",".join(map(self.message_id, result.phy_offsets or (result.phy_offset,)))

    # -- durability

    def when_flushed(self, phy_offset: int, done: Callable[[bool], None]) -> None:
        """Group commit: ``done(True)`` once everything below ``phy_offset`` (``result.phy_offset + result.size``) is on the
        disk, ``done(False)`` when that takes longer than ``sync_flush_timeout``. Perhaps at once."""
        self._flush.when_flushed(phy_offset, done)

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the disk."""
        return self._log.flushed_offset

    # -- arrivals

    def watch(self, topic: str, queue_id: int, watched: bool = True) -> None:
        """Have ``on_arrival`` called for a queue, or not any more. Costs nothing for queues that are not watched."""
        if watched and topic_problem(topic, queue_id) is None:
            self._queues.get_or_create(topic, queue_id).watched = True
        elif (queue := self._table.get((topic, queue_id))) is not None:
            queue.watched = False

    def _note_arrival(self, queue: ConsumeQueue, tags_code: int, store_timestamp: int) -> None:
        if not self._arrived:
            self.arrivals_pending()
        self._arrived[queue, tags_code] = (queue.max_offset, store_timestamp)

    def notify(self) -> None:
        """Tell the listeners what has arrived in watched queues: once per queue and tags code. After a read event."""
        if not self._arrived:
            return
        arrived, self._arrived = self._arrived, {}
        for (queue, tags_code), (max_offset, store_timestamp) in arrived.items():
            for listener in self.on_arrival:
                listener(queue.topic, queue.queue_id, max_offset, tags_code, store_timestamp)

    # -- get

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        *,
        tags: frozenset[int] | None = None,
        accept: Callable[[bytes], bool] | None = None,
        max_bytes: int | None = None,
    ) -> GetResult:
        """Messages of a queue from ``offset`` on, as they lie in the commit log.

        ``tags``: only those whose tags code is among them (None: all); ``accept(record)``: asked for each that is left.
        At most ``max_count``, 32 messages and 256 KiB (8 and 64 KiB for what lies too far back to be in memory), but always
        the first one.
        """
        queue = self._table.get((topic, queue_id))
        if queue is None:
            following = 0 if self._correct_offsets else offset
            return GetResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, following, 0, 0)
        return self._reader.get(queue, offset, max_count, tags, accept, max_bytes, correct=self._correct_offsets)

    def message_by_offset(self, phy_offset: int) -> bytes | None:
        """The record that begins at an offset, None when none does."""
        return self._log.record(phy_offset)

    def read(self, phy_offset: int, size: int) -> bytes | None:
        """Raw bytes of the commit log (replication); None when they are not all there in one file."""
        return self._log.read(phy_offset, size)

    # -- asking

    @property
    def min_phy_offset(self) -> int:
        return self._log.min_phy_offset

    @property
    def max_phy_offset(self) -> int:
        return self._log.max_phy_offset

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Number of the oldest message of a queue, 0 for one that does not exist."""
        queue = self._table.get((topic, queue_id))
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Number that the next message of a queue will have."""
        queue = self._table.get((topic, queue_id))
        return 0 if queue is None else queue.max_offset

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        """Number of the message stored nearest to a time (ms)."""
        queue = self._table.get((topic, queue_id))
        return 0 if queue is None else self._reader.offset_by_time(queue, timestamp)

    def store_timestamp_at(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message of a queue was stored (ms), -1 when it is not there."""
        queue = self._table.get((topic, queue_id))
        unit = None if queue is None else queue.unit(offset)
        return -1 if unit is None else self._reader.store_timestamp(unit[0])

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """When the oldest message of a queue was stored (ms), -1 when there is none."""
        return self.store_timestamp_at(topic, queue_id, self.min_offset(topic, queue_id))

    def last_update_time(self, topic: str, queue_id: int) -> int:
        """When the newest message of a queue was stored (ms), 0 when there is none (as the admin tools expect it)."""
        return max(0, self.store_timestamp_at(topic, queue_id, self.max_offset(topic, queue_id) - 1))

    def earliest_message_time(self) -> int:
        """When the oldest message of the commit log was stored (ms), -1 when there is none."""
        return self._reader.store_timestamp(self.min_phy_offset)

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic that exist here."""
        return [queue.queue_id for queue in self._queues.of_topic(topic)]

    def topics(self) -> set[str]:
        """The topics that have queues here."""
        return self._queues.topics()

    def disk_ratios(self) -> dict[str, float]:
        """How full the disks are, 0.0 to 1.0: ``commit_log`` and ``consume_queue``. Asks the operating system."""
        return {
            "commit_log": self._disk.used_ratio(self.config.commit_log_path),
            "consume_queue": self._disk.used_ratio(self.config.root),
        }

    # -- topics that are gone

    def delete_topic(self, topic: str) -> bool:
        """Delete the queues of a topic, so that it starts at 0 when it is made again; False when there were none."""
        return bool(self._queues.delete_topics(lambda name: name == topic))

    def clean_unused_topics(self, existing: Collection[str]) -> list[str]:
        """Delete the queues of all topics but the existing ones, those of the system and light queues; returns them."""
        kept = {*existing, TopicName.SCHEDULE, TopicName.TRANS_OP_HALF}
        return self._queues.delete_topics(lambda name: name not in kept and not is_lmq_topic(name))


def _merge(own: bytes, shared: bytes) -> bytes:
    """Properties of a batch item, then those of the batch, which win (message-encoding.md §4.4)."""
    if not own or not shared:
        return own or shared
    return own + shared if own.endswith(b"\x02") else own + b"\x02" + shared


def _refused(remark: str) -> PutResult:
    return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark=remark)


def _nobody() -> None:
    pass
