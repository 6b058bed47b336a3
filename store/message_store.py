"""The message store: commit log and consume queues behind ``put`` and ``get`` (class
DefaultMessageStore).

One writer: the thread of the event loop calls put and get, plain functions that never block on the
disk. Other threads only sync and make space::

    store = MessageStore.open(config, clock, store_host=host)
    # ... loads and recovers; blocks, may run in a thread
    message = PutMessage("Orders", 0, body, properties, peer, born_timestamp=then,
                         store_timestamp=now)
    result = store.put_message(message)
    found = store.get("Orders", 0, result.queue_offset)
    await store.run()             # syncs and makes space until cancelled
    store.close()                 # an orderly stop; blocks

With ``enableConsumeQueueExt`` each message also has an ``ExtUnit`` (tags code, store time, bitmap)
in the extension of its queue. SQL filters use it so that a pull need not look into every message::

    store = MessageStore.open(config, clock, store_host=host, bitmap_of=bitmap_of)
    # ... bitmap_of(topic, properties, tags_code, store_timestamp)
    store.get("Orders", 0, offset, record_filter=wanted)

``bitmap_of`` is asked once for each message, also for those that recovery puts into their queues
again. ``accepts_ext`` of a filter is asked for the messages that have a unit; all others (written
without the extension, or its file is lost) go on to ``accepts``.

One file, though over 400 lines: the face of the store, a few lines for each thing that may be asked
of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from ..remoting.clock import Clock
from ..remoting.outages import Outages
from ..remoting.protocol.message.message_id import offset_message_id
from ..remoting.protocol.message.topic_names import is_lmq_topic, is_system_topic
from ..remoting.slices import Steps
from .disk.disk import Disk, Lock
from .disk.lock_file import AbortFile
from .disk.system_disk import SystemDisk
from .dledger.committed import CommittedRecords
from .dledger.deletions import Deletions
from .dledger.mending import note_damaged
from .dledger.opening import MemberOpening
from .dledger.raft_store import MemberLog, MemberPuts, RaftStore
from .dledger.state_files import MemberFiles
from .files import StoreFiles
from .index.indexing import Indexing
from .log.log_scanner import LogScanner
from .model.config import BrokerRole, MessageStoreConfig
from .model.errors import file_error, translated
from .model.status import GetMessageStatus, GetResult, PutResult
from .put.arrivals import Arrivals
from .put.consume_queue_ext_writer import BitmapOf
from .put.message_writer import MessageWriter
from .put.multi_dispatch import MultiDispatch
from .put.puts import Puts
from .put.refusals import Refusals
from .put.unit_rules import UnitRules
from .queues.gone_queues import GoneQueues
from .read.message_query import MessageQuery
from .read.message_reader import MessageReader, RecordFilter
from .read.queue_entries import QueueEntries
from .read.readable import Readable
from .recovery.opening import (
    MEMBER_REMEDY,
    REMEDY,
    check_claims,
    configured_topics,
    load_commit_log,
    make_directories,
    without_garbage_collection,
    write_again,
)
from .recovery.recovery import Recovery, RecoveryReport
from .recovery.recovery_progress import RecoveryProgress
from .replica.log_fetch import LogStream
from .replica.repair import fetch_again, put_record_back
from .replica.replica_log import ReplicaLog
from .services.allocation import AllocationService
from .services.cleaning import CleaningService
from .services.flush import FlushService
from .services.indexing_service import IndexingService
from .services.scrub import Scrub

log: Final = logging.getLogger(__name__)

_MOST_NAMES_AT_START: Final = 500
"""Queues: each takes two syncs of a folder, 1 to 5 ms on a disk."""


class MessageStore:
    """See the module. Make one with ``open``."""

    def __init__(
        self,
        config: MessageStoreConfig,
        clock: Clock,
        disk: Disk,
        store_host: bytes,
        bitmap_of: BitmapOf | None = None,
    ) -> None:
        self.config: Final = config
        self.recovery: RecoveryReport | None = None
        """What opening found."""
        self._disk: Final = disk
        self._clock: Final = clock
        self._store_host: Final = store_host
        files = self._files = StoreFiles(config, disk, clock)
        self._log: Final = files.log
        self._queues: Final = files.queues
        self._table: Final = files.queues.table
        self._checkpoint: Final = files.checkpoint
        self._ends: Final = files.ends
        self._index: Final = files.index
        self._indexing: Final = files.indexing
        self._lock: Final = disk.lock(config.root / "lock")
        self._folder_locks: Final = [disk.lock_folder(path) for path in self._log.files.writable]
        self._abort: Final = AbortFile(config.root / "abort", disk)
        self.damage: Final = files.damage
        """What has been found to be damaged in the commit log, and is still."""
        self._reader: Final = MessageReader(self._log, config, disk.memory_size(), self.damage)
        self.entries: Final = QueueEntries(self._log, self._table, self._reader)
        self.query: Final = MessageQuery(files, config.max_msgs_num_batch)
        self._index_service: Final = IndexingService(self._indexing, self._index, clock)
        self.flush: Final = FlushService(files, config, clock)
        self._allocation: Final = AllocationService(self._log, config, clock)
        self.cleaning: Final = CleaningService(self._log, self._queues, config, disk, clock)
        self.scrub: Final = Scrub(self._log, self.damage, config, clock, files.checksums)
        self.read_role()
        self.arrivals: Final = Arrivals(self._queues)
        indexing = self._indexing if config.message_index_enable else None
        member = MemberPuts(self._table) if config.enable_dledger_commit_log else None
        self._writer: Final = self._writer_of(indexing, member)
        rules = self._rules = self._rules_of(bitmap_of)
        self._dispatch: Final = rules.dispatch and MultiDispatch(
            self._writer.queues, self.arrivals, rules.dispatch, self._queues, self._writer
        )
        puts = Puts.through(self._dispatch, None if member else rules.ext, self._writer)
        self.put_message: Final = puts.message
        self.put_fields: Final = puts.fields
        """The same, with the fields of the message by position: see ``MessageWriter``."""
        self.put_again: Final = puts.again
        """The same for what this store took once already: ``maxMessageSize`` does not count."""
        self.put_batch: Final = puts.batch
        self.replica: Final = ReplicaLog(
            self._log, self._queues, self.arrivals, indexing, rules, self.damage, Outages(clock)
        )
        """For a slave: takes the records of its master."""
        self._refusals: Final = Refusals(self._writer, config, files.outages, clock)
        self.raft: Final = None if member is None else self._member(member)
        """What a member of a DLedger group keeps, and its roles; None for all others."""
        self._readable: Final = self._only_synced() if config.hands_out_only_synced else None
        self._connect()

    def _needed_from(self) -> int:
        """A file of the log that reaches so far must not expire. What a stop leaves of the queues
        is believed below the checkpoint only: behind it the log says which numbers were given."""
        synced = self._log.flushed_offset if self.raft is None else self.raft.needed_from()
        return min(synced, self._checkpoint.saved_phy_offset or 0)

    def _rules_of(self, bitmap_of: BitmapOf | None) -> UnitRules:
        outages = self._files.outages
        return UnitRules.of(self.config, self._writer, self._queues, bitmap_of, outages)

    def _only_synced(self) -> Readable:
        readable = Readable(self._log, self.flush.sync_soon, self.flush.when_synced)
        self._reader.readable = self.arrivals.readable = self.query.readable = readable
        return readable

    def _writer_of(self, indexing: Indexing | None, member: MemberPuts | None) -> MessageWriter:
        """A member of a DLedger group writes no units and indexes nothing before it is
        committed."""
        return MessageWriter(
            self._log,
            self._queues if member is None else member.numbers,
            self.arrivals,
            indexing if member is None else member.notice,
            self._store_host,
            self.config.max_message_size,
        )

    def _member(self, puts: MemberPuts) -> RaftStore:
        index = self._files.entry_index
        assert index is not None, "that of a member"
        replica, clock = self.replica, self._clock
        raft = RaftStore(
            MemberLog(self._log, index, self._files.outages),
            MemberFiles(self.config, self._disk),
            puts,
            CommittedRecords(self._log, replica, self.damage),
            Deletions(self._queues, puts.numbers, replica.on_begun_anew, clock),
            self._rules.dispatch,
            clock,
        )
        raft.log.failed = lambda: self.flush.broken
        raft.log.on_damaged = partial(note_damaged, index, self.damage)
        raft.refuse = self._refusals.by_role
        raft.on_new_log = self._forget_all
        self.flush.dispatched = raft.dispatched
        self.cleaning.on_left = raft.log.first_file_gone
        self.cleaning.on_deleted = raft.log.first_file_deleted
        self.cleaning.on_queue_deleted.append(puts.numbers.forget)
        self.cleaning.may_delete = puts.numbers.has_none_ahead
        # a follower sends who has read more to the leader
        self._reader.is_behind = lambda: self._correct_offsets and raft.lag > 0
        return raft

    def _connect(self) -> None:
        """Who tells whom."""
        self.gone_queues.may_take = self._follows
        self._reader.follows, self._reader.awaited = self._follows, self._awaited
        self.flush.on_broken = self._refusals.disk_failed
        self.flush.on_put_off = self._refusals.sync_put_off
        self.cleaning.on_space = self._refusals.space_changed
        self.cleaning.needed_from = self._needed_from
        self.cleaning.forget_before = self.damage.forget_before
        self.cleaning.drop_expired_index = self._index.drop_expired
        self._index_service.on_blocked = self._refusals.index_blocked

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
        bitmap_of: BitmapOf | None = None,
        lock: Lock | None = None,
    ) -> MessageStore:
        """Lock the directory, load and recover it; makes it when there is none.

        ``store_host`` is the packed address that goes into every record. ``progress(phy_offset,
        end)`` is called now and then while the log is read. ``bitmap_of``: see the module; without
        effect unless ``enableConsumeQueueExt``. ``lock``: that of the directory, when the caller
        has it already, who keeps it until the store is closed. Raises StoreLockedError,
        StoreFileError, OutOfSpaceError; nothing is changed then that a later attempt would need.
        """
        try:
            store = cls(config, clock, disk or SystemDisk(), store_host, bitmap_of)
            make_directories((config.root, *store._log.files.directories), store._disk)
            if lock is None:
                store._lock.acquire()
            try:
                for folder in store._folder_locks:
                    folder.acquire()
                with without_garbage_collection():
                    store._load(progress)
            except BaseException:
                store._close_files()
                raise
        except OSError as error:  # a folder that must not be looked into, say
            raise file_error(
                Path(error.filename or config.root), "cannot be used", error
            ) from error
        return store

    def _load(self, progress: Callable[[int, int], None] | None) -> None:
        clean = not self._abort.exists()
        self._checkpoint.load()
        remedy = REMEDY if self.raft is None else MEMBER_REMEDY
        load_commit_log(self._log.files, self._checkpoint, self._disk, clean=clean, remedy=remedy)
        once = self._ends.load()
        if once is None and self._disk.exists(self._ends.path):
            log.warning(
                "%s is damaged: what the consume queues must hold comes from the commit log",
                self._ends.path,
            )
        self._queues.load(once.queue_file_size if once is not None else 0)
        known = once if once is not None and once.belongs_to(self._checkpoint) else None
        opening = None if self.raft is None else MemberOpening(self._files, self.raft, self.config)
        if opening is not None:
            opening.look(clean=clean)
        recovery = (Recovery if opening is None else opening.recovery)(
            self._files,
            self._indexing if self.config.message_index_enable else None,
            self._rules,
            check_crc=self.config.check_crc_on_recover,
            progress=RecoveryProgress(self._clock.monotonic, progress),
            known=known,
            was_deleted=self._was_deleted,
        )
        recovery.look()
        if opening is None or opening.converts:
            check_claims(self._log.files, self._queues, self._checkpoint, once, clean=clean)
        self._index.load()
        if self.config.message_index_enable:
            self._index.compare(
                known.index_ranges if known is not None else (), self.min_phy_offset
            )
            self._index.reserve_current()
        self._abort.create()
        if opening is not None:
            opening.begin(clean=clean)
        report = self.recovery = recovery.run(clean=clean)
        if opening is not None:
            opening.finish(report)
        self._know_damage(report)
        end = self._reader.proven_from = self._log.max_phy_offset
        self._log.flushed_offset = end if clean else min(report.start, end)
        if not clean:
            write_again(self._log, report.start, end)
        self._log.last_store_timestamp = (
            self._log.last_store_timestamp or self._checkpoint.physic_msg_timestamp
        )
        news = known is None or report.records or report.repaired or not clean
        if self._log.files.files and news:
            self._save_what_was_done()
        if self.raft is None and self.config.broker_role is BrokerRole.SLAVE:
            self._refusals.by_role(self._writer.refused("this broker is a slave"))
        log.info(
            "store opened path=%s last_stop=%s commit_log=%d..%d read_from=%d records=%d queues=%d",
            self.config.root, "clean" if clean else "CRASH", self.min_phy_offset,
            self.max_phy_offset,
            report.start, report.records, len(self._table),
        )  # fmt: skip

    def _know_damage(self, report: RecoveryReport) -> None:
        """What this start has found, and those before."""
        before = self._files.damage_file.load(self.min_phy_offset, self._log.max_phy_offset)
        for begin, stop in report.damaged:
            self.damage.remember(begin, stop - begin)
        left = [place for each in before.items() for place in self._damaged_still(*each)]
        known = [place for place in left if self.damage.remember(*place)]
        if known:
            log.warning(
                "places of the commit log are damaged since before this start count=%d first=%d",
                len(known), min(known)[0],
            )  # fmt: skip

    def _damaged_still(self, phy_offset: int, size: int) -> list[tuple[int, int]]:
        """What is left of a place that was damaged once: ``mqstore repair`` or the original may
        have been there, or a kill between a mend and the next note of it. Then a record that is
        whole may not be in its queues. Whether an entry is, its record does not tell.
        """
        if self.raft is not None:
            return [(phy_offset, size)]
        scanner = LogScanner(self._log)
        lacking = [
            (request.phy_offset, request.size)
            for records in scanner.pieces(phy_offset, phy_offset + size)
            for request in self.replica.lacking(records)
        ]
        return [(begin, stop - begin) for begin, stop in scanner.damaged] + lacking

    def _save_what_was_done(self) -> None:
        """Should it be killed soon, the next start need not do it again. Many names take minutes to
        sync."""
        new_names = sum(queue.files.new_files for queue in self._queues.all())
        self.flush.due = new_names > _MOST_NAMES_AT_START
        if not self.flush.due:
            self.flush.save()
        elif self._readable is not None:
            self.flush.save_log()

    def _forget_all(self, phy_offset: int) -> None:
        """A member's log begins anew, with another place of its group's: no message is left, and
        numbers of queues are not known any more. Raises StoreFileError."""
        assert self.raft is not None, "a member's"
        self.gone_queues.wanted = True
        self.raft.files.save_numbers(lambda: False)
        if self._log.min_phy_offset < self._log.divided:
            self._put_old_log_aside(phy_offset)
        self._indexing.build_all()
        self._index.cut(phy_offset, lambda _hash, _phy_offset: True)
        self._queues.on_delete(list(self._table))
        for queue in self._queues.all():
            queue.clear()

    def _put_old_log_aside(self, phy_offset: int) -> None:
        """The group has nothing in front of the entries any more: with the old files in their place
        the log would have a hole."""
        for path in self.config.commit_log_paths:
            aside = path.with_name(f"{path.name}.before-{phy_offset}")
            with translated(path, f"cannot be renamed to {aside.name}"):
                if self._disk.is_directory(path):
                    self._disk.replace(path, aside)
                    log.warning(
                        "the old commit log is put aside: the group begins at %d now, see %s",
                        phy_offset,
                        aside,
                    )
            self._disk.sync_directory(path.parent)

    def _was_deleted(self, topic: str) -> bool:
        """A topic of which no queue is left, and which is not configured either."""
        topics = (
            None
            if self._rules.dispatch is not None or is_system_topic(topic)
            else configured_topics(self.config.root, self._disk)
        )
        return topics is not None and topic not in topics

    async def run(self) -> None:
        """Sync and make space until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.flush.run())
            group.create_task(self._allocation.run())
            group.create_task(self._index_service.run())
            group.create_task(self.cleaning.run())
            group.create_task(self.scrub.run())
            if self.raft is not None:
                group.create_task(self.raft.run())

    def close(self, *, orderly: bool = True) -> None:
        """Sync everything, note that it was an orderly stop, unlock. Blocks. After ``run`` has been
        cancelled. Not ``orderly``: the next start finds a crash."""
        self.flush.end_waits()
        self._refusals.from_now_on("the store is closed")
        self._allocation.close()
        self.cleaning.close()
        self.scrub.close()
        derived = self._index_service.close()
        derived &= self.raft is None or self.raft.deletions.close()
        try:
            synced = self.flush.close() and derived and (self.raft is None or self.raft.close())
            if synced and orderly:
                self._abort.remove()
        finally:
            self._close_files()

    def _close_files(self) -> None:
        """All of them, whatever goes wrong with one; the lock goes last."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._lock.release)
            for folder in self._folder_locks:
                stack.callback(folder.release)
            stack.callback(self._index.close)
            if self._files.entry_index is not None:
                stack.callback(self._files.entry_index.close)
            stack.callback(self._queues.close)
            stack.callback(self._log.close)

    # -- put

    def later_refusal(self, topic: str, properties: bytes) -> PutResult | None:
        """Why a message that waits first, for its time or for the end of its transaction, could not
        be stored in its topic then; None when nothing is known that keeps it from there.
        """
        return None if self._dispatch is None else self._dispatch.refusal(topic, properties)

    @property
    def writeable(self) -> bool:
        """Puts are not refused altogether (slave, closed, disk failed or nearly full)."""
        return self._writer.refusal is None

    @property
    def trouble(self) -> str | None:
        """Why messages are refused for what this machine lacks (disk, space), if they are."""
        trouble = self._refusals.trouble
        return None if trouble is None else trouble.remark

    @property
    def no_room(self) -> str | None:
        """Why single messages are refused: a file for them cannot be made, which each tries."""
        return self._refusals.no_room

    def reconfigure(self) -> None:
        """Take over what has changed in ``config``. Values of ``maxMessageSize`` below 10 are
        ignored, as in the original.

        Raises StoreConfigError; ``retention.Rules.of`` tells before.
        """
        self.cleaning.reconfigure()
        self._reader.reconfigure()
        self._writer.set_max_message_size(self.config.max_message_size)
        self.query.max_count = self.config.max_msgs_num_batch

    def _follows(self) -> bool:
        """Another replica leads."""
        if self.raft is not None:
            return self._refusals.follows
        return self.config.broker_role is BrokerRole.SLAVE

    def _awaited(self) -> Mapping[int, int]:
        """What is damaged and may be mended: by the replica that leads; where this one does, by
        others, unless they were asked in vain."""
        if self._follows():
            return self.damage.awaited
        return self.damage.unasked if self.damage.is_watched else {}

    def read_role(self) -> None:
        """Take over what the broker is: at start, and whenever that changes. Only a master knows
        where queues end, and tells who asks for what lies behind."""
        config = self.config
        self._correct_offsets = config.is_master or config.offset_check_in_slave

    def message_id(self, phy_offset: int) -> str:
        """The offset message id of a record of this store."""
        return offset_message_id(self._store_host, phy_offset)

    # -- durability

    @property
    def readable_end(self) -> int:
        """Where what may leave the broker ends, to consumers and slaves: with SYNC_FLUSH what is on
        a master's disk."""
        return self.max_phy_offset if self._readable is None else self._readable.end

    def when_readable(self, done: Callable[[], None]) -> None:
        """Call ``done`` once all that is written by now may leave the broker: at once, or when it
        is on the disk. Never if that fails."""
        if self._readable is None:
            done()
        else:
            self._readable.when(done)

    async def sync(self) -> bool:
        """Put everything written so far on the disk, and the checkpoint that says so; whether all
        of that was possible."""
        return await self.flush.sync_everything()

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the disk."""
        return self._log.flushed_offset

    # -- get

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        *,
        tags: frozenset[int] | None = None,
        record_filter: RecordFilter | None = None,
        max_bytes: int | None = None,
        views: bool = False,
    ) -> GetResult:
        """Messages of a queue from ``offset`` on, as they lie in the commit log.

        ``tags``: only those whose tags code is among them (None: all); ``record_filter`` is asked
        for each, and says how many units are looked at (else 800, or ``max_count``). At
        most ``max_count``, 32 messages and 256 KiB (8 and 64 KiB for what lies too far back to be
        in memory), but always the first one. ``max_bytes``, when given, stands for the 32 messages.
        ``views``: much may be a view of the log's file, for somebody who has done with it before
        anything else has a turn.
        """
        queue = self._table.get((topic, queue_id))
        if queue is None:
            following = 0 if self._correct_offsets else offset
            return self._reader.nothing(
                GetMessageStatus.NO_MESSAGE_IN_QUEUE, offset, following, (0, 0)
            )
        return self._reader.get(
            queue,
            offset,
            max_count,
            tags,
            record_filter,
            max_bytes,
            views,
            correct=self._correct_offsets,
        )

    def message_by_offset(self, phy_offset: int) -> bytes | None:
        """The record that begins at an offset, None when none does, or when it is not committed."""
        if self.raft is not None and phy_offset >= self.raft.committed_end:
            return None
        return self._log.record(phy_offset)

    def is_awaited(self, phy_offset: int, size: int) -> bool:
        """The message of a unit of a queue is damaged, or lost, and may be mended: see
        ``_awaited``."""
        return self.damage.is_known and self._reader.is_awaited(phy_offset, size)

    def awaits_mending(self) -> bool:
        """Something is damaged that another replica may have intact."""
        return self.damage.is_known and bool(self._awaited())

    def readable_record(self, phy_offset: int) -> bytes | None:
        """The same for somebody outside: None also for one that may not leave the broker yet."""
        return self.message_by_offset(phy_offset) if phy_offset < self.readable_end else None

    def read(self, phy_offset: int, size: int) -> bytes | None:
        """Raw bytes of the commit log (replication); None when they are not all there in one
        file."""
        return self._log.read(phy_offset, size)

    def view(self, phy_offset: int, size: int) -> memoryview | None:
        """The same without a copy, for somebody who has done with it before anything else has a
        turn: while there is a view of a file it cannot be closed.
        """
        file = self._log.file_of(phy_offset, size)
        return None if file is None else file.view(phy_offset - file.start, size)

    def bring_in(self, phy_offset: int, size: int) -> Callable[[], None] | None:
        """For bytes that may not be in memory, at most ``size`` of one file: call the result in a
        worker thread. It raises StoreFileError when the file has expired meanwhile. None when they
        are in memory, or not there.
        """
        file = self._log.file_of(phy_offset, 1)
        if file is None or file.is_in_memory(phy_offset - file.start, size):
            return None
        return partial(file.bring_in, phy_offset - file.start, size)

    def fetch_again(
        self,
        phy_offset: int,
        size: int,
        stream_from: Callable[[int], AbstractContextManager[LogStream]],
    ) -> None:
        """Put what another replica has intact in the place of something damaged (``repair``); in a
        thread. Then call ``mended``. Raises StoreError.
        """
        damaged = [(begin, begin + length) for begin, length in self.damage.places.items()]
        fetch_again(self._log, phy_offset, size, stream_from, damaged)

    def put_record_back(self, phy_offset: int, record: bytes) -> None:
        """The same with the record that another replica has there (``repair``); in a thread."""
        put_record_back(self._log, phy_offset, record)

    def mended(self, phy_offset: int, size: int) -> None:
        """Intact records are in the place of something damaged: queues that have fillers for them
        get their units. Raises StoreFileError; then it counts as damaged still."""
        data = self._log.read(phy_offset, size)
        if data is not None:
            self.replica.fill_in(data, phy_offset)
        self.damage.mend(phy_offset)

    def read_again(self) -> None:
        """What is damaged is mended, or not waited for any longer: pulls that wait there look
        again."""
        held_back, self._reader.held_back = self._reader.held_back, {}
        for queue in held_back:
            if queue.watched:
                self.arrivals.note(queue, 0, self._log.last_store_timestamp)

    # -- asking

    async def indexed(self) -> bool:
        """Return when ``query`` finds all that can be read now, or with False: see
        ``IndexingService.caught_up``."""
        return await self._index_service.caught_up()

    @property
    def last_store_timestamp(self) -> int:
        """When the last record was stored, by whoever's clock (ms); 0 before the first one."""
        return self._log.last_store_timestamp

    @property
    def log_end(self) -> int:
        """Where the next record goes, whoever has the last one by now."""
        return self._log.max_phy_offset

    def log_file_begin(self, phy_offset: int) -> int:
        """Where the file of the commit log begins that holds a byte, or will."""
        size = self._log.files.file_size
        return max(phy_offset // size * size, self._log.min_phy_offset)

    def scan_log(self) -> LogScanner:
        """To read records of the commit log in order, whatever their queues know."""
        return LogScanner(self._log, check_crc=False)

    @property
    def min_phy_offset(self) -> int:
        return self._log.min_phy_offset

    @property
    def max_phy_offset(self) -> int:
        """Where the log ends; of a member of a DLedger group, what is committed of it."""
        return self._log.max_phy_offset if self.raft is None else self.raft.readable_end

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Number of the oldest message of a queue, 0 for one that does not exist."""
        queue = self._table.get((topic, queue_id))
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Number that the next message of a queue will have, of those that may be read."""
        queue = self._table.get((topic, queue_id))
        if queue is None:
            return 0
        return queue.max_offset if self._readable is None else self._readable.end_of(queue)

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic that ever had a message here."""
        return [queue.queue_id for queue in self._queues.of_topic(topic) if queue.max_offset]

    def topics(self) -> set[str]:
        """The topics that ever had a message here."""
        return {queue.topic for queue in self._queues.all() if queue.max_offset}

    @property
    def log_folders(self) -> list[Path]:
        """Where new files of the commit log are made, sorted."""
        return self._log.files.writable

    def disk_ratios(self) -> dict[str, float]:
        """How full the disks are, 0.0 to 1.0: ``commit_log`` (of several paths the one with most
        space) and ``consume_queue``. Asks the operating system.
        """
        return {
            "commit_log": min(map(self._disk.used_ratio, self.log_folders)),
            "consume_queue": self._disk.used_ratio(self.config.root),
        }

    @property
    def gone_queues(self) -> GoneQueues:
        """Queues of which the log has nothing left: for other replicas, and from them."""
        return self._files.gone_queues

    # -- topics that are gone

    def delete_topic_in_slices(self, topic: str) -> Steps[bool]:
        """Delete the queues of a topic, so that it starts at 0 when it is made again; False when
        there were none. At a member of a group those that the log has as deleted
        (``Deletions``)."""
        return (self._queues.delete_topic if self.raft is None else self.raft.deletions.of)(topic)

    def deletable_topics(self) -> list[str]:
        """Those that have queues, without those of the system and light queues: nobody has to make
        these."""
        return sorted(
            topic
            for topic in self._queues.topics()
            if not is_system_topic(topic) and not is_lmq_topic(topic)
        )
