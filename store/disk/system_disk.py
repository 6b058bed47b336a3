"""The disk of the operating system."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

from ..model.errors import translated, translated_sync
from . import holes
from .bare_mapping import bare_mapping, most_mappings
from .disk import LOST_AND_FOUND, Disk, Mode
from .lock_file import FolderLock, LockFile

_NO_FALLOCATE: Final = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_STEP: Final = 1 << 20
_USUAL_OPEN_FILES: Final = 512
_UNLIMITED_OPEN_FILES: Final = 1 << 20
_HAS_FADVISE: Final = hasattr(os, "posix_fadvise")
_FLAGS: Final[dict[str, int]] = {
    "read": os.O_RDONLY,
    "write": os.O_WRONLY,
    "change": os.O_RDWR,
    "make": os.O_RDWR | os.O_CREAT,
    "append": os.O_WRONLY | os.O_APPEND,
    "replace": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
}


class PosixDisk(Disk):
    """One that syncs whole files."""

    page_size = mmap.PAGESIZE
    syncs_parts = False
    deleting = threading.Lock()
    counting = threading.Lock()

    # -- an open file

    def open(self, path: str | Path, mode: Mode) -> int:
        return os.open(path, _FLAGS[mode], 0o666)

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def resize(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def read(self, fd: int, length: int, position: int) -> bytes:
        data = os.pread(fd, length, position)
        while 0 < len(data) < length:  # a bad sector may follow, or a network bring less
            more = os.pread(fd, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        return os.preadv(fd, (buffer,), position)

    def write(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        return os.pwrite(fd, data, position)

    def append(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def allocate(self, fd: int, offset: int, length: int) -> None:
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
        getattr(os, "fdatasync", os.fsync)(fd)

    def times(self, fd: int) -> tuple[int, int]:
        status = os.fstat(fd)
        return status.st_atime_ns, status.st_mtime_ns

    def set_times(self, fd: int, times: tuple[int, int]) -> None:
        if os.utime in os.supports_fd:
            os.utime(fd, ns=times)

    def first_hole(self, fd: int) -> int:
        return holes.first_hole(fd)

    def data_ranges(self, fd: int, position: int, size: int) -> Iterator[tuple[int, int]]:
        return holes.data_ranges(fd, position, size)

    def no_read_ahead(self, fd: int) -> None:
        if _HAS_FADVISE:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)

    def forget(self, fd: int, position: int, length: int) -> None:
        if _HAS_FADVISE:
            os.posix_fadvise(fd, position, length, os.POSIX_FADV_DONTNEED)

    # -- a mapping

    def map(self, fd: int, size: int, *, bare: bool) -> Any:
        if bare and _LIBC is not None:
            return bare_mapping(_LIBC, fd, size)
        return mmap.mmap(fd, size)

    def advise(self, mapping: Any, call: str, start: int, stop: int, *advice: Any) -> int:
        function = getattr(_LIBC, call, None)
        if function is None:
            return errno.ENOSYS
        pages = [
            (ctypes.c_char * len(item)).from_buffer(item) if isinstance(item, bytearray) else item
            for item in advice
        ]
        try:
            anchor = ctypes.c_char.from_buffer(mapping, start)
        except ValueError:  # another thread is closing it, which lets others have a turn
            return errno.ENOSYS
        try:
            failed = function(
                ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(stop - start), *pages
            )
            return ctypes.get_errno() if failed else 0
        finally:
            del anchor  # the last view of the mapping

    # -- names

    def listed(self, path: str | Path) -> list[os.DirEntry[str]]:
        with os.scandir(os.fspath(path)) as scan:
            return sorted((entry for entry in scan if entry.name != LOST_AND_FOUND), key=_name)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_directory(self, path: Path) -> bool:
        with translated(path, "cannot be looked at"):
            return path.is_dir()

    def is_usable(self, path: Path) -> bool:
        return os.access(
            path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids
        )

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def contents(self, path: Path) -> bytes:
        return path.read_bytes()

    def touch(self, path: Path) -> None:
        path.touch()

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def delete(self, path: str | Path) -> None:
        Path(path).unlink(missing_ok=True)

    def make_directories(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def delete_directory(self, path: Path) -> None:
        path.rmdir()

    def delete_tree(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def sync_directory(self, path: Path) -> None:
        with translated(path, "cannot be opened to sync it"):
            fd = os.open(path, os.O_RDONLY)
            try:
                with translated_sync(path):
                    os.fsync(fd)
            finally:
                os.close(fd)

    def lock(self, path: Path) -> LockFile:
        return LockFile(path)

    def lock_folder(self, path: Path) -> FolderLock:
        return FolderLock(path)

    # -- the system

    def strerror(self, number: int) -> str:
        return os.strerror(number)

    def new_lock(self) -> contextlib.AbstractContextManager[object]:
        return threading.Lock()

    def used_ratio(self, path: Path) -> float:
        usage = shutil.disk_usage(path)
        total = usage.used + usage.free
        return -(-usage.used * 100 // total) / 100 if total else 0.0

    def memory_size(self) -> int:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def most_mappings(self) -> int:
        """Half of what the kernel allows a process; where mappings keep descriptors, a quarter of
        the files that it may have open."""
        if _LIBC is not None and (most := most_mappings()):
            return most // 2
        if resource is None:
            return _USUAL_OPEN_FILES // 4
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (_UNLIMITED_OPEN_FILES if soft == resource.RLIM_INFINITY else soft) // 4


class SystemDisk(PosixDisk):
    """One that syncs parts of a file where there is such a call."""

    syncs_parts = sys.platform == "linux"


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):  # not a POSIX system
        return None


_LIBC: Final = _libc()
