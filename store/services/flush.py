"""Getting written bytes onto the disk, off the event loop (classes FlushRealTimeService,
GroupCommitService, FlushConsumeQueueService).

Order is everything: commit log first, then consume queues and index, then the checkpoint that
claims them. What it claims is measured before the syncs begin, so it can say less than what is on
the disk, never more.

What fails because the system is short of something, or forbids it, is put off and tried again;
while that is the commit log, messages are refused. A sync that failed is the end (``errors``).

One file, though over 400 lines: who waits for a sync decides when the next one begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ...remoting.clock import Clock, pause
from ...remoting.outages import Outages, without_figures
from ..files import StoreFiles
from ..index.index_files import SyncWork
from ..model.config import CQ_UNIT_SIZE, FlushDiskType, MessageStoreConfig
from ..model.errors import StoreError, StoreFileError, SyncFailedError
from ..queues.consume_queue import ConsumeQueue
from ..queues.queue_ends import Snapshot
from .sync_rounds import SyncRounds

log: Final = logging.getLogger(__name__)

_PAGE: Final = 4096
_TIMEOUT_STEP_SECONDS: Final = 0.1
_FAST_SECONDS: Final = 200e-6
_FAST_SYNCS: Final = 3
"""After so many fast syncs in a row the disk counts as fast."""
_SHORTEST_SECONDS: Final = 0.001
"""An interval of 0 would keep a core busy."""
_RETRY_SECONDS: Final = 0.5
_LOG: Final = "the commit log"
_DERIVED: Final = "what belongs to the commit log (consume queues, index, checkpoint)"


class FlushService:
    """Syncs by interval and on demand. One sync of the commit log is in flight at a time; who comes
    meanwhile shares the next.
    """

    def __init__(
        self,
        files: StoreFiles,
        config: MessageStoreConfig,
        clock: Clock,
    ) -> None:
        self._log: Final = files.log
        self._queues: Final = files.queues
        self._checkpoint: Final = files.checkpoint
        self._ends: Final = files.ends
        self._damage: Final = files.damage
        self._damage_file: Final = files.damage_file
        self._index: Final = files.index
        self._indexing: Final = files.indexing
        self._config: Final = config
        self._clock: Final = clock
        self.dispatched: Callable[[], tuple[int, int]] = self._whole_log
        """Up to where every record has its units, and when the last one there was stored: what a
        checkpoint may claim."""
        self.broken: StoreError | None = None
        """Why a sync failed. From then on nothing is claimed any more: the system forgets what it
        could not write and the next sync would lie."""
        self.on_broken: Callable[[StoreError], None] = _log_broken
        self.on_put_off: Callable[[StoreError | None], None] = lambda _error: None
        """Called with the error when the commit log cannot be synced just now, with None when it
        can again."""
        self._put_off: Final[set[str]] = set()
        """What could not be synced the last time."""
        self._outages: Final = Outages(clock)
        """Of the thread."""
        self.due: bool = False
        """Everything is to be synced in the next round, whatever the interval."""
        sync_flush = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._always_due: Final = config.hands_out_only_synced
        """Nobody may read what is not synced."""
        self._rounds = SyncRounds(lambda: self.waiting, clock) if sync_flush else None
        self._waiters: Final[deque[tuple[int, float, Callable[[bool], None]]]] = deque()
        """Position to be on the disk, when the wait began, whom to tell; the oldest first, and so
        are positions."""
        self._readers: Final[deque[tuple[int, Callable[[], None]]]] = deque()
        """The same for who reads, and for whom nobody waits."""
        self._waits_ms: dict[int, int] = {}
        self._wanted: asyncio.Event | None = None
        self._waited: asyncio.Event | None = None
        """Somebody has begun to wait: time has to be watched."""
        self._fast_syncs = 0
        """How many of the last syncs of the commit log were fast, without a slow one between."""
        self._busy = 0
        """Calls that the thread has not finished."""
        self._everything: Final = asyncio.Lock()
        """What one round has taken, and not yet synced, another one must not claim."""
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-flush")
        self._log.sync_failed = self._has_failed

    # -- on demand

    @property
    def waiting(self) -> int:
        """How many messages wait for the disk now."""
        return len(self._waiters)

    def when_flushed(self, phy_offset: int, done: Callable[[bool], None]) -> None:
        """Group commit: ``done(True)`` when everything below ``phy_offset`` (``result.phy_offset +
        result.size``) is on the disk, ``done(False)`` after ``sync_flush_timeout``:
        FLUSH_DISK_TIMEOUT. Perhaps at once. No task and no future: a group completes in one go."""
        if phy_offset <= self._log.flushed_offset or self.broken is not None:
            done(phy_offset <= self._log.flushed_offset)
            return
        if not self._waiters and self._wanted is not None and self._waited is not None:
            self._wanted.set()  # who completes waiters looks whether some are left
            self._waited.set()
        self._waiters.append((phy_offset, self._clock.monotonic(), done))

    def when_synced(self, done: Callable[[], None]) -> None:
        """Call ``done`` when all that is written by now is on the disk, for which it is synced
        soon; never when that fails for good. Perhaps at once."""
        if not self._is_unsynced:
            done()
        elif self.broken is None:
            self._readers.append((self._log.max_phy_offset, done))
            self.sync_soon()

    def sync_soon(self) -> None:
        """Somebody wants what is written by now, and nobody waits for it."""
        if self._wanted is not None and self.broken is None:
            self._wanted.set()

    @property
    def _is_unsynced(self) -> bool:
        return self._log.flushed_offset < self._log.max_phy_offset

    def _is_on_disk(self, phy_offset: int) -> None:
        """All below, now. Who reads is told once those who wait have been."""
        self._log.flushed_offset = max(self._log.flushed_offset, phy_offset)
        if self._readers:
            asyncio.get_running_loop().call_soon(self._tell_readers)

    def _tell_readers(self) -> None:
        while self._readers and self._readers[0][0] <= self._log.flushed_offset:
            self._readers.popleft()[1]()

    def _complete(self) -> int:
        """Tell those who need not wait any more; how many messages that are."""
        flushed, now, waiters, waits_ms = (
            self._log.flushed_offset,
            self._clock.monotonic(),
            self._waiters,
            self._waits_ms,
        )
        overdue, completed = now - self._config.sync_flush_timeout / 1000, 0
        while waiters:
            phy_offset, began, done = waiters[0]
            if phy_offset > flushed and began > overdue and self.broken is None:
                break
            waiters.popleft()
            completed += 1
            waited_ms = int((now - began) * 1000)
            waits_ms[waited_ms] = waits_ms.get(waited_ms, 0) + 1
            done(phy_offset <= flushed)
        return completed

    @property
    def oldest_wait_s(self) -> float:
        """How long the first of them has waited; 0 when nobody does."""
        return self._clock.monotonic() - self._waiters[0][1] if self._waiters else 0.0

    def take_waits_ms(self) -> dict[int, int]:
        """Whole milliseconds to how many waited so long, since this was asked last."""
        waits, self._waits_ms = self._waits_ms, {}
        return waits

    # -- the service

    async def run(self) -> None:
        """Work until cancelled."""
        self._wanted, self._waited = asyncio.Event(), asyncio.Event()
        if self._waiters or self._readers:
            self._wanted.set()
            self._waited.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._serve_waiters(self._wanted))
                group.create_task(self._watch_timeouts(self._waited))
                group.create_task(self._sync_log_by_interval())
                group.create_task(self._sync_queues_by_interval())
        finally:
            self._wanted = self._waited = None

    async def _serve_waiters(self, wanted: asyncio.Event) -> None:
        while True:
            await wanted.wait()
            wanted.clear()
            if not self._is_unsynced:
                self._complete()
                continue
            if self.waiting <= 1 and self._fast_syncs >= _FAST_SYNCS and not self._busy:
                self._sync_log_here()
                self._complete()
            else:
                await self._serve_round(self._rounds)
            if _LOG in self._put_off:
                await self._clock.sleep(_RETRY_SECONDS)
            if self._waiters or (self._readers and self.broken is None):
                wanted.set()

    async def _serve_round(self, rounds: SyncRounds | None) -> None:
        if rounds is None:
            await self.sync_log()
            self._complete()
            return
        completed, began = 0, self._clock.monotonic()
        try:
            await self.sync_log()
            completed = self._complete()
        finally:
            await rounds.end(completed, self._clock.monotonic() - began)

    async def _watch_timeouts(self, waited: asyncio.Event) -> None:
        """A sync that hangs must not hold back the answer FLUSH_DISK_TIMEOUT."""
        while True:
            await waited.wait()
            waited.clear()
            while self._waiters:
                await self._clock.sleep(_TIMEOUT_STEP_SECONDS)
                self._complete()

    async def _sync_log_by_interval(self) -> None:
        config = self._config
        last = self._clock.monotonic()
        while True:
            await pause(self._clock, lambda: _interval_s(config.flush_interval_commit_log))
            now, thorough = (
                self._clock.monotonic(),
                config.flush_commit_log_thorough_interval / 1000,
            )
            written, flushed = self._log.max_phy_offset, self._log.flushed_offset
            enough = written // _PAGE - flushed // _PAGE >= config.flush_commit_log_least_pages
            due = self._always_due or enough or flushed < self._log.base or now - last >= thorough
            if (written > flushed and due) or _LOG in self._put_off:
                last = now
                await self.sync_log()

    async def _sync_queues_by_interval(self) -> None:
        config = self._config
        last = self._clock.monotonic()
        synced: tuple[int, ...] = ()  # where all was when queues were synced: an idle store rests
        while True:
            await pause(self._clock, lambda: _interval_s(config.flush_interval_consume_queue))
            now, thorough = (
                self._clock.monotonic(),
                config.flush_consume_queue_thorough_interval / 1000,
            )
            written = self._log.max_phy_offset, *self.dispatched()
            least = config.flush_consume_queue_least_pages * _PAGE // CQ_UNIT_SIZE
            if now - last >= thorough or self.due or _DERIVED in self._put_off:
                last, self.due = now, False
                await self.sync_everything()
            elif (written != synced or self._queues.lacks_folder_sync) and await self._in_thread(
                _DERIVED, self._sync_dirty_queues, self._queues.all(), least
            ):
                synced = written

    async def sync_log(self) -> bool:
        """Sync the commit log up to its end of this moment; whether that was possible. A failure is
        kept in ``broken``, or put off."""
        target, cuts = self._log.max_phy_offset, self._log.cuts
        good = await self._in_thread(_LOG, self._sync_files, self._log.flushed_offset, target)
        if good and cuts == self._log.cuts:
            self._is_on_disk(target)
        return good

    def _sync_log_here(self) -> None:
        """On the event loop: for one waiter and a fast disk the way to the thread and back takes
        longer than the sync."""
        target = self._log.max_phy_offset
        if self._guarded(_LOG, self._sync_files, self._log.flushed_offset, target):
            self._is_on_disk(target)

    async def sync_everything(self) -> bool:
        """Sync log and queues up to this moment, then write the checkpoint, one round at a time;
        whether that was possible. A failure is kept in ``broken``, or put off."""
        async with self._everything:
            return await self._sync_everything()

    async def _sync_everything(self) -> bool:
        self._indexing.step()  # what still waits then is not claimed
        end, timestamp = self.dispatched()
        target, damaged = self._claimed(end), self._damage.places
        ends = self._ends.snapshot(self._queues.all())
        for _ in ends.steps():
            await asyncio.sleep(0)
        index = self._index.sync_work()
        work = self._queues.all(), index, target, timestamp, ends, damaged
        good = False
        try:
            good = await self.sync_log() and await self._in_thread(
                _DERIVED, self._sync_queues_and_checkpoint, *work
            )  # the log first: all that the snapshot knows
        finally:
            if not good:  # also where this is cancelled: whoever closes syncs what is left
                self._index.take_back(index)
        return good

    def end_waits(self) -> None:
        """Nobody waits for the disk any more; blocks. Who is told may store what follows from it,
        so this comes before the store takes nothing more."""
        if self._waiters:
            self._threads.shutdown(wait=True)
            self.save_log()
            self._complete()

    def close(self) -> bool:
        """Sync everything and write the checkpoint; blocks. False when something could not be
        synced."""
        self._threads.shutdown(wait=True)
        good = self.save()
        self._complete()
        return good

    def save(self) -> bool:
        """The same while nobody else works: at the end of a recovery, or of everything."""
        good = self.save_log()
        if good:
            end, timestamp = self.dispatched()
            target, damaged = self._claimed(end), self._damage.places
            index, queues = self._index.sync_work(), self._queues.all()
            ends = self._ends.snapshot(queues)
            for _ in ends.steps():
                pass
            work = queues, index, target, timestamp, ends, damaged
            good = self._guarded(_DERIVED, self._sync_queues_and_checkpoint, *work)
            if not good:
                self._index.take_back(index)
        return good

    def save_log(self) -> bool:
        """The same for the commit log alone."""
        target = self._log.max_phy_offset
        good = self._guarded(_LOG, self._sync_files, self._log.flushed_offset, target)
        if good:
            self._log.flushed_offset = target
        return good

    def _whole_log(self) -> tuple[int, int]:
        return self._log.max_phy_offset, self._log.last_store_timestamp

    def _claimed(self, end: int) -> int:
        """Up to where everything dispatched is in the index too, in front of a record's head."""
        position = self._indexing.position(end)
        return position if position == end else position - self._log.head_at(position)

    async def _in_thread(self, what: str, function: Callable[..., None], *args: object) -> bool:
        self._busy += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._guarded, what, function, *args
            )
        finally:
            self._busy -= 1

    def _guarded(self, what: str, function: Callable[..., None], *args: object) -> bool:
        """Run one sync, if none has failed; True when it succeeded."""
        if self.broken is not None:
            return False
        try:
            function(*args)
        except SyncFailedError as error:
            self._has_failed(error)
            return False
        except StoreFileError as error:
            self._is_put_off(what, error)
            return False
        if what in self._put_off:
            self._put_off.discard(what)
            self._outages.all_work(what)
            if what == _LOG:
                self.on_put_off(None)
        return True

    def _has_failed(self, error: SyncFailedError) -> None:
        self.broken = error
        self.on_broken(error)

    def _is_put_off(self, what: str, error: StoreFileError) -> None:
        self._put_off.add(what)
        cause = what, without_figures(str(error))
        text = "not synced, tried again until it works: %s: %s"
        self._outages.fails(log, cause, text, what, error, level=logging.ERROR)
        if what == _LOG:
            self.on_put_off(error)

    def _took(self, seconds: float) -> None:
        """A sync of the commit log did."""
        self._fast_syncs = self._fast_syncs + 1 if seconds < _FAST_SECONDS else 0

    # -- in the thread

    def _sync_files(self, begin: int, end: int) -> None:
        files = self._log.files
        started = self._clock.monotonic()
        for file in tuple(files.files):
            if file.end > begin and file.start < end:
                file.sync(max(begin - file.start, 0), min(end - file.start, file.size))
        if begin < end:
            self._took(self._clock.monotonic() - started)
        if files.new_files:
            files.sync_directory()

    @staticmethod
    def _dirty(queues: list[ConsumeQueue], least_units: int) -> list[ConsumeQueue]:
        return [queue for queue in queues if queue.max_offset - queue.flushed_offset >= least_units]

    def _sync_dirty_queues(self, queues: list[ConsumeQueue], least_units: int) -> None:
        self._queues.sync(self._dirty(queues, least_units))

    def _sync_queues_and_checkpoint(
        self,
        queues: list[ConsumeQueue],
        index: SyncWork,
        target: int,
        timestamp: int,
        ends: Snapshot,
        damaged: dict[int, int],
    ) -> None:
        """``damaged``: places of the log, from before all this was looked at."""
        self._queues.sync(queues)
        self._index.sync(index)
        if index.complete_until:
            self._checkpoint.index_msg_timestamp = index.complete_until
        # A start does not read in front of this one. What is mended since may have its units in
        # memory only: it is asked for once more then.
        self._damage_file.save(damaged | self._damage.places)
        if target > (flushed := self._log.flushed_offset):  # it was taken back meanwhile
            raise StoreFileError(
                self._checkpoint.path,
                f"cannot claim what lies below {target}: the log is on the disk up to {flushed}",
            )
        self._checkpoint.physic_msg_timestamp = timestamp
        self._checkpoint.logics_msg_timestamp = timestamp
        self._checkpoint.safe_phy_offset = target
        self._checkpoint.save()
        self._ends.save(ends, self._checkpoint, self._config.consume_queue_file_size, index.ranges)


def _interval_s(configured_ms: int) -> float:
    return max(configured_ms / 1000, _SHORTEST_SECONDS)


def _log_broken(error: StoreError) -> None:
    log.critical(
        "the disk failed, nothing is stored any more until the broker is restarted: %s", error
    )
