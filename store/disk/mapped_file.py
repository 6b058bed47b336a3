"""A file of fixed length that is mapped into memory, and the few things asked of a disk.

Rules that keep the process alive and the event loop moving (they hold for every file of the store):

* Nothing touches a hole of a mapping that was not *reserved*: a page that the system cannot give is
  a SIGBUS, which no ``except`` catches. It cannot give one for a hole of a file on a full disk, to
  who writes there, and on a full tmpfs not even to who reads; nor behind the end of a file that
  somebody has cut. So what is written through the mapping was reserved before (``posix_fallocate``:
  a full disk is ENOSPC there), and what is read through it lies below ``solid``. All else is read
  with ``pread``, to which a hole is zeros, what is missing is missing, and a bad sector is EIO.
* No view of the mapping outlives a turn of the event loop: slices are copies (``bytes``), structs
  pack and unpack in place, and who sends a ``view`` lets go of it at once. So a file can be closed
  between turns; a thread that deletes one tries again.
* The mapping is synced with ``fdatasync`` or ``msync`` from a worker thread; ``mmap.flush`` would
  hold the GIL.
* Pages that will be written soon are touched ahead in a worker thread, for the same reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

from ..model.errors import StoreFileError, file_error, translated, translated_sync
from .bare_mapping import bare_mapping, most_mappings
from .holes import data_ranges, first_hole, not_zero

_NO_FALLOCATE: Final = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_MADV_POPULATE_WRITE: Final = 23
_MS_SYNC: Final = 4
_STEP: Final = 1 << 20
_FEW_FILES: Final = 512
_MANY_FILES: Final = 1 << 20
_HAS_FADVISE: Final = hasattr(os, "posix_fadvise")
_DELETING: Final = threading.Lock()


class Disk:
    """What the store asks of the operating system, in one place that a test can replace."""

    syncs_parts: bool = False
    """A part of a file may be synced by its mapping. If not, there are only those of ``sync``."""

    def allocate(self, fd: int, offset: int, length: int) -> None:
        """Reserve disk blocks; the bytes there stay what they are. Raises OSError."""
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(fd, offset, length)
                return
            except OSError as error:
                if error.errno not in _NO_FALLOCATE:
                    raise
        for at in range(offset, offset + length, _STEP):
            size = min(_STEP, offset + length - at)
            os.pwrite(fd, os.pread(fd, size, at).ljust(size, b"\0"), at)

    def sync(self, fd: int) -> None:
        """Return when the file's data is on the disk. Raises OSError."""
        getattr(os, "fdatasync", os.fsync)(fd)

    def is_directory(self, path: Path) -> bool:
        """Whether it is there, and one. Raises StoreFileError."""
        with translated(path, "cannot be looked at"):
            return path.is_dir()

    def sync_directory(self, path: Path) -> None:
        """Return when the directory's entries are on the disk. Raises StoreFileError."""
        with translated(path, "cannot be opened to sync it"):
            fd = os.open(path, os.O_RDONLY)
            try:
                with translated_sync(path):
                    os.fsync(fd)
            finally:
                os.close(fd)

    def replace(self, source: Path, target: Path) -> None:
        """Give a file that was synced the name of another, at once. Raises OSError."""
        os.replace(source, target)

    def used_ratio(self, path: Path) -> float:
        """How full the file system is for an ordinary user, 0.0 to 1.0 in whole percent, rounded up
        (UtilAll)."""
        usage = shutil.disk_usage(path)
        total = usage.used + usage.free
        return -(-usage.used * 100 // total) / 100 if total else 0.0

    def memory_size(self) -> int:
        """Bytes of physical memory; a pull tells "on disk" from "in memory" by it."""
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def most_mappings(self) -> int:
        """How many files may be mapped for consume queues: half of what the kernel allows a
        process; where mappings keep descriptors, a quarter of the files that it may have open.
        """
        if _LIBC is not None and (most := most_mappings()):
            return most // 2
        if resource is None:
            return _FEW_FILES // 4
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (_MANY_FILES if soft == resource.RLIM_INFINITY else soft) // 4


class SystemDisk(Disk):
    """As the operating system has it."""

    syncs_parts: bool = sys.platform == "linux"


class MappedFile:
    """One file; its name is the offset of its first byte, in decimal, 20 digits wide."""

    __slots__ = (
        "_disk", "_map", "_reading", "_where", "_writing", "deleted", "random", "reserved", "size",
        "solid", "start",
    )  # fmt: skip

    def __init__(self, path: str | Path, size: int, disk: Disk) -> None:
        self._where: Final = os.fspath(
            path
        )  # opening a store makes tens of thousands: a Path takes ten times as long
        self.start: Final = int(os.path.basename(self._where))
        self.size: Final = size
        self.reserved: int = 0
        """Bytes from the start of the file that are known to have disk blocks."""
        self.solid: int = 0
        """Bytes from the start of the mapping that may be touched: reserved, or without a hole when
        it was made. 0 without a mapping, and once it is sealed."""
        self.deleted: bool = False
        self.random: bool = False
        """Set before it is mapped, for one of very many files: the mapping keeps no descriptor
        (``bare_mapping``), and only the page that is needed is brought in. Else the system reads
        ahead, up to some megabytes, through the holes of a new file as well, and that is the work
        of whoever writes its first byte."""
        self._disk: Final = disk
        self._map: mmap.mmap | memoryview | None = None
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
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                os.ftruncate(fd, size)
            finally:
                os.close(fd)
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
                if os.fstat(fd).st_size < self.size:
                    raise self._shorter()
                if _LIBC is not None and self.random:
                    self._map = bare_mapping(_LIBC, fd, self.size)
                else:
                    self._map = mmap.mmap(fd, self.size)
                self.solid = max(self.reserved, first_hole(fd))
            if self.random and hasattr(mmap, "MADV_RANDOM"):
                self._advise("madvise", 0, self.size, mmap.MADV_RANDOM)
        return self._map

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
                self._reading = os.open(self._where, os.O_RDONLY)
            return self._whole(os.pread(self._reading, length, position), position, length)
        except OSError as error:
            raise file_error(self.path, "cannot be read", error) from error

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
        start, stop = position - position % mmap.PAGESIZE, min(position + length, self.size)
        pages = (ctypes.c_char * -(-(stop - start) // mmap.PAGESIZE))()
        mapped = self.mapped
        try:
            return not self._advise("mincore", start, stop, pages) and pages.raw.count(1) == len(
                pages
            )
        finally:
            if not mapped:
                self._unmap()

    def bring_in(self, position: int, length: int) -> None:
        """Have some bytes in memory, for a worker thread: then whoever looks at them through the
        mapping need not wait for the disk. Raises StoreFileError.
        """
        end, scratch = min(position + length, self.size), bytearray(_STEP)
        with self._opened() as fd:
            for at in range(position, end, _STEP):
                os.preadv(fd, (memoryview(scratch)[: end - at],), at)

    def read_unmapped(self, position: int, length: int) -> bytes:
        """The same without the mapping, and with no descriptor that is kept: for any thread, and
        for many files."""
        try:  # without the context manager: opening a store does it for tens of thousands of files
            fd = os.open(self._where, os.O_RDONLY)
            try:
                return self._whole(os.pread(fd, length, position), position, length)
            finally:
                os.close(fd)
        except OSError as error:
            raise file_error(self.path, "cannot be read", error) from error

    def read_to_page_end(self, position: int, length: int) -> tuple[bytes, bool]:
        """The same, with all that follows in the last page; and whether the file has nothing but
        zeros behind that."""
        stop = min(-(-(position + length) // mmap.PAGESIZE) * mmap.PAGESIZE, self.size)
        try:
            fd = os.open(self._where, os.O_RDONLY)
            try:
                if _HAS_FADVISE:  # no reading ahead: what is in memory is no hole any more
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
                data = self._whole(
                    os.pread(fd, stop - position, position), position, stop - position
                )
                return data, next(not_zero(fd, stop, self.size), None) is None
            finally:
                os.close(fd)
        except OSError as error:
            raise file_error(self.path, "cannot be read", error) from error

    def forget(self, position: int, length: int) -> None:
        """The system need not keep these bytes in memory. Only thrift; may do nothing."""
        if _HAS_FADVISE:
            with contextlib.suppress(OSError):
                fd = os.open(self._where, os.O_RDONLY)
                try:
                    os.posix_fadvise(fd, position, length, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(fd)

    def put_back(self, position: int, data: bytes) -> None:
        """Write bytes in the place of damaged ones and sync them; for a worker thread. Raises
        StoreFileError."""
        with self._opened() as fd:
            os.pwrite(fd, data, position)
            self._disk.sync(fd)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Callable[[int, int], bytes]]:
        """For many reads in a row: a function like ``read_unmapped``, with one descriptor."""
        with self._opened() as fd:
            yield lambda position, length: self._whole(
                os.pread(fd, length, position), position, length
            )

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Many bytes at once, where they are reserved: without the mapping, which would be a page
        fault for every page of them. Raises StoreFileError; part of them may be there then.
        """
        try:  # without the context manager, which takes as long as a small write
            if self._writing is None:
                self._writing = os.open(self._where, os.O_WRONLY)
            written = os.pwrite(self._writing, data, position)
            while written < len(data):
                written += os.pwrite(self._writing, memoryview(data)[written:], position + written)
        except OSError as error:
            raise file_error(self.path, "cannot be written", error) from error

    def reserve(self, upto: int) -> None:
        """Give disk blocks to everything below position ``upto``. Raises OutOfSpaceError."""
        upto = min(upto, self.size)
        if upto > self.reserved:
            with self._opened() as fd:
                self._disk.allocate(fd, self.reserved, upto - self.reserved)
            self.reserved = max(self.reserved, upto)  # two threads may have reserved
            if self.mapped:
                self.solid = max(self.solid, self.reserved)

    def touch(self, start: int, stop: int) -> None:
        """Bring pages in for writing, for a worker thread: ``ctypes`` lets go of the GIL. Only
        speed; may do nothing."""
        start -= start % mmap.PAGESIZE
        if start < stop:
            self._advise("madvise", start, stop, _MADV_POPULATE_WRITE)

    def lock(self, start: int, stop: int) -> None:
        """Keep pages in memory (``mlock``), for a worker thread. Raises StoreFileError when that is
        not permitted."""
        start -= start % mmap.PAGESIZE
        if start < stop and (error := self._advise("mlock", start, stop)):
            raise StoreFileError(self.path, f"cannot be locked in memory: {os.strerror(error)}")

    def unlock(self) -> None:
        """Let go of what was locked."""
        if self._map is not None:
            self._advise("munlock", 0, self.size)

    def _advise(self, call: str, start: int, stop: int, *advice: Any) -> int:
        """One call of the C library about a range of the mapping, without the GIL; its errno, 0 for
        success."""
        function = getattr(_LIBC, call, None)
        if function is None:
            return errno.ENOSYS
        anchor = ctypes.c_char.from_buffer(self.map, start)
        try:
            failed = function(
                ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(stop - start), *advice
            )
            return ctypes.get_errno() if failed else 0
        finally:
            del anchor  # the last view of the mapping

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
        start -= start % mmap.PAGESIZE
        error = self._advise("msync", start, stop, _MS_SYNC)
        if error and error != errno.ENOSYS:
            with translated_sync(self.path):
                raise OSError(error, os.strerror(error))
        return not error

    def data_ranges(self, position: int) -> Iterator[tuple[int, int]]:
        """Ranges from ``position`` on that may hold something else than zeros (the file system
        knows its holes)."""
        with self._opened() as fd:
            yield from data_ranges(fd, position, self.size)

    def clear_from(self, position: int) -> bool:
        """Make everything from ``position`` on zero, touching only what is not; True when something
        was there.

        Without the mapping, so that opening thousands of files does not map them.
        """
        found = False
        with self._opened() as fd:
            for at, length in not_zero(fd, position, self.size):
                os.pwrite(fd, bytes(length), at)
                found = True
            if found:
                with translated_sync(self.path):
                    self._disk.sync(fd)  # or it could be there again after a power failure
        return found

    def modified_ms(self) -> int:
        """Time of the last modification as the file system has it. Raises StoreFileError."""
        with translated(self.path, "cannot be looked at"):
            return self.path.stat().st_mtime_ns // 1_000_000

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
            os.close(reading)
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
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def delete(self) -> None:
        """Unmap and remove the file, once: a new file of the same name is left alone.

        Raises StoreFileError, also while somebody holds a view of the mapping; then the file is
        still there.
        """
        with _DELETING:
            if self.deleted:
                return
            try:
                self.close()
            except BufferError as error:
                raise StoreFileError(
                    self.path, "cannot be deleted yet, somebody still reads it"
                ) from error
            with translated(self.path, "cannot be deleted"):
                self.deleted = (
                    True  # before it is true: who syncs meanwhile looks here when the file is gone
                )
                try:
                    self.path.unlink(missing_ok=True)
                except OSError:
                    self.deleted = False
                    raise

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor for a moment: tens of thousands of files must not hold one each."""
        try:
            fd = os.open(self._where, os.O_RDWR)
            try:
                yield fd
            finally:
                os.close(fd)
        except OSError as error:
            raise file_error(self.path, "cannot be used", error) from error

    def __repr__(self) -> str:
        return f"MappedFile({self._where!r}, {self.size})"


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):  # not a POSIX system
        return None


_LIBC: Final = _libc()
