"""A file of fixed length that is mapped into memory.

Rules that keep the process alive and the event loop moving (they hold for every file of the store):

* Nothing touches a hole of a mapping that was not *reserved*: a page that the system cannot give is
  a SIGBUS, which no ``except`` catches. It cannot give one for a hole of a file on a full disk, to
  who writes there, and on a full tmpfs not even to who reads; nor behind the end of a file that
  somebody has cut, nor on a bad sector. So what is written through the mapping was reserved before
  (``posix_fallocate``: a full disk is ENOSPC there), and what is read through it lies below
  ``solid``, which is nothing any more once a bad sector is known. All else is read with ``pread``,
  to which a hole is zeros, what is missing is missing, and a bad sector is EIO, or zeros as well
  (``on_bad_sector``).
* No view of the mapping outlives a turn of the event loop: slices are copies (``bytes``), structs
  pack and unpack in place, and who sends a ``view`` lets go of it at once. So a file can be closed
  between turns; a thread that deletes one tries again.
* The mapping is synced with ``fdatasync`` or ``msync`` from a worker thread; ``mmap.flush`` would
  hold the GIL.
* Pages that will be written soon are touched ahead in a worker thread, for the same reason.

One file, though over 400 lines: these rules hold only because every access goes through the class.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ..model.errors import (
    StoreFileError,
    file_error,
    is_of_bad_sector,
    translated,
    translated_sync,
)
from .disk import Disk

_MADV_RANDOM: Final = 1
_MADV_POPULATE_WRITE: Final = 23
_MS_SYNC: Final = 4
_STEP: Final = 1 << 20
_ZEROS: Final = bytes(_STEP)
_NOBODY_ELSE: Final = contextlib.nullcontext()


class MappedFile:
    """One file; its name is the offset of its first byte, in decimal, 20 digits wide."""

    __slots__ = (
        "_disk", "_has_bad_sector", "_map", "_reading", "_where", "_writing", "deleted",
        "on_bad_sector", "random", "reserved", "size", "solid", "start", "turns",
    )  # fmt: skip

    def __init__(self, path: str | Path, size: int, disk: Disk) -> None:
        # A text: opening a store makes tens of thousands, a Path takes ten times as long.
        self._where: Final = str(path)
        self.start: Final = int(self._where.rpartition("/")[2])
        self.size: Final = size
        self.reserved: int = 0
        """Bytes from the start of the file that are known to have disk blocks."""
        self.solid: int = 0
        """Bytes from the start of the mapping that may be touched: reserved, or without a hole when
        it was made. 0 without a mapping, once it is sealed, and once somebody has come upon a bad
        sector."""
        self.deleted: bool = False
        self.random: bool = False
        """Set before it is mapped, for one of very many files: the mapping keeps no descriptor
        (``bare_mapping``), and only the page that is needed is brought in. Else the system reads
        ahead, up to some megabytes, through the holes of a new file as well, and that is the work
        of whoever writes its first byte."""
        self.turns: contextlib.AbstractContextManager[object] = _NOBODY_ELSE
        """Held while space is reserved, where two threads do that. A system without such a call
        reads what is there, and writes it: bytes that somebody stored in between would be gone."""
        self.on_bad_sector: Callable[[int, int], object] | None = None
        """With one, calls that read have zeros in the place of pages that are on bad sectors, and
        it is called with offset and size of each, in the thread that reads. Without one that is an
        error."""
        self._disk: Final = disk
        self._has_bad_sector = False
        """As far as is known; mended or not."""
        self._map: Any = None
        self._writing: int | None = None
        """Descriptor for ``write``."""
        self._reading: int | None = None
        """Descriptor for ``read``."""

    @staticmethod
    def name_of(start: int) -> str:
        """``00000000001073741824``"""
        return f"{start:020d}"

    @classmethod
    def create(cls, directory: Path, start: int, size: int, disk: Disk) -> MappedFile:
        """Make a new file of full length, all zeros, nothing reserved.

        Only the length is set, in one step: a crash leaves a file of length 0 or of full length.
        Making a file that is there already changes nothing. Raises OutOfSpaceError, or
        StoreFileError when it cannot be made.
        """
        return cls.create_at(directory / cls.name_of(start), size, disk)

    @classmethod
    def create_at(cls, path: Path, size: int, disk: Disk) -> MappedFile:
        """The same for a file whose name is another number."""
        with translated(path, "cannot be created"):
            disk.make_directories(path.parent)
            fd = disk.open(path, "make")
            try:
                disk.resize(fd, size)
            finally:
                disk.close(fd)
        return cls(path, size, disk)

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self._where)

    @property
    def end(self) -> int:
        """Offset of the first byte behind the file."""
        return self.start + self.size

    @property
    def map(self) -> Any:
        """The mapping, made on first use. Slice it below ``solid`` or pack into what was reserved;
        never keep a memoryview of it. Raises StoreFileError.

        (An ``mmap``; with ``random`` a memoryview, whose slices are views.)
        """
        if self._map is None:
            with self._opened() as fd:
                if self._disk.size(fd) < self.size:
                    raise self._shorter()
                self._map = self._disk.map(fd, self.size, bare=self.random)
                self._is_solid(max(self.reserved, self._disk.first_hole(fd)))
            if self.random:
                self._advise("madvise", 0, self.size, _MADV_RANDOM)
        return self._map

    def _is_solid(self, upto: int) -> None:
        """In this order: a thread may come upon a bad sector meanwhile."""
        self.solid = max(self.solid, upto)
        if self._has_bad_sector:
            self.solid = 0

    def map_now(self) -> None:
        """For who must not fail later. Raises StoreFileError."""
        _ = self.map

    @property
    def mapped(self) -> bool:
        return self._map is not None

    def read(self, position: int, length: int) -> bytes:
        """A copy of some bytes; short at the end of the file. Through the mapping, if there is one,
        where it is ``solid``; else with a descriptor that is kept, but for one of very many files
        (``random``). For one thread. Raises StoreFileError, also when the file has become shorter.
        """
        if position + length <= self.solid:
            return bytes(self.map[position : position + length])
        if self.random:
            return self.read_unmapped(position, length)
        try:  # without the context manager, which takes longer than to read
            if self._reading is None:
                self._reading = self._disk.open(self._where, "read")
            return self._whole(self._disk.read(self._reading, length, position), position, length)
        except OSError as error:
            return self._left_after(error, position, length)

    def view(self, position: int, length: int) -> memoryview:
        """The same, without a copy where that is possible. Let go of it before anything else has a
        turn."""
        if position + length <= self.solid:
            return memoryview(self.map)[position : position + length]
        return memoryview(self.read(position, length))

    def around(self, start: int, stop: int, most: int) -> tuple[Any, int] | None:
        """What holds the bytes [start, stop), and where it begins: the mapping as far as it is
        solid, else at most ``most`` bytes that were read. None when they are more. Let go of it as
        of a ``view``.
        """
        if stop <= self.solid:
            return memoryview(self.map)[: self.solid], 0
        return (self.read(start, stop - start), start) if stop - start <= most else None

    def _whole(self, data: bytes, position: int, length: int) -> bytes:
        if len(data) < min(length, self.size - position):
            raise self._shorter()
        return data

    def _shorter(self) -> StoreFileError:
        problem = (
            f"has become shorter than its {self.size} bytes: somebody has cut it; stop the "
            "broker and put it back"
        )
        return StoreFileError(self.path, problem)

    def is_in_memory(self, position: int, length: int) -> bool:
        """Whether the system has these bytes in memory; False where it does not tell. Raises
        StoreFileError."""
        page = self._disk.page_size
        start, stop = position - position % page, min(position + length, self.size)
        pages = bytearray(-(-(stop - start) // page))
        mapped = self.mapped
        try:
            return not self._advise("mincore", start, stop, pages) and pages.count(1) == len(pages)
        finally:
            if not mapped:
                self._unmap()

    def bring_in(self, position: int, length: int) -> None:
        """Have some bytes in memory, for a worker thread: then whoever looks at them through the
        mapping need not wait for the disk. Nobody looks at the file that way any more once it has
        come upon a bad sector. Raises StoreFileError.
        """
        end, scratch = min(position + length, self.size), bytearray(_STEP)
        with self._opened() as fd:
            for at in range(position, end, _STEP):
                try:
                    self._disk.read_into(fd, memoryview(scratch)[: end - at], at)
                except OSError as error:
                    self._left_after(error, at, min(_STEP, end - at))

    def read_unmapped(self, position: int, length: int) -> bytes:
        """The same without the mapping, and with no descriptor that is kept: for any thread, and
        for many files."""
        try:  # without the context manager: opening a store does it for tens of thousands of files
            fd = self._disk.open(self._where, "read")
            try:
                return self._whole(self._disk.read(fd, length, position), position, length)
            finally:
                self._disk.close(fd)
        except OSError as error:
            return self._left_after(error, position, length)

    def _left_after(self, error: OSError, position: int, length: int) -> bytes:
        """What a call that failed should have read, if only bad sectors are missing. Raises
        StoreFileError."""
        if error.errno != errno.EIO or self.on_bad_sector is None:
            raise file_error(self.path, "cannot be read", error) from error
        return self.read_what_is_left(position, length)

    def has_bad_sector(self, upto: int) -> bool:
        """Something in front of that cannot be read any more; what can is in memory then. Raises
        StoreFileError."""
        try:
            with self.reading() as read:
                for at in range(0, upto, _STEP):
                    read(at, min(_STEP, upto - at))
        except StoreFileError as error:
            if not is_of_bad_sector(error):
                raise
            return True
        return False

    def read_what_is_left(self, position: int, length: int) -> bytes:
        """As ``read_unmapped``, with zeros in the place of pages that are on bad sectors."""
        page, left = self._disk.page_size, []
        with self._opened() as fd:
            for start in range(position - position % page, position + length, page):
                at, stop = max(start, position), min(start + page, position + length)
                try:
                    data = self._disk.read(fd, stop - at, at)
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                    data = bytes(min(stop, self.size) - at)
                    self._has_bad_sector, self.solid = True, 0
                    if self.on_bad_sector is not None:
                        self.on_bad_sector(self.start + start, page)
                left.append(self._whole(data, at, stop - at))
        return b"".join(left)

    def read_to_page_end(self, position: int, length: int) -> tuple[bytes, bool]:
        """The same, with all that follows in the last page; and whether the file has nothing but
        zeros behind that."""
        disk, page = self._disk, self._disk.page_size
        stop = min(-(-(position + length) // page) * page, self.size)
        try:
            fd = disk.open(self._where, "read")
            try:
                disk.no_read_ahead(fd)  # what is in memory is no hole any more
                data = self._whole(
                    disk.read(fd, stop - position, position), position, stop - position
                )
                return data, next(self._not_zero(fd, stop), None) is None
            finally:
                disk.close(fd)
        except OSError as error:
            raise file_error(self.path, "cannot be read", error) from error

    def forget(self, position: int, length: int) -> None:
        """The system need not keep these bytes in memory. Only thrift; may do nothing."""
        with contextlib.suppress(OSError):
            fd = self._disk.open(self._where, "read")
            try:
                self._disk.forget(fd, position, length)
            finally:
                self._disk.close(fd)

    def put_back(self, position: int, data: bytes, *, keeps_age: bool = False) -> None:
        """Write bytes in the place of damaged ones and sync them; for a worker thread.
        ``keeps_age``: it expires when it would have, where the system lets that be said. Raises
        StoreFileError.

        A page on a bad sector is written as a whole or not at all: what else lay there, which
        nobody can read, is zeros then.
        """
        with self._opened() as fd:
            times = self._disk.times(fd)
            try:
                self._write_all(fd, position, data)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self._write_all(fd, *self._in_whole_pages(fd, position, data))
            with translated_sync(self.path):
                self._disk.sync(fd)
            if keeps_age:
                with contextlib.suppress(OSError):
                    self._disk.set_times(fd, times)

    def _write_all(self, fd: int, position: int, data: bytes) -> None:
        """Raises OSError."""
        written = 0
        while written < len(data):
            rest = memoryview(data)[written:]
            written += self._disk.write(fd, rest, position + written)

    def _in_whole_pages(self, fd: int, position: int, data: bytes) -> tuple[int, bytes]:
        """The same bytes, with zeros beside them as far as pages go on that cannot be read. Raises
        OSError."""
        page, end = self._disk.page_size, position + len(data)
        before = self._lost(fd, position - position % page, position)
        behind = self._lost(fd, end, min(end + -end % page, self.size))
        return position - len(before), before + data + behind

    def _lost(self, fd: int, start: int, stop: int) -> bytes:
        """Zeros for this part of a page, none if it can be read. Raises OSError."""
        try:
            self._disk.read(fd, stop - start, start)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return bytes(stop - start)
        return b""

    @contextlib.contextmanager
    def reading(self) -> Iterator[Callable[[int, int], bytes]]:
        """For many reads in a row: a function like ``read_unmapped``, with one descriptor."""
        with self._opened() as fd:

            def read(position: int, length: int) -> bytes:
                try:
                    return self._whole(self._disk.read(fd, length, position), position, length)
                except OSError as error:
                    return self._left_after(error, position, length)

            yield read

    def write_again(self, position: int, length: int) -> None:
        """Write some bytes as they are. Raises StoreFileError, also where one cannot be read."""
        with self._opened() as fd:
            data = self._whole(self._disk.read(fd, length, position), position, length)
        self.write(position, data)

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Many bytes at once, where they are reserved: without the mapping, which would be a page
        fault for every page of them. Raises StoreFileError; part of them may be there then.
        """
        try:  # without the context manager, which takes as long as a small write
            if self._writing is None:
                self._writing = self._disk.open(self._where, "write")
            written = self._disk.write(self._writing, data, position)
            while written < len(data):
                rest = memoryview(data)[written:]
                written += self._disk.write(self._writing, rest, position + written)
        except OSError as error:
            raise file_error(self.path, "cannot be written", error) from error

    def reserve(self, upto: int) -> None:
        """Give disk blocks to everything below position ``upto``. Raises OutOfSpaceError."""
        upto = min(upto, self.size)
        if upto <= self.reserved:
            return
        with self.turns:
            if upto > self.reserved:
                with self._opened() as fd:
                    self._disk.allocate(fd, self.reserved, upto - self.reserved)
                self.reserved = max(self.reserved, upto)
            if self.mapped:
                self._is_solid(self.reserved)

    def has_blocks(self, upto: int) -> None:
        """Everything below position ``upto`` is ``reserved``, if the system says so: the file was
        written before. Raises StoreFileError."""
        with self._opened() as fd:
            if upto <= self._disk.first_hole(fd):
                self.reserved = max(self.reserved, upto)

    def touch(self, start: int, stop: int) -> None:
        """Bring pages in for writing, for a worker thread: ``ctypes`` lets go of the GIL. Only
        speed; may do nothing."""
        start -= start % self._disk.page_size
        if start < stop:
            self._advise("madvise", start, stop, _MADV_POPULATE_WRITE)

    def lock(self, start: int, stop: int) -> None:
        """Keep pages in memory (``mlock``), for a worker thread. Raises StoreFileError when that is
        not permitted."""
        start -= start % self._disk.page_size
        if start < stop and (error := self._advise("mlock", start, stop)):
            raise StoreFileError(
                self.path, f"cannot be locked in memory: {self._disk.strerror(error)}"
            )

    def unlock(self) -> None:
        """Let go of what was locked."""
        if self._map is not None:
            self._advise("munlock", 0, self.size)

    def _advise(self, call: str, start: int, stop: int, *advice: Any) -> int:
        """One call of the C library about a range of the mapping, without the GIL; its errno, 0 for
        success."""
        return self._disk.advise(self.map, call, start, stop, *advice)

    def sync(self, start: int = 0, stop: int | None = None) -> None:
        """Write everything to the disk, unless the file was deleted; for a worker thread. With
        ``stop`` perhaps only what lies between: pages that were touched ahead need not be written
        before something is in them. Raises StoreFileError.
        """
        try:
            if (
                stop is None
                or not self._disk.syncs_parts
                or self._map is None
                or not self._sync_mapping(start, stop)
            ):
                with self._opened() as fd, translated_sync(self.path):
                    self._disk.sync(fd)
        except StoreFileError:
            if not self.deleted:
                raise

    def _sync_mapping(self, start: int, stop: int) -> bool:
        """Of this part of the mapping, what ``fdatasync`` does. False where there is no such
        call."""
        start -= start % self._disk.page_size
        error = self._advise("msync", start, stop, _MS_SYNC)
        if error and error != errno.ENOSYS:
            with translated_sync(self.path):
                raise OSError(error, self._disk.strerror(error))
        return not error

    def data_ranges(self, position: int) -> Iterator[tuple[int, int]]:
        """Ranges from ``position`` on that may hold something else than zeros (the file system
        knows its holes)."""
        with self._opened() as fd:
            yield from self._disk.data_ranges(fd, position, self.size)

    def clear_from(self, position: int) -> bool:
        """Make everything from ``position`` on zero, touching only what is not; True when something
        was there.

        Without the mapping, so that opening thousands of files does not map them.
        """
        found = False
        with self._opened() as fd:
            # read as a whole before any is written: a bad sector may be the end of a record
            for at, length in list(self._not_zero(fd, position)):
                self._disk.write(fd, bytes(length), at)
                found = True
            if found:
                with translated_sync(self.path):
                    self._disk.sync(fd)  # or it could be there again after a power failure
        return found

    def is_blank(self) -> bool:
        """It has nothing but zeros. Raises StoreFileError."""
        with self._opened() as fd:
            return next(self._not_zero(fd, 0), None) is None

    def _not_zero(self, fd: int, position: int) -> Iterator[tuple[int, int]]:
        """Pieces from ``position`` on that hold something else: where, and how long, at most a MiB.
        Raises OSError."""
        for start, stop in self._disk.data_ranges(fd, position, self.size):
            for at in range(start, stop, _STEP):
                data = self._disk.read(fd, min(_STEP, stop - at), at)
                if not _ZEROS.startswith(data):
                    yield at, len(data)

    def modified_ms(self) -> int:
        """Time of the last modification as the file system has it. Raises StoreFileError."""
        with translated(self.path, "cannot be looked at"):
            return self._disk.modified_ms(self.path)

    def seal(self) -> None:
        """Nothing more is written: from now on it is read with ``pread`` only, whatever happens to
        it."""
        self.end_writing()
        self.solid = 0

    def close(self) -> None:
        """Unmap. The file stays and can be mapped and read again."""
        self.end_writing()
        reading, self._reading = self._reading, None
        if reading is not None:
            self._disk.close(reading)
        self._unmap()

    def _unmap(self) -> None:
        self.solid = 0
        if isinstance(self._map, memoryview):
            self._map.release()
        elif self._map is not None:
            self._map.close()
        self._map = None

    def end_writing(self) -> None:
        """Let go of the descriptor of ``write``."""
        writing, self._writing = self._writing, None  # first: once, whoever else comes meanwhile
        if writing is not None:
            self._disk.close(writing)

    def delete(self) -> None:
        """Unmap and remove the file, once: a new file of the same name is left alone.

        Raises StoreFileError, also while somebody holds a view of the mapping; then the file is
        still there.
        """
        with self._disk.deleting:
            if self.deleted:
                return
            try:
                self.close()
            except BufferError as error:
                raise StoreFileError(
                    self.path, "cannot be deleted yet, somebody still reads it"
                ) from error
            with translated(self.path, "cannot be deleted"):
                # Before it is true: who syncs meanwhile looks here when the file is gone.
                self.deleted = True
                try:
                    self._disk.delete(self._where)
                except OSError:
                    self.deleted = False
                    raise

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor for a moment: tens of thousands of files must not hold one each."""
        try:
            fd = self._disk.open(self._where, "change")
            try:
                yield fd
            finally:
                self._disk.close(fd)
        except OSError as error:
            raise file_error(self.path, "cannot be used", error) from error

    def __repr__(self) -> str:
        return f"MappedFile({self._where!r}, {self.size})"
