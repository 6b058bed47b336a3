"""Space for the commit log, made ahead and off the event loop (class AllocateMappedFileService;
``docs/design/write-order.md``).

The loop must not stall at the end of a file: the next file is made, its first part reserved and its
pages touched while the current one is still being written; and the reserve of the current file
stays some megabytes ahead of the writer.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ..disk.mapped_file import MappedFile
from ..log.commit_log import RESERVE_AHEAD, CommitLog
from ..model.config import BrokerRole, FlushDiskType, MessageStoreConfig
from ..model.errors import OutOfSpaceError, StoreFileError, SyncFailedError

log: Final = logging.getLogger(__name__)

_STEP: Final = 1 << 20
_RETRY_SECONDS: Final = 1.0


class AllocationService:
    """Serves CommitLog.want_allocation."""

    def __init__(self, commit_log: CommitLog, config: MessageStoreConfig, clock: Clock) -> None:
        self._log: Final = commit_log
        self._clock: Final = clock
        self._warm: Final = config.warm_maped_file_enable
        """The whole next file is reserved and touched ahead, not only its beginning."""
        self._touch: Final = self._warm or (
            config.broker_role is not BrokerRole.SLAVE
            and config.flush_disk_type is not FlushDiskType.SYNC_FLUSH
        )
        """For who writes through the mapping and does not sync all the time: a sync writes the
        touched pages to the disk, too, and then the first write to each is a page fault again."""
        self._lock = config.mlock_mapped_file_enable
        """What is touched is kept in memory until the file is full."""
        self._locked: Final[list[MappedFile]] = []
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-allocation")

    async def run(self) -> None:
        """Work until cancelled. A full disk is tried again every second; the writer gets its own
        error meanwhile."""
        wanted = asyncio.Event()
        wanted.set()
        self._log.want_allocation = wanted.set
        outages = Outages(self._clock)
        while True:
            await wanted.wait()
            wanted.clear()
            try:
                await self._make_room()
                outages.all_work()
            except SyncFailedError as error:  # of the folder, with names of others in it
                self._log.sync_failed(error)
            except StoreFileError as error:
                text = "no room for the commit log, trying again: %s"
                outages.fails(log, (error.problem,), text, error, level=logging.ERROR)
                await self._clock.sleep(_RETRY_SECONDS)
                wanted.set()

    async def _make_room(self) -> None:
        loop = asyncio.get_running_loop()
        await self._unlock_full_files()
        current = self._log.current
        if current is not None and current.reserved < current.size:
            ahead = self._log.max_phy_offset - current.start + RESERVE_AHEAD
            if ahead > current.reserved:
                await loop.run_in_executor(self._threads, self._extend, current, ahead)
                if self._log.current is current:
                    self._log.allocation_made()
        if self._log.spare is None:
            following = self._log.files.end
            spare = await self._make_file(following)
            if self._log.files.end == following and self._log.spare is None:
                self._log.spare = spare
            else:  # the writer was faster
                self._put_away(spare)
        elif self._warm and (spare := self._log.spare).reserved < spare.size:
            # a part at a time: the current file comes first
            await loop.run_in_executor(
                self._threads, self._extend, spare, spare.reserved + RESERVE_AHEAD
            )
        else:
            return
        if self._warm:
            self._log.want_allocation()

    async def _make_file(self, start: int) -> MappedFile:
        """On another path where its disk is full and there is one. What is deleted is not deleted
        in the thread: the writer may have begun the same file meanwhile."""
        loop = asyncio.get_running_loop()
        while True:
            file = await loop.run_in_executor(self._threads, self._log.files.make_named, start)
            try:
                await loop.run_in_executor(self._threads, self._extend, file, RESERVE_AHEAD)
            except OutOfSpaceError:
                if self._is_used(file):
                    return file
                if not self._log.files.pass_over(file):
                    raise
            else:
                return file

    def _put_away(self, file: MappedFile) -> None:
        """A spare file that is not needed: the writer has made the same one, or one on another
        path."""
        if self._is_used(file):
            file.close()
        else:
            file.delete()

    def _is_used(self, file: MappedFile) -> bool:
        """The writer has made the same one, on the same path."""
        others = (*self._log.files.files, self._log.spare)
        return any(other is not None and other.path == file.path for other in others)

    async def _unlock_full_files(self) -> None:
        full = [file for file in self._locked if file.end <= self._log.base]
        for file in full:
            self._locked.remove(file)
            await asyncio.get_running_loop().run_in_executor(self._threads, file.unlock)

    # -- in the thread

    def _extend(self, file: MappedFile, upto: int) -> None:
        """Reserve and touch, in steps: a page fault of the writer waits while the system reserves
        space in the same file. Who does not write through the mapping has none."""
        step = _STEP if self._touch or self._lock else file.size
        for at in range(file.reserved, min(upto, file.size), step):
            file.reserve(min(at + step, upto))
            if self._touch:
                file.touch(at, file.reserved)
            if self._lock:
                self._lock_part(file, at)

    def _lock_part(self, file: MappedFile, start: int) -> None:
        try:
            file.lock(start, file.reserved)
        except StoreFileError as error:
            self._lock = False
            log.warning(
                "mlockMappedFileEnable has no effect: %s. Raise the limit of locked memory "
                "(ulimit -l, LimitMEMLOCK=) to "
                "twice mappedFileSizeCommitLog, or set it to false",
                error,
            )
        else:
            if file not in self._locked:
                self._locked.append(file)

    def close(self) -> None:
        """Wait for the thread."""
        self._log.want_allocation = lambda: None
        self._threads.shutdown(wait=True)
