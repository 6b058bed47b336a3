"""The message store: commit log and consume queues behind ``put`` and ``get`` (class DefaultMessageStore).

One writer: the thread of the event loop calls put and get, plain functions that never block on the disk. Other
threads only sync and make room::

    store = MessageStore.open(config, clock, store_host=host)   # loads and recovers; blocks, may run in a thread
    result = store.put_message("Orders", 0, body, properties, born_host=peer, born_timestamp=then, store_timestamp=now)
    found = store.get("Orders", 0, result.queue_offset)
    await store.run()                                           # syncs and makes room until cancelled
    store.close()                                               # an orderly stop; blocks
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Generator
from typing import Final

from ..remoting.protocol.message_id import offset_message_id
from ..remoting.protocol.topic_names import TopicName, is_lmq_topic
from .arrivals import ArrivalListener, Arrivals
from .checkpoint import Checkpoint
from .cleaning import CleaningService
from .commit_log import CommitLog
from .config import BrokerRole, MessageStoreConfig
from .consume_queues import ConsumeQueues
from .delay_levels import parse_delay_levels
from .errors import StoreError, StoreFileError
from .flush import FlushService
from .index_files import IndexFiles
from .indexing import Indexing
from .lock_file import AbortFile, LockFile
from .mapped_file import Disk
from .mapped_file_queue import MappedFileQueue
from .message_query import MessageQuery
from .message_reader import MessageReader
from .message_writer import MessageWriter, refused
from .recovery import Recovery, RecoveryReport
from .retention import DiskUse, Space
from .room import RoomService
from .status import Clock, GetMessageStatus, GetResult, PutResult, QueryResult

__all__ = ["ArrivalListener", "MessageStore"]

log = logging.getLogger(__name__)


class MessageStore:
    """See the module. Make one with ``open``."""

    def __init__(self, config: MessageStoreConfig, clock: Clock, disk: Disk, store_host: bytes) -> None:
        self.config: Final = config
        self.recovery: RecoveryReport | None = None
        """What opening found."""
        self._disk: Final = disk
        self._store_host: Final = store_host
        self._log: Final = CommitLog(MappedFileQueue(config.commit_log_path, config.mapped_file_size_commit_log, disk))
        self._queues: Final = ConsumeQueues(config.root / "consumequeue", config.consume_queue_file_size, disk)
        self._table: Final = self._queues.table
        self._checkpoint: Final = Checkpoint(config.root / "checkpoint", disk)
        self._lock: Final = LockFile(config.root / "lock")
        self._abort: Final = AbortFile(config.root / "abort", disk)
        self._reader: Final = MessageReader(self._log, config, disk.memory_size())
        self._index: Final = IndexFiles(
            config.root / "index", config.max_hash_slot_num, config.max_index_num, disk, clock.time_ms
        )
        self._indexing: Final = Indexing(self._index, clock)
        self._indexing.on_blocked = self._index_blocked
        self._index_refusal: PutResult | None = None
        self._query: Final = MessageQuery(self._log, self._index, self._indexing, config.max_msgs_num_batch)
        self._flush: Final = FlushService(
            self._log, self._queues, self._checkpoint, self._index, self._indexing, config, clock
        )
        self._flush.on_broken = self._disk_failed
        self._room: Final = RoomService(self._log, clock)
        self._cleaning: Final = CleaningService(self._log, self._queues, config, disk, clock)
        self._cleaning.on_space = self._space_changed
        self._cleaning.drop_expired_index = self._index.drop_expired
        self._disk_full: PutResult | None = None
        self._closed: PutResult | None = None
        """Why no message is taken any more in this life of the store."""
        self._correct_offsets: Final = config.broker_role is not BrokerRole.SLAVE or config.offset_check_in_slave
        self._arrivals: Final = Arrivals(self._queues)
        indexing = self._indexing if config.message_index_enable else None
        self._writer: Final = MessageWriter(
            self._log, self._queues, self._arrivals, indexing, store_host, config.max_message_size
        )
        self.put_message: Final = self._writer.put_message
        self.put_batch: Final = self._writer.put_batch
        self.on_arrival: Final[list[ArrivalListener]] = self._arrivals.listeners
        """Called by ``notify`` for watched queues with ``(topic, queue_id, max_offset, tags_code, store_timestamp)``."""

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

        ``store_host`` is the packed address that goes into every record. ``progress(phy_offset, end)`` is
        called now and then while the log is read. Raises StoreLockedError, StoreFileError, OutOfSpaceError;
        nothing is changed then that a later attempt would need.
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
        self._index.load()
        if self.config.message_index_enable:
            self._index.reserve_current()
        durable = clean or self._checkpoint.logics_msg_timestamp > 0
        if durable and not self._log.files.files and any(queue.max_offset for queue in self._queues.all()):
            raise StoreFileError(
                self.config.commit_log_path,
                "there is no commit log, but there are consume queues: is the disk mounted? "
                f"To start empty, remove {self._queues.directory}",
            )
        recovery = Recovery(
            self._log,
            self._queues,
            self._checkpoint,
            self._index,
            self._indexing if self.config.message_index_enable else None,
            check_crc=self.config.check_crc_on_recover,
            delay_levels=parse_delay_levels(self.config.message_delay_level),
            progress=progress,
        )
        self._abort.create()
        report = self.recovery = recovery.run(clean=clean)
        self._log.flushed_offset = report.end if clean else min(report.start, report.end)
        self._log.last_store_timestamp = self._log.last_store_timestamp or self._checkpoint.physic_msg_timestamp
        if self.config.broker_role is BrokerRole.SLAVE:
            self._closed = refused("this broker is a slave")
            self._choose_refusal()
        log.info(
            "store opened path=%s last_stop=%s commit_log=%d..%d read_from=%d records=%d queues=%d",
            self.config.root, "clean" if clean else "CRASH", self.min_phy_offset, self.max_phy_offset,
            report.start, report.records, len(self._table),
        )  # fmt: skip

    async def run(self) -> None:
        """Sync and make room until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._flush.run())
            group.create_task(self._room.run())
            group.create_task(self._indexing.run())
            group.create_task(self._cleaning.run())

    def close(self) -> None:
        """Sync everything, note that it was an orderly stop, unlock. Blocks. After ``run`` has been
        cancelled.
        """
        self._closed = refused("the store is closed")
        self._choose_refusal()
        self._room.close()
        self._cleaning.close()
        indexed = self._indexing.close()
        if self._flush.close() and indexed:
            self._abort.remove()
        self._close_files()

    def _close_files(self) -> None:
        self._log.close()
        self._queues.close()
        self._index.close()
        self._lock.release()

    def _disk_failed(self, error: StoreError) -> None:
        log.critical("the disk failed, messages are refused until the broker is restarted: %s", error)
        self._closed = refused(f"the disk failed: {error}")
        self._choose_refusal()

    def _space_changed(self, space: Space, use: DiskUse) -> None:
        """From ``diskSpaceWarningLevelRatio`` on no message is taken, as long as there is no other reason for that."""
        before, full = self._disk_full, None
        if space is Space.FULL:
            limit = self.config.disk_space_warning_level_ratio
            full = refused(f"the disk is full [{use}], no message is taken above {limit} % (diskSpaceWarningLevelRatio)")
        if full is not None and before is None:
            log.error("messages are refused: %s", full.remark)
        elif full is None and before is not None:
            log.warning("the disk has space, messages are taken again [%s]", use)
        self._disk_full = full
        self._choose_refusal()

    def _choose_refusal(self) -> None:
        """The gravest reason counts."""
        self._writer.refusal = self._closed or self._disk_full or self._index_refusal

    def _index_blocked(self, error: StoreFileError | None) -> None:
        """What cannot be indexed is not taken (as in the original), or what waits would grow without end."""
        self._index_refusal = None if error is None else refused(f"there is no room for the index: {error}")
        self._choose_refusal()

    # -- retention

    def delete_expired_files(self) -> None:
        """Expired files of the commit log go in the next rounds, whatever the hour (request 329)."""
        self._cleaning.clean_at_any_hour()

    async def delete_expired_queues(self) -> list[str]:
        """Delete the queues that have no message left, so that they start at 0 again (request 306); returns
        ``topic-queueId`` of each.
        """
        return await self._cleaning.delete_expired_queues()

    # -- put

    @property
    def writeable(self) -> bool:
        """Puts are not refused altogether (slave, closed, disk failed or nearly full)."""
        return self._writer.refusal is None

    def set_max_message_size(self, size: int) -> None:
        """Change the limit of a body at run time; values below 10 are ignored, as in the original."""
        self._writer.set_max_message_size(size)

    def message_id(self, phy_offset: int) -> str:
        """The offset message id of a record of this store."""
        return offset_message_id(self._store_host, phy_offset)

    def message_ids(self, result: PutResult) -> str:
        """What the answer to a send says: the id, of a batch all ids joined with commas."""
        return ",".join(map(self.message_id, result.phy_offsets or (result.phy_offset,)))

    # -- durability

    def when_flushed(self, phy_offset: int, done: Callable[[bool], None]) -> None:
        """Group commit: ``done(True)`` once everything below ``phy_offset`` (``result.phy_offset +
        result.size``) is on the disk, ``done(False)`` when that takes longer than ``sync_flush_timeout``.
        Perhaps at once.
        """
        self._flush.when_flushed(phy_offset, done)

    async def sync(self) -> None:
        """Put everything written so far on the disk, and the checkpoint that says so."""
        await self._flush.sync_everything()

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the disk."""
        return self._log.flushed_offset

    # -- arrivals

    def watch(self, topic: str, queue_id: int, watched: bool = True) -> None:
        """Have ``on_arrival`` called for a queue, or not any more. Costs nothing for queues that are not
        watched.
        """
        self._arrivals.watch(topic, queue_id, watched)

    def on_pending(self, call: Callable[[], None]) -> None:
        """``call`` is called once when the first arrival since the last ``notify`` is noted: schedule ``notify`` then."""
        self._arrivals.pending = call

    def notify(self) -> None:
        """Tell the listeners what has arrived in watched queues, once per queue and tags code. After a read event."""
        self._arrivals.notify()

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

        ``tags``: only those whose tags code is among them (None: all); ``accept(record)``: asked for each
        that is left. At most ``max_count``, 32 messages and 256 KiB (8 and 64 KiB for what lies too far back
        to be in memory), but always the first one.
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

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryResult:
        """The newest messages of a topic with a key or unique key, stored in a range of time (ms, both ends included).

        At most ``max_count`` and ``maxMsgsNumBatch``. May look at many items: see ``query_steps``. Messages put with
        ``messageIndexEnable=false`` are not found, and the last few milliseconds may be missing.
        """
        return self._query.run(topic, key, max_count, begin_ms, end_ms)

    def query_steps(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> Generator[None, None, QueryResult]:
        """``query`` in steps of less than a millisecond, so that other work can go on in between; the result is the value
        of the generator.
        """
        return self._query.steps(topic, key, max_count, begin_ms, end_ms)

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
        """When the newest message of a queue was stored (ms), 0 when there is none (as the admin tools
        expect it).
        """
        return max(0, self.store_timestamp_at(topic, queue_id, self.max_offset(topic, queue_id) - 1))

    def earliest_message_time(self) -> int:
        """When the oldest message of the commit log was stored (ms), -1 when there is none."""
        return self._reader.store_timestamp(self.min_phy_offset)

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic that ever had a message here."""
        return [queue.queue_id for queue in self._queues.of_topic(topic) if queue.max_offset]

    def topics(self) -> set[str]:
        """The topics that ever had a message here."""
        return {queue.topic for queue in self._queues.all() if queue.max_offset}

    def disk_ratios(self) -> dict[str, float]:
        """How full the disks are, 0.0 to 1.0: ``commit_log`` and ``consume_queue``. Asks the operating
        system.
        """
        return {
            "commit_log": self._disk.used_ratio(self.config.commit_log_path),
            "consume_queue": self._disk.used_ratio(self.config.root),
        }

    # -- topics that are gone

    def delete_topic(self, topic: str) -> bool:
        """Delete the queues of a topic, so that it starts at 0 when it is made again; False when there were
        none.
        """
        return bool(self._queues.delete_topics(lambda name: name == topic))

    def clean_unused_topics(self, existing: Collection[str]) -> list[str]:
        """Delete the queues of all topics but the existing ones, those of the system and light queues;
        returns them.
        """
        kept = {*existing, TopicName.SCHEDULE, TopicName.TRANS_OP_HALF}
        return self._queues.delete_topics(lambda name: name not in kept and not is_lmq_topic(name))
