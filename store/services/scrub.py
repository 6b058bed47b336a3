"""The scrub: reads the whole commit log now and then and checks every record, so that rot is found
while another replica has what is intact.

It reads with ``pread`` in small pieces, slowly (``scrubBytesPerSecond``), and has the system forget
what was not in memory before. A pass begins ``scrubIntervalHours`` after the last one did, the
first ``FIRST_S`` after the start; only what is on the disk is looked at. ``look`` is pure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.protocol.record import Reason, Records, scan
from ...remoting.protocol.record.entry import ENTRY_HEAD
from ...remoting.protocol.record.scan import entry_of
from ...remoting.protocol.record.search import LOOKED_AT, next_record
from ..disk.mapped_file import MappedFile
from ..log.commit_log import CommitLog
from ..log.damage import DamagedRecords
from ..log.entry_checksums import EntryChecksums
from ..model.config import MessageStoreConfig
from ..model.errors import StoreFileError

log: Final = logging.getLogger(__name__)

FIRST_S: Final = 3600.0
PIECE: Final = 64 << 10
"""Read at once: less than half a millisecond's work, so that the event loop gets the interpreter
back."""
_LONGEST: Final = 64 << 20
_IDLE_S: Final = 60.0


class Look(NamedTuple):
    """What was seen in some bytes of the log."""

    size: int
    """So many of them are done with; 0: more are needed."""
    damaged: list[tuple[int, int, str]]
    """Physical offset, size, what is wrong."""
    last: bool
    """The file ends there."""


def look(
    data: bytes, base: int, left: int, head: int = 0, known: EntryChecksums | None = None
) -> Look:
    """Look at records from ``base`` on, of which the file has ``left`` bytes, ``data`` the first.
    With all of them in ``data`` everything is done with. ``head``: they stand behind heads of
    entries (``scan``), and ``known`` tells what these were."""
    at, whole = 0, len(data) == left
    damaged: list[tuple[int, int, str]] = []
    while at < len(data):
        records, at, verdict = scan(data, base, at=at, left=left, head=head)
        if known is not None and head and len(records):
            damaged += _other_than_noted(records, base, known)
        if verdict.reason is Reason.BLANK and verdict.size == left - at:
            return Look(len(data), damaged, True)
        if verdict.reason is Reason.MORE or at == len(data):
            break
        end: int | None = at + verdict.size
        if not verdict.size or verdict.reason is Reason.BLANK:
            following = next_record(data, at + head + 1, base)
            end = (len(data) if whole else None) if following is None else following - head
        if end is None:
            break
        damaged.append((base + at + head, end - at - head, verdict.problem))
        at = end
    return Look(len(data) if whole else at, damaged, whole)


def _other_than_noted(
    records: Records, base: int, known: EntryChecksums
) -> Iterator[tuple[int, int, str]]:
    """Of entries that look intact."""
    begin = records.at[0] - ENTRY_HEAD.size
    for number in known.wrong(records.data, begin, records.end, entry_of(records, 0).index, base):
        problem = "its entry has another checksum than when it was written"
        yield records.phy_offsets[number], records.sizes[number], problem


class Scrub:
    """Service."""

    def __init__(
        self,
        commit_log: CommitLog,
        damage: DamagedRecords,
        config: MessageStoreConfig,
        clock: Clock,
        known: EntryChecksums | None = None,
    ) -> None:
        """``known``: of a log of entries (``look``)."""
        self._known: Final = known
        self._log: Final = commit_log
        self._damage: Final = damage
        self._config: Final = config
        self._clock: Final = clock
        self._outages: Final = Outages(clock)
        self._threads = ThreadPoolExecutor(1, "scrub")

    def close(self) -> None:
        """Blocks until nothing reads any more. After ``run`` has been cancelled."""
        self._threads.shutdown(wait=True)

    async def run(self) -> None:
        """Until cancelled."""
        due = self._clock.monotonic() + FIRST_S
        while True:
            await self._clock.sleep(_IDLE_S)
            await self._look_at_bad_sectors()
            now = self._clock.monotonic()
            if now >= due and self._config.scrub_interval_hours > 0:
                due = now + 3600.0 * self._config.scrub_interval_hours
                await self.scrub()

    async def scrub(self) -> None:
        """One pass."""
        began, found = self._clock.monotonic(), self._damage.found
        end, total = self._log.flushed_offset, 0
        for file in list(self._log.files.files):
            total += await self._scrub_file(file, min(file.end, end))
        log.info(
            "the commit log was read and checked up_to=%d bytes=%d damaged=%d seconds=%d",
            end, total, self._damage.found - found, self._clock.monotonic() - began,
        )  # fmt: skip

    async def _look_at_bad_sectors(self) -> None:
        """Who came upon one knows only what he wanted to read: which records lie on it is found
        out now, and not when the next pass is due."""
        found = self._damage.bad_sectors()
        for file in list(self._log.files.files):
            if any(file.start <= at < file.end for at in found):
                await self._scrub_file(file, min(file.end, self._log.flushed_offset))

    async def _scrub_file(self, file: MappedFile, end: int) -> int:
        """How many bytes were looked at."""
        at, wanted, loop = file.start, PIECE, asyncio.get_running_loop()
        while at < end and not file.deleted:
            size = min(wanted, end - at)
            try:
                cold = not file.is_in_memory(at - file.start, size)
                left, head = end - at, self._log.head_at(file.start)
                looking = loop.run_in_executor(
                    self._threads, _look_at, file, at, size, left, cold, head, self._known
                )
                data, seen = await looking
            except StoreFileError as error:
                if file.deleted:
                    break
                self._outages.fails(  # which says nothing about the data
                    log, ("scrub",), "the commit log is not checked now, tried again: %s", error
                )
                await self._clock.sleep(_IDLE_S)
                continue
            self._outages.works(("scrub",))
            await self._clock.sleep(data / max(1, self._config.scrub_bytes_per_second))
            for each in seen.damaged:
                if each[0] >= self._log.min_phy_offset:
                    self._damage.note(*each, "seen=scrub")
            if seen.last:
                break
            wanted = PIECE if seen.size else min(2 * wanted, _LONGEST)
            at += seen.size
            if not seen.size and size == _LONGEST:  # longer than any record, and none begins in it
                skipped = size - LOOKED_AT + 1
                self._damage.note(at, skipped, "no record begins there", "seen=scrub")
                at += skipped
        return at - file.start


def _look_at(
    file: MappedFile,
    phy_offset: int,
    size: int,
    left: int,
    cold: bool,
    head: int,
    known: EntryChecksums | None,
) -> tuple[int, Look]:
    """In a thread. Raises StoreFileError."""
    data = file.read_unmapped(phy_offset - file.start, size)
    seen = look(data, phy_offset, left, head, known)
    if seen.damaged and known is not None:  # or entries were replaced in between
        data = file.read_unmapped(phy_offset - file.start, size)
        seen = look(data, phy_offset, left, head, known)
    if cold:
        file.forget(phy_offset - file.start, size)
    return len(data), seen
