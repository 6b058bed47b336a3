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
from collections.abc import Callable, Collection
from typing import Final

from ..remoting.protocol.message_id import offset_message_id
from ..remoting.protocol.topic_names import TopicName, is_lmq_topic
from .arrivals import ArrivalListener, Arrivals
from .checkpoint import Checkpoint
from .commit_log import CommitLog
from .config import BrokerRole, MessageStoreConfig
from .consume_queues import ConsumeQueues
from .delay_levels import parse_delay_levels
from .errors import StoreError, StoreFileError
from .flush import FlushService
from .lock_file import AbortFile, LockFile
from .mapped_file import Disk
from .mapped_file_queue import MappedFileQueue
from .message_reader import MessageReader
from .message_writer import MessageWriter, refused
from .recovery import Recovery, RecoveryReport
from .room import RoomService
from .status import Clock, GetMessageStatus, GetResult, PutResult

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
        self._flush: Final = FlushService(self._log, self._queues, self._checkpoint, config, clock)
        self._flush.on_broken = self._disk_failed
        self._room: Final = RoomService(self._log, clock)
        self._correct_offsets: Final = config.broker_role is not BrokerRole.SLAVE or config.offset_check_in_slave
        self._arrivals: Final = Arrivals(self._queues)
        self._writer: Final = MessageWriter(self._log, self._queues, self._arrivals, store_host, config.max_message_size)
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
            check_crc=self.config.check_crc_on_recover,
            delay_levels=parse_delay_levels(self.config.message_delay_level),
            progress=progress,
        )
        self._abort.create()
        report = self.recovery = recovery.run(clean=clean)
        self._log.flushed_offset = report.end if clean else min(report.start, report.end)
        self._log.last_store_timestamp = self._log.last_store_timestamp or self._checkpoint.physic_msg_timestamp
        if self.config.broker_role is BrokerRole.SLAVE:
            self._writer.refusal = refused("this broker is a slave")
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

    def close(self) -> None:
        """Sync everything, note that it was an orderly stop, unlock. Blocks. After ``run`` has been
        cancelled.
        """
        self._writer.refusal = refused("the store is closed")
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
        self._writer.refusal = refused(f"the disk failed: {error}")

    # -- put

    @property
    def writeable(self) -> bool:
        """Puts are not refused altogether (slave, closed, disk failed)."""
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
