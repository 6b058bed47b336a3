"""The extension of a consume queue: what does not fit into its units of 20 bytes (class
ConsumeQueueExt).

``consumequeue_ext/<topic>/<queueId>/``, files of ``mappedFileSizeConsumeQueueExt`` bytes that make
up one range. Units of different length, big-endian (consumequeue-index.md §2)::

    0    2  size of the unit: 20 + n, at most 32767
    2    8  tags code, the real one
    10   8  store time of the message
    18   2  n, length of the bitmap
    20   n  bitmap of the SQL filters that want the message

A unit does not cross the end of a file and leaves at least 4 bytes there: when it does not fit, the
short -1 marks the end, and it goes into the next file. The unit of the consume queue has an address
in the place of the tags code: the unit's offset plus the smallest 64-bit number. An address is at
most -2147483649, so that it is never a hash.

Derived data: what is missing here only costs that a message is looked at itself.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ...remoting.outages import Outages
from ..disk.disk import Disk
from ..disk.mapped_file import MappedFile
from ..disk.mapped_file_queue import MappedFileQueue
from ..model.errors import StoreFileError, is_of_bad_sector

log: Final = logging.getLogger(__name__)

EXT_HEAD: Final = struct.Struct(">hqqh")
_SHORT: Final = struct.Struct(">h")
_END_BLANK: Final = 4
_FULL: Final = -1
_MAX_ADDRESS: Final = -2147483649
_BASE: Final = -(1 << 63)
_MAX_UNIT: Final = 32767
_MAX_OFFSET: Final = _MAX_ADDRESS - _BASE
MAX_BITMAP_SIZE: Final = _MAX_UNIT - EXT_HEAD.size
_RESERVE_AHEAD: Final = 64 << 10
_READ_AHEAD: Final = 1024
"""Some thirty units of the usual size."""
_SPACE: Final = ("filter bitmaps", "space")
_READ: Final = ("filter bitmaps", "read")


def is_ext_address(tags_code: int) -> bool:
    """Whether a unit of a consume queue has an address instead of a tags code."""
    return tags_code <= _MAX_ADDRESS


def offset_of_address(address: int) -> int:
    """Where the unit lies in the range of the extension's files."""
    return address - _BASE


class ExtUnit(NamedTuple):
    """What a consume queue's extension knows of a message."""

    tags_code: int
    store_timestamp: int
    bitmap: bytes = b""
    """Empty: nobody computed one."""


