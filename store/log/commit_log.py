"""The commit log: every record of every topic, one after the other (class CommitLog).

Files of equal size. A record never crosses the end of a file: at least 8 bytes are left for a blank
record, which tells that the log goes on in the next file (commitlog.md §3.1)::

    | record | record | ... | record | blank .... |    | record | record ...
    0                                         size     size

Pure: bytes and positions; the files are given from outside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...remoting.protocol.record import (
    BLANK_SIZE,
    MAGIC,
    MIN_RECORD_SIZE,
    LogEnd,
    blank_record,
    size_and_magic,
)
from ...remoting.protocol.record.entry import entry_blank
from ..disk.mapped_file import MappedFile
from ..disk.mapped_file_queue import MappedFileQueue
from ..model.errors import BrokenPromiseError, OutOfSpaceError, StoreFileError, SyncFailedError

RESERVE_AHEAD: Final = 16 << 20
"""Disk space is reserved in steps of this size."""
_WRITTEN_AT_ONCE: Final = 1 << 20
NEAR: Final = 8 << 10
"""To read so many bytes more of a file that is not mapped costs as much as to read once more: 0.6
µs."""
_AHEAD: Final = 2 * NEAR
"""So much of it is read for a record and those behind it."""


class CommitLog(LogEnd):
    """The log and its end, which lies inside of one file, reserved: the store's hot path writes
    single records there itself (``put_record``); when one does not fit, ``make_room`` comes first.
    """

    __slots__ = (
        "_begins_at", "_current", "_cut_at", "_mending", "cuts", "divided", "files",
        "flushed_offset", "leaving", "spare", "sync_failed", "want_allocation",
    )  # fmt: skip

    def __init__(self, files: MappedFileQueue, head: int = 0, divided: int = 0) -> None:
        super().__init__()
        self.head = head
        self.divided: int = divided
        """Files in front of this offset are of an older log, and their records have no heads
        (dividedCommitlogOffset)."""
        self.files: Final = files
        self.flushed_offset: int = 0
        """Everything below is on the disk."""
        self.cuts: int = 0
        """How often what lay behind an end was taken back: what was flushed by then may be less."""
        self.leaving: MappedFile | None = None
        """The file in front of the first one: nobody finds it any more, but it is not deleted
        yet."""
        self.spare: MappedFile | None = None
        """The next file, made ahead."""
        self.want_allocation: Callable[[], None] = _nobody
        """Called when the time has come to make the spare file or to reserve more, in good time."""
        self.sync_failed: Callable[[SyncFailedError], None] = lambda _error: None
        """Called when one does of a file that others have written to, or of a folder that they have
        made files in, who claim it to be on the disk after the next one: what they wrote may be
        lost. In any thread."""
        self._current: MappedFile | None = None
        self._cut_at: int | None = None
        """Where the log ends, while what lay behind is not gone: a file failed. Nothing is written
        before that is done."""
        self._mending: Final = files.disk.new_lock()
        """Of two who mend a file at once the second would take for its age when the first wrote."""
        self._begins_at: int | None = None
        """Where it begins, while what lay elsewhere is not gone: the same."""

    @property
    def max_phy_offset(self) -> int:
        """Where the next record goes."""
        return self.base + self.position

    @property
    def min_phy_offset(self) -> int:
        """Offset of the oldest byte that is still there."""
        return self.files.start

    @property
    def current(self) -> MappedFile | None:
        """The file that is written to."""
        return self._current

    # -- writing

    def make_room(self, size: int) -> None:
        """Make space for a record of ``size`` bytes (plus its head, and the blank behind it), in
        the next file if need be.

        The record must fit into a file: ``head + size + 8 <= file_size``. Raises OutOfSpaceError or
        StoreFileError; then the log is as before and the next call tries again.
        """
        self._finish_cut()
        size += self.head
        file = self._current
        if file is None or self.position + size + BLANK_SIZE > file.size:
            file = self._roll(file, size)
        needed = self.position + size
        if needed > file.reserved - BLANK_SIZE and file.reserved < file.size:
            file.reserve(needed + RESERVE_AHEAD)
        self._set_limit(needed)

    def _roll(self, full: MappedFile | None, size: int) -> MappedFile:
        """Go to the next file. It is made and reserved first: only then the blank may close the
        full one."""
        following = self.base if full is None else full.end
        if self.spare is not None and self.spare.start != following:
            self._drop_spare()  # made before it was known where the log begins
        spare = self._reserve_spare(self.spare or self.files.make(following))
        if full is not None:
            full.reserve(self.position + BLANK_SIZE)  # it may end where it ended when it was opened
            blank = entry_blank if self.head else blank_record
            self.buffer[self.position : self.position + BLANK_SIZE] = blank(
                full.size - self.position
            )
            full.seal()
        self.files.add(spare)
        self.spare = None
        self._use(spare, 0)
        self.want_allocation()
        return spare

    def _reserve_spare(self, spare: MappedFile) -> MappedFile:
        """Space in the next file, on another path if its disk is full and there is one."""
        while True:
            self.spare = spare
            try:
                spare.reserve(min(RESERVE_AHEAD, spare.size))
                spare.map_now()  # while nothing depends on it yet
            except OutOfSpaceError:
                if not self.files.pass_over(spare):
                    raise
                spare = self.files.make(spare.start)
            else:
                return spare

    def _use(self, file: MappedFile, position: int) -> None:
        self.buffer = file.map
        self._current = file
        self.base = file.start
        self.position = position
        self.limit = position

    def _set_limit(self, needed: int) -> None:
        """Up to where the hot path may write without asking. While more can be reserved, half a
        step is kept back: who reaches it calls for more in good time, and may then use the rest."""
        file = self._current
        assert file is not None
        self.limit = file.reserved - BLANK_SIZE
        if file.reserved < file.size:
            early = self.limit - RESERVE_AHEAD // 2
            if needed <= early:
                self.limit = early
            else:
                self.want_allocation()

    def write_many(self, records: bytes | bytearray | memoryview) -> None:
        """Write several records where there is space for them. Raises StoreFileError, then nothing
        has changed.

        Not into the mapping: the C library copies the first bytes last, so a kill in a page fault
        would leave a hole in front of whole records, and recovery believes these. The kernel copies
        from front to back.
        """
        file = self._current
        assert file is not None
        file.write(self.position, records)
        self.position += len(records)

    def make_room_at(self, phy_offset: int, size: int) -> None:
        """Make space for ``size`` bytes of a master's log, all of one file: at the end, or, while
        nothing was ever written, at the beginning of any file. Raises OutOfSpaceError or
        StoreFileError, then the next call tries again; BrokenPromiseError for any other place.
        """
        self._finish_cut()
        if phy_offset != self.max_phy_offset:
            if self.max_phy_offset or phy_offset % self.files.file_size:
                raise BrokenPromiseError(
                    f"bytes of {phy_offset} cannot go to {self.max_phy_offset}: the log of a "
                    "replica has every byte where its master has it"
                )
            self.begin_at(phy_offset)
        file = self._current
        if file is not None and self.position == file.size:
            file.seal()
            self._current = file = None
            self.base, self.position, self.limit, self.buffer = self.max_phy_offset, 0, 0, b""
        if file is None:
            file = self._roll(None, size)
        needed = self.position + size
        if needed > file.reserved:
            file.reserve(needed + RESERVE_AHEAD)
        elif needed > file.reserved - RESERVE_AHEAD // 2 and file.reserved < file.size:
            self.want_allocation()

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes behind a ``make_room_at`` for them: whole records, a blank one with all that
        it skips. Raises StoreFileError, then nothing has changed.
        """
        self.write_many(data)
        self.limit = self.position

    def put_back(self, file: MappedFile, phy_offset: int, data: bytes) -> None:
        """Write bytes in the place of damaged ones of a file and sync them; for a worker thread.
        Raises StoreFileError."""
        is_full = file is not self._current
        telling = self._telling() if file.end > self.flushed_offset else contextlib.nullcontext()
        with self._mending, telling:
            file.put_back(phy_offset - file.start, data, keeps_age=is_full)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Those who claim what others have written to the same file, or made in the same folder."""
        try:
            yield
        except SyncFailedError as error:
            self.sync_failed(error)
            raise

    def head_at(self, phy_offset: int) -> int:
        """Bytes in front of each record of the file with that offset."""
        return self.head if phy_offset >= self.divided else 0

    def begin_at(self, phy_offset: int) -> None:
        """An empty log is to begin with another file than the first one; what there is goes. An
        older log in front of it is left alone, and out where it does not lie right in front. Raises
        StoreFileError."""
        if self.leaving is not None:
            self.leaving.delete()  # or there would be a hole behind it
        self._drop_spare()  # likewise; first, for while a thread is at it that fails
        self.cuts += 1
        self.base, self.position, self.limit, self.buffer = phy_offset, 0, 0, b""
        self._current, self._cut_at, self._begins_at = None, None, phy_offset
        self.files.drop_from(self.divided)
        if self.files.end != phy_offset:
            self.files.close()
            self.files.files.clear()
        self.files.new_files = True
        with self._telling():
            self.files.sync_directory()  # or a file that went may be back, with a hole behind it
        self.flushed_offset = phy_offset
        self.divided = phy_offset if self.head else 0
        self._begins_at = None

    def take_back(self, phy_offset: int) -> None:
        """What lies behind an offset goes, for good: that is synced here. Raises StoreFileError."""
        self._drop_spare()  # or it would lie behind a hole
        self.cuts += 1
        if (file := self.files.find(phy_offset)) is not None and file.start != self.base:
            try:
                file.close()  # it was sealed; it is mapped anew
            except BufferError as error:
                raise StoreFileError(
                    file.path, "cannot be cut just now, it is being synced; tried again"
                ) from error
        self.flushed_offset = min(self.flushed_offset, phy_offset)
        self.set_end(phy_offset)

    def _drop_spare(self) -> None:
        """Raises StoreFileError; then it is the spare file still, and tried again."""
        if self.spare is not None:
            self.spare.delete()
            self.spare = None

    def allocation_made(self) -> None:
        """More of the current file was reserved."""
        if self._current is not None:
            self._set_limit(self.position)

    # -- reading

    def file_of(self, phy_offset: int, size: int) -> MappedFile | None:
        """The file that holds some bytes; None when they are not (or no longer) there or would
        cross its end.
        """
        file = self.files.find(phy_offset)
        if file is None or size <= 0 or phy_offset + size > min(file.end, self.max_phy_offset):
            return None
        return file

    def window(self, phy_offset: int, size: int) -> tuple[Any, int, int] | None:
        """What holds a record, with others around it, and where in the log it begins and ends: the
        mapping of the file that is written to, or what was read of another one; of that only a part
        if no record of that size begins there. None as for ``file_of``. Raises StoreFileError.
        """
        file = self.file_of(phy_offset, size)
        if file is None:
            return None
        at = phy_offset - file.start
        if at + size <= file.solid:
            return file.map, file.start, min(file.start + file.solid, self.max_phy_offset)
        data = file.read(at, _AHEAD)
        if len(data) < size == size_and_magic(data, 0)[0]:
            data = file.read(at, size)
        return data, phy_offset, min(phy_offset + len(data), self.max_phy_offset)

    def read(self, phy_offset: int, size: int) -> bytes | None:
        """A copy of some bytes of one file, None as for ``file_of``. Raises StoreFileError."""
        file = self.file_of(phy_offset, size)
        return None if file is None else file.read(phy_offset - file.start, size)

    def record(self, phy_offset: int) -> bytes | None:
        """The whole record that begins at an offset; None when none can begin there. Raises
        StoreFileError."""
        head = self.read(phy_offset, BLANK_SIZE)
        if head is None:
            return None
        size, magic = size_and_magic(head, 0)
        return self.read(phy_offset, size) if magic == MAGIC and size >= MIN_RECORD_SIZE else None

    # -- beginning later

    def drop_first(self) -> None:
        """The oldest file is ``leaving``."""
        self.leaving = self.files.drop_first()

    # -- opening and closing

    def set_end(self, phy_offset: int) -> bool:
        """End of recovery: the log ends here; what lies behind is cleared, files behind are
        deleted. Whether something lay there in the last file. Raises StoreFileError; before
        anything is written it is tried again then.
        """
        self._current, self._cut_at, self.buffer = None, phy_offset, b""
        self.base, self.position, self.limit = phy_offset, 0, 0
        self.files.drop_from(phy_offset + 1)
        found = False
        if (file := self.files.find(phy_offset)) is not None:  # else it ends with a whole file
            with self._telling():
                found = file.clear_from(phy_offset - file.start)
            self._use(file, phy_offset - file.start)
            file.has_blocks(self.position)
        self._cut_at = None
        return found

    def _finish_cut(self) -> None:
        if self._begins_at is not None:
            self.begin_at(self._begins_at)
        if self._cut_at is not None:
            self.set_end(self._cut_at)

    def write_again(self, begin: int, end: int) -> None:
        """What lies at [begin, end), and is there already. A sync that failed may have left pages
        that can be read and count as written, though they are not on the disk; no later sync writes
        them. Raises StoreFileError."""
        for file in self.files.files:
            at, stop = max(begin, file.start), min(end, file.end)
            while at < stop:
                size = min(_WRITTEN_AT_ONCE, stop - at)
                file.write_again(at - file.start, size)
                at += size

    def close(self) -> None:
        """Unmap and delete the unused spare file. Raises StoreFileError when it cannot be deleted:
        the next start does."""
        self.buffer = b""
        self.limit = self.position = 0
        self._current = None
        spare, self.spare = self.spare, None
        try:
            if spare is not None:
                spare.delete()
        finally:
            if self.leaving is not None:
                self.leaving.close()
            self.files.close()


def _nobody() -> None:
    pass
