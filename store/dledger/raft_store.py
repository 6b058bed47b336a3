"""What a member of a DLedger group keeps, and what its role makes of it (class DLedgerCommitLog;
dledger.md §5.2).

The log holds entries, committed or not. Queues, index and readers know of committed ones only: a
leader and a follower alike take the records of the entries between the last commit and the new one
out of the log (``committed``), and give them units and index items, as a slave does. So nothing
can be read that may be taken back, and a truncation never touches a queue. What a leader puts gets
its numbers from ``QueueNumbers`` meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages, without_figures
from ...remoting.protocol.bodies.dledger import Entry
from ..log.commit_log import CommitLog
from ..log.entry_index import EntryIndex
from ..log.entry_log import DledgerLog
from ..model.dispatch_request import requests_of
from ..model.errors import StoreError, StoreFileError
from ..model.status import PutResult, PutStatus
from ..put.append_notice import AppendNotice
from ..put.message_writer import refused
from ..put.multi_dispatch import DispatchRules, named_requests
from ..put.queue_numbers import QueueNumbers
from ..queues.consume_queue import ConsumeQueue
from ..raft.entry_log import CommittedConflict, EntryLogError
from ..raft.ready import HardState
from .committed import CommittedRecords, log_parts
from .deletions import Deletions
from .mending import DamagedEntry, entries_in, index_at, put_right
from .state_files import MemberFiles

log: Final = logging.getLogger(__name__)

_MOST_UNINDEXED: Final = 100_000
"""Keys: who dispatches much faster than the index is built has to wait."""
_MOST_LAG: Final = 1 << 20
"""Bytes that are committed and in no queue yet: with more of them no term is begun."""
_MOST_ENDS: Final = 4096
"""More appends than a leader has under way to its followers."""
_GATHER_SECONDS: Final = 0.01
"""So long a follower collects what is committed before it puts it into queues: for that few
messages cost as much as many, and only those wait for them who read at a follower."""
_SAVE_SECONDS: Final = 3.0
_RETRY_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.01
BUSY: Final = PutResult(
    PutStatus.OS_PAGECACHE_BUSY,
    remark="[PC_SYNCHRONIZED]broker busy, start flow control for a while",
)
"""What the original answers whenever a member takes nothing that is no follower (§5.3)."""
FOLLOWS: Final = refused("this broker follows: messages are put to the slave")


class MemberPuts:
    """What the writer of a member has in the place of consume queues and index."""

    def __init__(self, queues: Mapping[tuple[str, int], ConsumeQueue]) -> None:
        self.numbers: Final = QueueNumbers(queues)
        self.notice: Final = AppendNotice()


class MemberLog(DledgerLog):
    """Tells when it begins anew, and remembers where appends have ended: mostly such ends are what
    is committed next."""

    def __init__(self, commit_log: CommitLog, index: EntryIndex, outages: Outages) -> None:
        super().__init__(commit_log, index, outages)
        self.on_begun: Callable[[int], None] = lambda _phy_offset: None
        self.failed: Callable[[], StoreError | None] = lambda: None
        """Why its disk loses what is written, if it does: from then on it takes no leader's
        entries, or a majority would be none."""
        self.committed: Callable[[], int] = lambda: -1
        """Up to which entry nothing may be taken back."""
        self._ends: Final[deque[tuple[int, int]]] = deque(maxlen=_MOST_ENDS)

    def mark(self) -> None:
        """Remember the end as it is."""
        self._ends.append((self.end_index, self.log.max_phy_offset))

    def end_of(self, index: int) -> int:
        """As ``DledgerLog.end_of``; what lies in front of ``index`` is not asked for again."""
        ends = self._ends
        while ends and ends[0][0] <= index:
            marked, end = ends.popleft()
            if marked == index:
                return end
        return super().end_of(index)

    def append(self, entries: Sequence[Entry]) -> None:
        if (error := self.failed()) is not None:
            raise EntryLogError(f"the disk failed: {error}")
        super().append(entries)
        self.mark()

    def truncate(self, end_index: int) -> None:
        """As ``DledgerLog.truncate``. Raises CommittedConflict."""
        self._must_be_open(end_index + 1)
        self._ends.clear()
        super().truncate(end_index)

    def _must_be_open(self, index: int) -> None:
        if index <= (committed := self.committed()):
            raise CommittedConflict(
                f"entry {index} cannot be taken back: entries up to {committed} are committed, and "
                "may have been read"
            )

    def begin_with(self, entry: Entry) -> None:
        """As ``DledgerLog.begin_with``. Raises CommittedConflict."""
        self._must_be_open(entry.index)
        self.check_first(entry)  # before anything goes
        self._ends.clear()
        try:
            self.on_begun(entry.pos)
        except StoreFileError as error:
            raise EntryLogError(str(error)) from error
        super().begin_with(entry)


class RaftStore:
    """One thread calls it, but for what blocks: that is said there."""

    def __init__(
        self,
        entries: MemberLog,
        files: MemberFiles,
        puts: MemberPuts,
        committed: CommittedRecords,
        deletions: Deletions,
        rules: DispatchRules | None,
        clock: Clock,
    ) -> None:
        self.deletions: Final = deletions
        self.log: Final = entries
        """For ``Member``."""
        self.files: Final = files
        """What is kept besides: term and vote, whether it votes."""
        self.committed_index: int = -1
        """As far as this member knows; what can be read may lag behind (``lag``)."""
        self.refuse: Callable[[PutResult | None], None] = lambda _refusal: None
        """Sets what puts are answered, None: they are taken. A leader that hands over refuses them
        with ``BUSY``, and takes them again where that fails."""
        self.on_readable: list[Callable[[], None]] = []
        """Called when more can be read."""
        self.on_new_log: Callable[[int], None] = lambda _phy_offset: None
        """Called when the log begins anew at an offset, and has none of the messages that there
        are."""
        self._numbers: Final = puts.numbers
        self._notice: Final = puts.notice
        self._committed: Final = committed
        self._rules: Final = rules
        self._clock: Final = clock
        self._due_index: int = -1
        """Committed, but not looked at yet, or where it ends could not be read, while
        ``committed_index`` is less."""
        self._wanted: asyncio.Event | None = None
        self._leads = False
        self._stuck = False
        self._outages: Final = Outages(clock)
        self._votes: Final = ThreadPoolExecutor(1, "member-votes")
        self._notes: Final = ThreadPoolExecutor(1, "member-notes")
        """Apart, for an election does not wait for a slow sync of other files."""
        entries.on_begun = self._begin_anew
        entries.committed = lambda: max(self.committed_index, self._due_index)

    def opened(self, end: int, last_store_timestamp: int) -> None:
        """Queues and index are complete up to a position."""
        self._committed.begin(end, last_store_timestamp)
        self.undecided()

    def _begin_anew(self, phy_offset: int) -> None:
        """The log is about to become one entry of a leader. Raises StoreFileError."""
        if phy_offset != self._committed.end:
            self.on_new_log(phy_offset)
        self.committed_index = self._due_index = -1
        self.deletions.forget()
        self._committed.begin(phy_offset, 0)

    # -- roles

    def lead(self, term: int) -> None:
        """Puts are taken from now on, in this term. Raises StoreError: not yet."""
        if self._due_index > self.committed_index:
            self._dispatch_one()
        if self._committed.lag > _MOST_LAG:  # all of that would be looked through in this turn
            raise StoreError("what is committed is not in the queues yet, it begins then")
        self._numbers.clear()
        self._count_uncommitted()
        self._leads = True
        self.log.begin_term(term)
        self._notice.idle = True
        self.refuse(None)

    def follow(self) -> None:
        """Puts are refused: code 14. So they are for one who led or followed and does neither now
        (§5.3)."""
        self._leads = False
        self.refuse(FOLLOWS)
        self._numbers.clear()

    def undecided(self) -> None:
        """Before the first election nothing is taken, code 1 (§5.3)."""
        self.refuse(BUSY)

    def _count_uncommitted(self) -> None:
        """What no queue has yet has its numbers already."""
        commit_log, begin = self.log.log, self._committed.end
        for part in log_parts(commit_log, begin, commit_log.max_phy_offset, self._committed.damage):
            for request in () if part.records is None else requests_of(part.records):
                if request.is_queued:
                    for each in (request, *named_requests(request, self._rules)):
                        self._numbers.count(each.topic, each.queue_id, each.queue_offset)

    # -- what must never be forgotten

    @property
    def hard_state(self) -> HardState:
        return self.files.hard_state

    @property
    def votes(self) -> bool:
        """It has all that it ever acknowledged."""
        return self.files.votes

    async def save(self, hard_state: HardState | None, votes: bool | None) -> None:
        """What is not None is on the disk when it returns. Raises StoreFileError."""
        loop = asyncio.get_running_loop()
        if hard_state is not None:
            await loop.run_in_executor(self._votes, self.files.save_hard_state, *hard_state)
        if votes is not None:
            await loop.run_in_executor(self._votes, self.files.save_votes, votes)

    # -- what is appended and committed

    @property
    def on_appended(self) -> Callable[[], None]:
        """Called when a put has appended entries, once until ``take_appended``."""
        return self._notice.on_appended

    @on_appended.setter
    def on_appended(self, call: Callable[[], None]) -> None:
        self._notice.on_appended = call

    def take_appended(self) -> None:
        """Somebody has looked at the end of the log."""
        self.log.mark()
        self._notice.idle = True

    def commit(self, index: int) -> None:
        """Every entry up to this one is committed; those that the log does not have yet are left to
        a later call. At a leader what little it is can be read when this returns, much a few turns
        later; at a follower that is running all of it some milliseconds later."""
        index = min(index, self.log.end_index)
        if index > self.committed_index:
            self._due_index = index
            wanted = self._wanted
            if wanted is None:
                self._dispatch_one()
            elif not self._leads or self._dispatch_one():
                wanted.set()

    def needed_from(self) -> int:
        """A file of the log that reaches so far must not expire; while there is an old log in front
        of the entries nothing does (§5.2)."""
        commit_log = self.log.log
        if commit_log.min_phy_offset < commit_log.divided:
            return 0
        return min(commit_log.flushed_offset, self._committed.end)

    @property
    def committed_end(self) -> int:
        """Where the last entry that is committed ends in the log."""
        return self._committed.target

    @property
    def readable_end(self) -> int:
        """Where what can be read ends: the max offset of the log for the outside."""
        return self._committed.end

    @property
    def is_stuck(self) -> bool:
        """What is committed cannot be done at present: put into queues, or deleted."""
        return self._stuck or self.deletions.are_stuck

    @property
    def lag(self) -> int:
        """Bytes that are committed and cannot be read yet; one, where they were not looked at."""
        return self._committed.lag or int(self._due_index > self.committed_index)

    # -- damage

    def index_at(self, phy_offset: int) -> int | None:
        """Of the committed entry whose record lies there, or None. Raises StoreFileError."""
        committed = phy_offset < self.committed_end
        return index_at(self.log, phy_offset, self.committed_index) if committed else None

    def entries_in(self, phy_offset: int, size: int) -> Iterator[DamagedEntry]:
        """The committed ones in a damaged part of the log; see ``mending``."""
        return entries_in(self.log.index, phy_offset, phy_offset + size, self.committed_index)

    def put_right(self, phy_offset: int, entry: Entry) -> int:
        """The record there is damaged, and this is its entry: see ``mending``. Blocks. Then call
        ``MessageStore.mended``."""
        checksum = self.log.index.checksums.of(entry.index)
        return put_right(self.log.log, phy_offset, entry, checksum)

    def dispatched(self) -> tuple[int, int]:
        """Up to where queues and index may be claimed to be complete, and the store time there."""
        return self._committed.end, self._committed.last_store_timestamp

    def _dispatch_one(self) -> bool:
        """A slice, if that is possible now; whether there is more."""
        try:
            if self._due_index > self.committed_index:
                self._committed.commit(self.log.end_of(self._due_index))
                self.committed_index = self._due_index
            more = self._committed.step()
            for each in self.on_readable:
                each()
        except (StoreFileError, EntryLogError) as error:
            self._stuck = True
            cause, text = without_figures(str(error)), "committed messages cannot be read yet: %s"
            self._outages.fails(log, (cause,), text, error, level=logging.ERROR)
            return True
        if self._stuck:
            self._stuck = False
            self._outages.all_work()
        return more

    # -- the service

    async def run(self) -> None:
        """Dispatch what is left over, and note now and then how far everything is, until
        cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._dispatch_all())
            group.create_task(self._save_by_interval())
            group.create_task(self.deletions.run())

    async def _dispatch_all(self) -> None:
        wanted = self._wanted = asyncio.Event()
        if self._committed.lag:
            wanted.set()
        try:
            while True:
                await wanted.wait()
                if not self._leads:
                    await self._clock.sleep(_GATHER_SECONDS)
                wanted.clear()
                while self._dispatch_one():
                    if self._stuck:
                        await self._clock.sleep(_RETRY_SECONDS)
                    elif self._committed.unindexed > _MOST_UNINDEXED:
                        await self._clock.sleep(_PAUSE_SECONDS)
                    else:
                        await asyncio.sleep(0)
        finally:
            self._wanted = None

    async def _save_by_interval(self) -> None:
        loop = asyncio.get_running_loop()
        index, end = -1, 0  # what was committed the last time, and is synced since
        saved: object = None
        while True:
            await self._clock.sleep(_SAVE_SECONDS)
            synced = index if end <= self.log.log.flushed_offset else -1
            index, end = self.committed_index, self._committed.target
            ends = index, self.log.end_index, synced
            with contextlib.suppress(StoreError):  # it is only late: tried again
                self.log.note()  # the next start goes by the index to what is saved
                now = (*ends, self.log.end_term, self.log.index.end)
                if now != saved:  # who is idle leaves its disk alone
                    await loop.run_in_executor(self._notes, self.log.index.sync)
                    await loop.run_in_executor(self._notes, self.files.save_ends, *ends)
                    saved = now

    def close(self) -> bool:
        """At an orderly stop, when everything is synced. Blocks. False when that failed: then the
        next start goes as after a crash."""
        self._votes.shutdown(wait=True)
        self._notes.shutdown(wait=True)
        try:
            self.log.note(whole=True)
            self.files.save_ends(self.committed_index, self.log.end_index, self.committed_index)
        except StoreError as error:
            log.error("how far this member had come could not be noted: %s", error)
            return False
        return True