class ConsumeQueueExt:
    """The extension of one queue. One thread writes."""

    __slots__ = ("_ahead", "_file", "_limit", "_outages", "end", "files", "flushed")

    def __init__(self, files: MappedFileQueue, outages: Outages) -> None:
        self.files: Final = files
        self._outages: Final = outages
        self.flushed: int = 0
        """Everything below is on the disk, as far as this process knows."""
        self.end: int = 0
        """Offset behind the last unit, where the next one goes."""
        self._file: MappedFile | None = None
        self._limit = 0
        """Up to where it may go without asking."""
        self._ahead = 0, b""
        """What was read last of a file that is not mapped, and where in the range that begins."""

    # -- writing

    def put(self, unit: ExtUnit) -> int | None:
        """Write a unit; its address. None when it is too long or there is no space: the plain tags
        code has to do then."""
        size = EXT_HEAD.size + len(unit.bitmap)
        if (
            size > min(_MAX_UNIT, self.files.file_size - _END_BLANK)
            or self.end + size > _MAX_OFFSET
        ):
            return None
        if self.end + size > self._limit or self._file is None:
            try:
                self._make_room(size)
            except StoreFileError as error:
                self._outages.fails(
                    log,
                    _SPACE,
                    "filter bitmaps are not kept until there is space for them: %s",
                    error,
                    who=self.files.directory,
                )
                return None
            self._outages.works(_SPACE, who=self.files.directory)
        file = self._file
        assert file is not None
        position = self.end - file.start
        data = file.map
        EXT_HEAD.pack_into(
            data, position, size, unit.tags_code, unit.store_timestamp, len(unit.bitmap)
        )
        data[position + EXT_HEAD.size : position + size] = unit.bitmap
        address = self.end + _BASE
        self.end += size
        return address

    def _make_room(self, size: int) -> None:
        """Raises OutOfSpaceError or StoreFileError; then nothing has changed."""
        file = self.files.find(self.end)
        if file is not None and self.end + size > file.end - _END_BLANK:
            following = self.files.reserve(file.end, file.end + min(_RESERVE_AHEAD, file.size))
            file.reserve(self.end - file.start + _SHORT.size)
            _SHORT.pack_into(file.map, self.end - file.start, _FULL)
            self.end, file = file.end, following
        start = self.end - self.end % self.files.file_size
        stop = min(max(self.end + _RESERVE_AHEAD, self.end + size), start + self.files.file_size)
        file = self.files.reserve(self.end, stop)
        file.random = True  # no descriptor is kept
        file.map_now()
        self._file, self._limit = file, min(file.start + file.reserved, file.end - _END_BLANK)

    # -- reading

    def get(self, address: int) -> ExtUnit | None:
        """The unit at an address; None when there is none, or it cannot be read."""
        offset = address - _BASE
        file = self.files.find(offset) if is_ext_address(address) and offset < self.end else None
        try:
            unit = (
                None
                if file is None
                else _unit_in(partial(self._read, file), file.size, offset - file.start)
            )
        except StoreFileError as error:
            self._outages.occurs(
                log, _READ, "filter bitmaps are not used, all messages are looked at: %s", error
            )
            return None
        return None if unit is None else unit[1]

    def _read(self, file: MappedFile, position: int, length: int) -> bytes:
        """Of a file that is not mapped with some units that follow, for whoever reads on: opening
        it for each costs three times as much as all else."""
        if file.mapped:
            return file.read(position, length)
        at = file.start + position
        begin, data = self._ahead
        if not begin <= at <= at + length <= begin + len(data):
            begin, data = at, file.read_unmapped(position, max(length, _READ_AHEAD))
            data = data[: self.end - at]  # there is nothing behind that yet
            self._ahead = begin, data
        return data[at - begin : at - begin + length]

    # -- opening, recovery, deleting

    def load(self) -> None:
        """Take in the files; the end is only known after ``cut``. Raises StoreFileError for files
        that do not fit."""
        self.files.load(derived=True)
        for file in self.files.files:
            file.random = True
        self.end = self.flushed = self.files.end
        self._forget()

    def cut(self, last: int | None) -> bool:
        """Everything behind the unit at the address ``last`` is forgotten, all of it without one
        (truncateByMaxAddress). The bytes stay until ``finish``. False when there is no such unit
        (any more): then nothing is changed. Raises StoreFileError.
        """
        end = self.files.start
        if last is not None:
            offset = last - _BASE
            file = self.files.find(offset)
            found = None if file is None else self._found_in(file, offset)
            if found is None:
                return False
            end = offset + found[0]
        self.end = end
        self.flushed = min(self.flushed, end)
        self._forget()
        return True

    @staticmethod
    def _found_in(file: MappedFile, offset: int) -> tuple[int, ExtUnit] | None:
        try:
            return _unit_in(file.read_unmapped, file.size, offset - file.start)
        except StoreFileError as error:
            if not is_of_bad_sector(error):
                raise
            return None

    def finish(self) -> None:
        """End of recovery: nothing may lie behind the last unit. Raises StoreFileError."""
        self.files.drop_from(self.end + 1 if self.end > self.files.start else self.files.start)
        file = self.files.find(self.end)
        if file is not None:
            file.clear_from(self.end - file.start)
        if not self.files.files:
            self.clear()

    def expired(self, first: int | None) -> list[MappedFile]:
        """The files, but the last one, of which no unit is used when the unit at the address
        ``first`` is the oldest that is (truncateByMinAddress). None: no unit is used, but nothing
        is known to be unused either.
        """
        if first is None or not is_ext_address(first):
            return []
        return [file for file in self.files.files[:-1] if file.end <= first - _BASE]

    def sync(self, sync_file: Callable[[MappedFile], None], *above: Path) -> None:
        """Put all units on the disk, each file by ``sync_file``, and the names of new files in it
        and in the folders ``above``. For a worker thread. Raises StoreFileError.
        """
        begin, end = self.flushed, self.end
        if begin < end:
            for file in tuple(self.files.files):
                if file.end > begin and file.start < end:
                    sync_file(file)
        self.files.sync_directory(*above)
        self.flushed = max(begin, end)

    def clear(self) -> None:
        """Delete all units (destroy)."""
        self.files.delete()
        self.end = self.flushed = 0
        self._forget()

    def close(self) -> None:
        """Unmap; the units can be read again."""
        self._forget()
        self.files.close()

    def _forget(self) -> None:
        """The next unit and the next reader look for their files."""
        self._file, self._limit, self._ahead = None, 0, (0, b"")


