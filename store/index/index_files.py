"""The folder ``index``: the index files from the oldest to the one that is written to (class
IndexService).

A file is named after the moment it was made, ``yyyyMMddHHmmssSSS`` in local time, and is of full
length before the first byte is written. Disk space it has for header and slots, and for items some
megabytes ahead (see ``mapped_file``): the original's are as sparse. Files that are no index files
of the configured size are left alone and not searched.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ..disk.disk import Disk
from ..disk.mapped_file import MappedFile
from ..model.errors import OutOfSpaceError, StoreFileError, translated
from .index_file import HEADER_SIZE, SLOT_SIZE, Fits, IndexFile, index_file_size

log: Final = logging.getLogger(__name__)

_NAME_DIGITS: Final = 17
RESERVE_STEP: Final = 4 << 20
"""Items get disk space in such pieces, 200,000 at a time."""
_TOUCH_STEP: Final = 1 << 20
_ZEROS_STEP: Final = 64 << 10
"""So much that is written at once is one piece of memory to the system (a folio), where page faults
would make pages: making the slots takes a third of the time, syncing them half. Of larger ones the
first write after each sync is slower.
"""


class SyncWork(NamedTuple):
    """What has to be synced before the checkpoint may claim it."""

    files: list[MappedFile]
    directory: bool
    complete_until: int
    """End time of the last complete file, 0 when there is none."""
    ranges: list[tuple[int, int]]
    """See ``IndexFiles.ranges``."""


class _Entry(NamedTuple):
    file: MappedFile
    table: IndexFile


class IndexFiles:
    """All index files of a store. One thread writes and reads; making a file and syncing may happen
    in others."""

    def __init__(
        self, directory: Path, slots: int, items: int, disk: Disk, now_ms: Callable[[], int]
    ) -> None:
        self.directory: Final = directory
        self._slots: Final = max(1, slots)
        self._items: Final = max(2, items)
        self._size: Final = index_file_size(self._slots, self._items)
        self._disk: Final = disk
        self._now_ms: Final = now_ms
        self._entries: list[_Entry] = []
        self._dirty: set[MappedFile] = set()
        self._gone: set[MappedFile] = set()
        """Somebody has deleted them: nothing more is put into them."""
        self._new_names = False

    def load(self) -> None:
        """Open what is there. A file of another length or name is reported and left alone; one of
        length 0 is the trace of a crash and is removed. Raises StoreFileError when a file cannot be
        opened."""
        if not self._disk.is_directory(self.directory):
            return
        for entry in self._disk.listed(self.directory):
            path, length = Path(entry.path), entry.stat().st_size if entry.is_file() else -1
            if not (path.name.isascii() and path.name.isdigit()):
                log.warning("not an index file, left alone: %s", path)
            elif length == 0:
                self._disk.delete(path)
            elif length != self._size:
                log.error(
                    "%s is %d bytes long, an index file with the configured maxHashSlotNum and "
                    "maxIndexNum has %d: "
                    "it is left alone and not searched", path, length, self._size,
                )  # fmt: skip
            else:
                self._open(path)

    def _open(self, path: Path) -> None:
        file = MappedFile(path, self._size, self._disk)
        file.random = True
        if file.has_bad_sector(HEADER_SIZE):
            log.error(
                "%s is on a bad sector: it is left alone and not searched; `mqstore rebuild` "
                "(broker stopped) makes the index again", path,
            )  # fmt: skip
        else:
            self._entries.append(self._entry(file))

    def _entry(self, file: MappedFile) -> _Entry:
        return _Entry(
            file, IndexFile(file.map, self._slots, self._items, partial(_written, file), file.read)
        )

    @property
    def paths(self) -> list[Path]:
        """The files, oldest first."""
        return [entry.file.path for entry in self._entries]

    @property
    def end_phy_offset(self) -> int:
        """Where the last message lies that has items here, -1 without items."""
        entry = next((entry for entry in reversed(self._entries) if entry.table.count > 1), None)
        return -1 if entry is None else entry.table.end_phy_offset

    @property
    def end_timestamp(self) -> int:
        """When that message was stored, 0 without items."""
        entry = next((entry for entry in reversed(self._entries) if entry.table.count > 1), None)
        return 0 if entry is None else entry.table.end_timestamp

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Where the first and the last message lie that have items in each file; without the files
        that have none."""
        return [
            (table.begin_phy_offset, table.end_phy_offset)
            for _, table in self._entries
            if table.count > 1
        ]

    def compare(self, known: Sequence[tuple[int, int]], log_start: int) -> None:
        """Say what of the ``ranges`` of the last checkpoint is not there any more."""
        if lost := lost_ranges(known, self.ranges, log_start):
            log.error(
                "%s has lost files: of the messages from %d to %d of the commit log not all are "
                "found by their keys; "
                "`mqstore rebuild` (broker stopped) makes the index again", self.directory,
                lost[0][0], lost[-1][1],
            )  # fmt: skip

    def items_at_end(self) -> int:
        """How many items that message has."""
        end, count = self.end_phy_offset, 0
        for entry in reversed(self._entries):
            if entry.table.count > 1 and entry.table.end_phy_offset != end:
                break
            found = entry.table.items_at_end()
            count += found
            if found < entry.table.count - 1:
                break
        return count

    # -- writing

    @property
    def synced(self) -> bool:
        """Nothing was written since the last sync: the first write to each page is a page fault
        now."""
        return not self._dirty

    def current(self) -> tuple[IndexFile, int] | None:
        """The file to put into, and how many items may be; None when there has to be room for some
        first (``make``, then ``use``)."""
        if not self._entries:
            return None
        file, index = self._entries[-1]
        if not (room := index.room(file.reserved)) or file in self._gone:
            return None
        self._dirty.add(file)
        return index, room

    def make(self) -> MappedFile:
        """Room for more items: disk space in the present file, or a new one when that is full, or
        gone. May be called in a thread while nothing is put. Raises StoreFileError."""
        if self._entries and self._entries[-1].table.free_items:
            file, index = self._entries[-1]
            if not self._is_gone(file):
                file.reserve(index.end + RESERVE_STEP)
                file.map_now()
                return file
        return self._make_new()

    def _is_gone(self, file: MappedFile) -> bool:
        """Somebody has deleted it. Raises StoreFileError."""
        with translated(file.path, "cannot be looked at"):
            is_gone = file not in self._gone and not self._disk.exists(file.path)
        if is_gone:
            self._gone.add(file)
            log.error(
                "%s is gone, the index goes on in another file; what it had is not found any more "
                "when the broker is started again, `mqstore rebuild` (broker stopped) makes it "
                "again", file.path,
            )  # fmt: skip
        return file in self._gone

    def reserve_current(self) -> None:
        """At the start, so that what is put next is found at once. Without space for it ``make`` is
        tried again when it is needed, and tells."""
        if self._entries and self._entries[-1].table.free_items:
            with contextlib.suppress(OutOfSpaceError):
                self.make()

    def _make_new(self) -> MappedFile:
        now = datetime.fromtimestamp(self._now_ms() / 1000, UTC).astimezone()
        number = int(f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}")
        if self._entries:  # clocks are set back: the order of the names is the order of the files
            number = max(number, self._entries[-1].file.start + 1)
        path = self.directory / f"{number:0{_NAME_DIGITS}d}"
        with translated(path, "cannot be looked at"):
            while self._disk.exists(path):
                path = self.directory / f"{int(path.name) + 1:0{_NAME_DIGITS}d}"
        file = MappedFile.create_at(path, self._size, self._disk)
        file.random = True
        try:
            stop = HEADER_SIZE + self._slots * SLOT_SIZE
            file.reserve(stop + RESERVE_STEP)
            zeros = memoryview(bytes(_ZEROS_STEP))
            for at in range(0, stop, _ZEROS_STEP):
                file.write(at, zeros[: stop - at])
            for at in range(0, stop, _TOUCH_STEP):  # slots are written all over
                file.touch(at, min(at + _TOUCH_STEP, stop))
            file.map_now()  # who uses it cannot fail
        except StoreFileError:
            with contextlib.suppress(
                StoreFileError
            ):  # else it is there when the store is opened the next time, and empty
                file.delete()
            raise
        return file

    def use(self, file: MappedFile) -> None:
        """Go on in what was made, unless it is gone."""
        if file.deleted or (self._entries and self._entries[-1].file is file):
            return
        entry = self._entry(file)
        if self._entries:
            entry.table.follow(self._entries[-1].table)
            self._entries[-1].file.end_writing()
        self._entries.append(entry)
        self._new_names = True

    # -- syncing

    def sync_work(self) -> SyncWork:
        """What is not on the disk yet. In the thread that writes; then ``sync`` anywhere."""
        files = [entry.file for entry in self._entries if entry.file in self._dirty]
        work = SyncWork(files, self._new_names, self.complete_until, self.ranges)
        self._dirty.clear()
        self._new_names = False
        return work

    def take_back(self, work: SyncWork) -> None:
        """It could not be synced. In the thread that writes."""
        self._dirty.update(entry.file for entry in self._entries if entry.file in work.files)
        self._new_names |= work.directory

    def sync(self, work: SyncWork) -> None:
        """Return when it is on the disk. Raises StoreFileError."""
        for file in work.files:
            try:
                file.sync()  # nothing to do for one that has expired meanwhile
            except StoreFileError:
                if not self._is_gone(file):
                    raise
        if work.directory and self._disk.is_directory(self.directory):
            self._disk.sync_directory(self.directory)
            self._disk.sync_directory(self.directory.parent)  # the folder itself may be new

    @property
    def complete_until(self) -> int:
        """End time of the last complete file, 0 when there is none."""
        return next(
            (index.end_timestamp for _, index in reversed(self._entries) if not index.free_items), 0
        )

    # -- searching

    def find(self, hashed: int, begin: int, end: int) -> Iterator[int | None]:
        """Where messages with a hash lie that were stored in a range of time, the newest first;
        ``None``: see IndexFile."""
        for entry in self._entries[::-1]:
            if entry not in self._entries or not entry.table.overlaps(begin, end):
                continue
            for phy_offset in entry.table.find(hashed, begin, end):
                yield phy_offset
                if entry not in self._entries:
                    break  # it expired meanwhile

    # -- removing

    def drop_expired(self, min_phy_offset: int) -> list[MappedFile]:
        """Take out the files, never the last one, whose messages are all gone from the commit log.
        The caller deletes them (``file.delete()``), perhaps in a thread."""
        expired = [e.file for e in self._entries[:-1] if e.table.end_phy_offset < min_phy_offset]
        self._entries = [entry for entry in self._entries if entry.file not in expired]
        self._dirty.difference_update(expired)
        return expired

    def cut(
        self,
        phy_offset: int,
        fits: Fits,
        *,
        trusted_until: int = -1,
        on_damage: Callable[[], None] = lambda: None,
    ) -> int | None:
        """Forget the items of messages at or behind an offset; files without items are deleted.

        Files that end up to the time ``trusted_until`` are believed to be whole, others are read
        item by item. Returns where messages have to be put again in front of the offset, None when
        nowhere. ``on_damage`` is called before anything in front of it is forgotten. Raises
        OutOfSpaceError.
        """
        damaged_from, lost = None, set[MappedFile]()
        for file, index in list(self._entries):
            if (
                not index.free_items
                and 0 < index.end_timestamp <= trusted_until
                and index.end_phy_offset < phy_offset
            ):
                continue
            if file.has_bad_sector(index.end):  # a SIGBUS, through the mapping
                on_damage()
                lost.add(file)
                damage = max(index.begin_phy_offset, 0) if index.count > 1 else None
            else:
                file.reserve(index.end)
                damage = index.cut(phy_offset, fits, on_damage)
                self._dirty.add(file)
            if damage is not None:
                log.error("%s is damaged: messages from %d on are indexed again", file.path, damage)
                # a file before may have lost more
                phy_offset = damaged_from = min(damage, phy_offset)
                if file not in lost:
                    index.cut(phy_offset, fits)
        self._delete([e for e in self._entries if e.table.count <= 1 or e.file in lost])
        return damaged_from

    def drop_newer(
        self, timestamp: int, *, on_loss: Callable[[], None] = lambda: None
    ) -> int | None:
        """Delete the files that end later than a time, as the original does after a crash. Returns
        where the first one began, None when there was none. ``on_loss`` is called before one with
        items is deleted."""
        newer = [
            e for e in self._entries if e.table.end_timestamp > timestamp or e.table.count <= 1
        ]
        begin = next(
            (entry.table.begin_phy_offset for entry in newer if entry.table.count > 1), None
        )
        if begin is not None:
            on_loss()
        self._delete(newer)
        return begin

    def _delete(self, entries: list[_Entry]) -> None:
        for entry in entries:
            self._entries.remove(entry)
            self._dirty.discard(entry.file)
            entry.file.delete()
            self._new_names = True

    def close(self) -> None:
        """Unmap."""
        for entry in self._entries:
            entry.file.close()
        self._entries.clear()
        self._dirty.clear()


def lost_ranges(
    known: Sequence[tuple[int, int]], present: Sequence[tuple[int, int]], log_start: int
) -> list[tuple[int, int]]:
    """Which known ranges of index files do not lie in those that are there, though their messages
    have not expired. A rebuilt index may part them in another way.
    """
    return [
        ends
        for ends in known
        if any(
            end >= log_start and not any(first <= end <= last for first, last in present)
            for end in ends
        )
    ]


def _written(file: MappedFile, position: int, data: bytes) -> bool:
    """Whether the quick way to many bytes works; through the mapping, which is reserved, it always
    does."""
    try:
        file.write(position, data)
    except StoreFileError:
        return False
    return True
