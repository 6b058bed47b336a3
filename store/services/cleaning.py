"""Deleting what has expired, off the event loop (classes CleanCommitLogService,
CleanConsumeQueueService; commitlog.md §12).

``retention`` decides, this does. Queues forget first what the oldest file of the commit log has, so
that none of them says that it keeps what a reader does not find. Then the file leaves the sequence,
on the event loop: from then on no reader finds it. Then a worker thread unmaps and unlinks it. That
fails while somebody holds a view of it: the file waits until they let go, and so do all behind it,
for there must never be a hole between the files on the disk. Files of consume queues and index
about records that are gone go next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from ...remoting.clock import Clock, pause
from ...remoting.outages import Outages
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.slices import slices
from ..disk.disk import Disk
from ..disk.mapped_file import MappedFile
from ..log.commit_log import CommitLog
from ..model.config import CQ_UNIT_SIZE, MessageStoreConfig
from ..model.errors import StoreError, StoreFileError, SyncFailedError, translated
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queues import ConsumeQueues, find_min_offsets
from .retention import MANUAL_ROUNDS, MAX_FILES_PER_ROUND, UNKNOWN_RATIO, DiskUse, Rules, Space

log: Final = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_ROUND_SECONDS: Final = 60.0
_FIRST_LOOK_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 10.0
_SHORTEST_SECONDS: Final = 0.1
_QUEUES_AT_ONCE: Final = 256
"""The way to the thread and back takes as long as looking at ten of them. So many take it some
milliseconds, and the event loop a tenth of that."""
_LEFT: Final = ("left",)


class CleaningService:
    """Deletes expired files and watches the disk."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        config: MessageStoreConfig,
        disk: Disk,
        clock: Clock,
    ) -> None:
        """Raises StoreConfigError."""
        self.on_space: Callable[[Space, DiskUse], None] = lambda _space, _use: None
        """Called with what the disks look like, whenever they were looked at."""
        self.drop_expired_index: Callable[[int], list[MappedFile]] = lambda _min_phy_offset: []
        """Takes the files out of the index that know nothing above a physical offset, and hands
        them over."""
        self.on_left: Callable[[], None] = lambda: None
        """Called when the commit log has lost its first file, which may be on the disk still. Again
        where it raises StoreError."""
        self.on_deleted: Callable[[], None] = lambda: None
        """Called when that is off the disk. May raise StoreError."""
        self.forget_before: Callable[[int], None] = lambda _min_phy_offset: None
        """Called with where the log begins now; in memory."""
        self.on_queue_deleted: Final[list[Callable[[str, int], None]]] = []
        """Called in turn with topic and id of a queue that had expired."""
        self.may_delete: Callable[[ConsumeQueue], bool] = lambda _queue: True
        """Nothing is on its way into a queue."""
        self.needed_from: Callable[[], int] = lambda: commit_log.flushed_offset
        """A file that reaches so far stays."""
        self._log: Final = commit_log
        self._queues: Final = queues
        self._config: Final = config
        self._rules = Rules.of(config)
        self._disk: Final = disk
        self._clock: Final = clock
        self._manual_rounds = 0
        self._is_told = True
        """``on_left`` has heard of what left last."""
        self._followed = 0
        """Queues and index have nothing below this physical offset any more."""
        self._cleaning: Final = asyncio.Lock()
        self._outages: Final = Outages(clock)
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-cleaning")

    # -- the service

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._clean_by_interval())
            group.create_task(self._look_by_interval())

    async def _clean_by_interval(self) -> None:
        await self._clock.sleep(_FIRST_ROUND_SECONDS)
        while True:
            await self.clean()
            await pause(self._clock, self._interval_s)

    def _interval_s(self) -> float:
        return max(self._config.clean_resource_interval / 1000, _SHORTEST_SECONDS)

    async def _look_by_interval(self) -> None:
        await self._clock.sleep(_FIRST_LOOK_SECONDS)
        while True:
            await self.look()
            await self._clock.sleep(_LOOK_SECONDS)

    def reconfigure(self) -> None:
        """The configuration has changed. Raises StoreConfigError."""
        self._rules = Rules.of(self._config)

    def close(self) -> None:
        """Wait for the thread."""
        self._threads.shutdown(wait=True)

    def clean_at_any_hour(self) -> None:
        """In the next rounds expired files of the commit log go whatever the hour (request 329)."""
        self._manual_rounds = MANUAL_ROUNDS

    async def look(self) -> Space:
        """How scarce the disks are now."""
        use = await self._in_thread(self._disk_use)
        space = self._rules.space(use)
        self.on_space(space, use)
        return space

    async def clean(self) -> None:
        """One round: the commit log, then what depends on it."""
        async with self._cleaning:
            await self._clean_log()
            await self._follow_log()

    # -- commit log

    async def _clean_log(self) -> None:
        manual = self._manual_rounds > 0
        self._manual_rounds -= manual
        if not self._is_told:
            self._tell_left()
        if self._log.leaving is not None and not await self._delete(self._log.leaving):
            return
        for number in range(MAX_FILES_PER_ROUND):
            if number:
                await pause(self._clock, self._between_log_files_s)
            space = (
                await self.look()
            )  # each time: files before their time only go as long as it is necessary
            if not self._rules.due(self._local_hour(), space, manual=manual):
                return
            file = await self._take_expired(space)
            if file is None or not await self._delete(file):
                return

    async def _take_expired(self, space: Space) -> MappedFile | None:
        """The oldest file, taken out of the log, if its time is over."""
        file = self._oldest()
        if file is None:
            return None
        try:
            modified_ms = await self._in_thread(self._modified_ms, file, self._log.files.files[1])
        except StoreFileError as error:
            self._complain(error)
            return None
        if not self._rules.expired(modified_ms, self._clock.time_ms(), space):
            return None
        if self._oldest() is file:
            for queues in self._in_slices():
                await self._forget_in_queues(queues, file.end)
        if self._oldest() is not file:  # the log has begun anew meanwhile
            return None
        self._log.drop_first()
        self._tell_left()
        return file

    async def _forget_in_queues(
        self, queues: Sequence[ConsumeQueue], min_phy_offset: int
    ) -> list[ConsumeQueue]:
        """Those that cannot be looked at: they do later, nobody can read there."""
        begins = [(queue.files.files[:1], queue.min_offset) for queue in queues]
        found = await self._in_thread(find_min_offsets, queues, min_phy_offset)
        failed = []
        for queue, begin, offset in zip(queues, begins, found, strict=True):
            if not self._is_there(queue):
                continue
            if isinstance(offset, StoreFileError):
                self._complain(offset)
                failed.append(queue)
            elif (queue.files.files[:1], queue.min_offset) == begin:  # or it has begun anew
                queue.min_offset = offset
        return failed

    def _modified_ms(self, file: MappedFile, following: MappedFile) -> int:
        """As in the original a file that is gone, deleted by hand mostly, to have space, is as old
        as can be; not where the next one is gone as well: the folder may be elsewhere. Raises
        StoreFileError."""
        try:
            return file.modified_ms()
        except StoreFileError:
            with translated(file.path, "cannot be looked at"):
                is_gone = not self._disk.exists(file.path) and self._disk.exists(following.path)
            if not is_gone:
                raise
            log.warning("%s is gone, the commit log can begin behind it", file.path)
            return 0

    def _oldest(self) -> MappedFile | None:
        """The oldest file, if it is not the last one, and something of the next one is on the
        disk."""
        files = self._log.files.files
        return files[0] if len(files) > 1 and files[0].end < self.needed_from() else None

    def _tell_left(self) -> None:
        """At once: a file that cannot be deleted may be on the disk for long."""
        try:
            self.on_left()
        except StoreError as error:
            self._is_told = False
            text = "it is not known with what the log begins now, tried again: %s"
            self._outages.fails(log, _LEFT, text, error, level=logging.ERROR)
        else:
            self._is_told = True
            self._outages.works(_LEFT)

    async def _delete(self, file: MappedFile) -> bool:
        try:
            await self._delete_all_in_order([file])
        except StoreFileError as error:
            self._complain(error)
            return False
        self._log.leaving = None
        try:
            self.on_deleted()
        except StoreError as error:  # the next one that is deleted takes that along
            log.error("what belongs to a deleted file of the log is there still: %s", error)
        log.info("deleted %s, the commit log begins at %d", file.path, self._log.min_phy_offset)
        return True

    # -- what depends on it

    async def _follow_log(self) -> None:
        """Queues and index forget the records that are gone, if any went since the last time."""
        min_phy_offset = self._log.min_phy_offset
        if min_phy_offset <= self._followed:
            return
        self.forget_before(min_phy_offset)
        done = True
        for queues in self._in_slices():
            failed = await self._forget_in_queues(queues, min_phy_offset)
            done = done and not failed
            for queue in queues:
                try:
                    if queue not in failed and self._is_there(queue):
                        await self._delete_expired(queue)
                except StoreFileError as error:
                    if self._is_there(queue):
                        self._complain(error)
                        done = False
        try:
            await self._in_thread(_delete_all, self.drop_expired_index(min_phy_offset))
        except (
            StoreFileError
        ) as error:  # they are not found any more, and tried again after the next start
            self._complain(error)
        if done:
            self._followed = min_phy_offset

    async def _delete_expired(self, queue: ConsumeQueue) -> None:
        """The files of messages that it has forgotten. Raises StoreFileError."""
        expired = [
            file for file in queue.files.files[:-1] if file.end <= queue.min_offset * CQ_UNIT_SIZE
        ]
        if expired:
            try:
                await self._delete_all_in_order(expired)
            finally:
                queue.files.drop_deleted()
            await pause(self._clock, self._between_queues_s)
        if queue.ext is not None and (unused := queue.ext.expired(queue.first_ext_address())):
            try:
                await self._delete_all_in_order(unused)
            finally:
                queue.ext.files.drop_deleted()

    async def delete_expired_queues(self) -> list[str]:
        """Delete the queues that have no message left, so that they start at 0 again (request 306);
        returns their names.

        Those that never had one stay, and so do those of the schedule topic and those that somebody
        waits at.
        """
        async with self._cleaning:
            deleted = []
            for queue in self._queues.all():
                end = queue.max_offset
                if end == 0 or queue.watched or queue.topic == TopicName.SCHEDULE:
                    continue
                try:
                    expired = (
                        await self._in_thread(queue.find_min_offset, self._log.min_phy_offset)
                        == end
                    )
                except StoreFileError as error:
                    if self._is_there(queue):
                        self._complain(error)
                    continue
                if (
                    expired
                    and self._is_there(queue)
                    and queue.max_offset == end
                    and not queue.watched
                    and self.may_delete(queue)
                ):
                    self._queues.delete(queue)
                    for listener in self.on_queue_deleted:
                        listener(queue.topic, queue.queue_id)
                    deleted.append(f"{queue.topic}-{queue.queue_id}")
            return deleted

    # -- small things

    def _in_slices(self) -> Iterator[list[ConsumeQueue]]:
        return slices(self._queues.all(), _QUEUES_AT_ONCE)

    async def _delete_all_in_order(self, files: Sequence[MappedFile]) -> None:
        try:
            await self._in_thread(self._delete_in_order, files)
        except SyncFailedError as error:  # of the folder, with names of new files in it
            self._log.sync_failed(error)
            raise
        for file in files:
            self._outages.all_work(file.path)

    def _delete_in_order(self, files: Iterable[MappedFile]) -> None:
        """One is gone for good before the next one goes, or a power failure could bring back some
        and leave a hole."""
        for file in files:
            file.delete()
            self._disk.sync_directory(file.path.parent)

    def _is_there(self, queue: ConsumeQueue) -> bool:
        """The queue was not deleted while a thread was busy with it."""
        return self._queues.get(queue.topic, queue.queue_id) is queue

    def _local_hour(self) -> int:
        return time.localtime(self._clock.time_ms() / 1000).tm_hour

    def _disk_use(self) -> DiskUse:
        root = self._config.root
        return DiskUse(
            self._log_ratio(),
            self._used_ratio(root / "consumequeue", root),
            self._used_ratio(root / "index", root),
        )

    def _log_ratio(self) -> float:
        """Of several paths the one with most space counts; those above 85 % get no new files."""
        files = self._log.files
        ratios = {path: self._used_ratio(path) for path in files.writable}
        files.full = frozenset(path for path, ratio in ratios.items() if ratio > self._rules.urgent)
        return min(ratios.values())

    def _used_ratio(self, *paths: Path) -> float:
        """Of the first path that is there."""
        for path in paths:
            try:
                return self._disk.used_ratio(path)
            except OSError:
                continue
        return UNKNOWN_RATIO

    def _complain(self, error: StoreFileError) -> None:
        """It is tried again in every round."""
        cause = error.path, error.problem
        self._outages.fails(log, cause, "not deleted, tried again: %s", error)

    def _between_log_files_s(self) -> float:
        return self._config.delete_commit_log_files_interval / 1000

    def _between_queues_s(self) -> float:
        return self._config.delete_consume_queue_files_interval / 1000

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)


def _delete_all(files: Iterable[MappedFile]) -> None:
    for file in files:
        file.delete()