def _unit_in(
    read: Callable[[int, int], bytes], file_size: int, position: int
) -> tuple[int, ExtUnit] | None:
    """Size of the unit at a position of a file, and the unit."""
    head = read(position, EXT_HEAD.size)
    if len(head) < EXT_HEAD.size:
        return None
    size, tags_code, store_timestamp, bitmap_size = EXT_HEAD.unpack(head)
    if size < EXT_HEAD.size or position + size > file_size:
        return None
    bitmap_size = min(max(bitmap_size, 0), size - EXT_HEAD.size)
    bitmap = read(position + EXT_HEAD.size, bitmap_size) if bitmap_size else b""
    return size, ExtUnit(tags_code, store_timestamp, bitmap)


class ConsumeQueueExts:
    """The extensions of all queues: ``consumequeue_ext/<topic>/<queueId>/``.

    Not ``enabled``: those that are there from before are read, cleaned and deleted with their
    queues; no queue gets one.
    """

    def __init__(
        self, directory: Path, file_size: int, disk: Disk, outages: Outages, *, enabled: bool
    ) -> None:
        self.directory: Final = directory
        self._outages: Final = outages
        self.enabled: Final = enabled
        self._file_size: Final = file_size
        self._disk: Final = disk

    def make(self, topic: str, queue_id: int) -> ConsumeQueueExt | None:
        """The extension of a new queue."""
        return self._of(topic, queue_id) if self.enabled else None

    def _of(self, topic: str, queue_id: int) -> ConsumeQueueExt:
        files = MappedFileQueue(self.directory / topic / str(queue_id), self._file_size, self._disk)
        return ConsumeQueueExt(files, self._outages)

    def found(self) -> Iterator[tuple[str, int]]:
        """Topic and number of every queue that has one on the disk. Raises StoreFileError; not for
        what nobody will write to."""
        disk = self._disk
        if not disk.is_directory(self.directory):
            return
        for topic in disk.listed(self.directory):
            if not topic.is_dir() and self.enabled:
                raise StoreFileError(Path(topic.path), "is not a folder of a topic; move it away")
            for queue in disk.listed(topic.path) if topic.is_dir() else ():
                if queue.is_dir() and queue.name.isascii() and queue.name.isdecimal():
                    yield topic.name, int(queue.name)

    def load(self, topic: str, queue_id: int) -> ConsumeQueueExt | None:
        """One of them; None, with a warning, where it cannot be read and nobody will write to it.
        Raises StoreFileError."""
        ext = self._of(topic, queue_id)
        try:
            ext.load()
            if ext.files.wrong_length is not None and not self.enabled:
                raise ext.files.wrong_length
        except StoreFileError as error:
            if self.enabled:
                raise
            log.warning(
                "the extension of the queue %d of %s is not read, its messages match every filter "
                "of tags: %s",
                queue_id, topic, error,
            )  # fmt: skip
            return None
        return ext

    def sync(self, ext: ConsumeQueueExt, sync_file: Callable[[MappedFile], None]) -> None:
        """Put one on the disk, each file by ``sync_file``, with the names of new files and folders.
        For a worker thread. Raises StoreFileError."""
        ext.sync(sync_file, ext.files.directory.parent, self.directory, self.directory.parent)

    def delete_topic(self, topic: str) -> None:
        """Delete what is left of a topic."""
        self._disk.delete_tree(self.directory / topic)
