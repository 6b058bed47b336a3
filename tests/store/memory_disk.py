"""A disk of bytearrays: a whole store without a file.

What is written is there at once, as it is for a process that is killed: ``copy`` is what the next
one finds. Nothing is lost and nothing is slow; subclasses may do otherwise.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from aiorocketmq.store.disk.disk import Disk, Mode
from aiorocketmq.store.model.errors import StoreLockedError


class Content(bytearray):
    """The bytes of a file, and its mapping: slices are copies, as those of ``mmap``."""

    modified_ms = 0
    durable: bytes | None = None
    """What of it was synced; None: nothing was (``tests/simulation/disk.py``)."""
    forgotten: Mapping[int, bytes] = {}
    """Where a sync failed: the sectors that count as written all the same, by their position."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return bytes(found) if isinstance(key, slice) else found

    def close(self) -> None:
        """As ``mmap.close``."""


class Size(NamedTuple):
    st_size: int


class Entry(NamedTuple):
    """Something in a folder."""

    path: str
    content: Content | None
    """None: it is a folder."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    def is_dir(self) -> bool:
        return self.content is None

    def is_file(self) -> bool:
        return self.content is not None

    def stat(self) -> Size:
        return Size(len(self.content or b""))


class MemoryLock:
    def __init__(self, held: set[str], path: Path) -> None:
        self._held = held
        self._path = str(path)
        self._mine = False

    def acquire(self) -> None:
        if self._path in self._held:
            raise StoreLockedError(f"{self._path} is in use")
        self._held.add(self._path)
        self._mine = True

    def release(self) -> None:
        if self._mine:
            self._held.discard(self._path)
            self._mine = False


def folder_of(path: str) -> str:
    """Of the text of a ``Path``. (To make one of it for each file took a third of the time that
    simulated groups need.)"""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


class MemoryDisk(Disk):
    """See the module. For one thread."""

    page_size = 4096
    syncs_parts = False
    deleting: AbstractContextManager[object] = nullcontext()
    counting: AbstractContextManager[object] = nullcontext()

    def __init__(self) -> None:
        self.files: dict[str, Content] = {}
        self.folders: set[str] = {"/"}
        self.now_ms = 0
        self.syncs = 0
        self._held: set[str] = set()
        self._open: dict[int, tuple[Content, bool]] = {}
        """By descriptor, and whether it appends."""
        self._ends: dict[int, int] = {}
        """Where ``append`` goes on."""

    def copy(self) -> MemoryDisk:
        """What is on it now, for another process."""
        other = type(self)()
        other.files = {path: Content(content) for path, content in self.files.items()}
        other.folders = set(self.folders)
        other.now_ms = self.now_ms
        return other

    # -- an open file

    def open(self, path: str | Path, mode: Mode) -> int:
        content = self.files.get(str(path))
        if content is None:
            if mode not in ("make", "replace") or str(path) in self.folders:
                raise _error(errno.ENOENT, path)
            self._in_folder(path)
            content = self.files[str(path)] = Content()
        elif mode == "replace":
            content.clear()
        fd = next(number for number in range(3, 1 << 20) if number not in self._open)
        self._open[fd] = (content, mode == "append")
        self._ends[fd] = 0
        return fd

    def close(self, fd: int) -> None:
        del self._open[fd]

    def opened(self) -> list[str]:
        """Files that are open."""
        names = {id(content): path for path, content in self.files.items()}
        return sorted(names.get(id(each), "deleted") for each, _ in self._open.values())

    def size(self, fd: int) -> int:
        return len(self._open[fd][0])

    def resize(self, fd: int, size: int) -> None:
        content = self._open[fd][0]
        if size < len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))

    def read(self, fd: int, length: int, position: int) -> bytes:
        return bytes(self._open[fd][0][position : position + length])

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        data = self.read(fd, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def write(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        content = self._open[fd][0]
        content.modified_ms = self.now_ms
        if position + len(data) > len(content):
            content.extend(bytes(position + len(data) - len(content)))
        with memoryview(content) as view:
            view[position : position + len(data)] = data
        return len(data)

    def append(self, fd: int, data: bytes | memoryview) -> int:
        content, at_end = self._open[fd]
        position = len(content) if at_end else self._ends[fd]
        self._ends[fd] = position + len(data)
        return self.write(fd, data, position)

    def allocate(self, fd: int, offset: int, length: int) -> None:
        if offset + length > self.size(fd):
            self.resize(fd, offset + length)

    def sync(self, fd: int) -> None:
        self.syncs += 1

    def times(self, fd: int) -> tuple[int, int]:
        return 0, self._open[fd][0].modified_ms * 1_000_000

    def set_times(self, fd: int, times: tuple[int, int]) -> None:
        self._open[fd][0].modified_ms = times[1] // 1_000_000

    def first_hole(self, fd: int) -> int:
        return self.size(fd)

    def data_ranges(self, fd: int, position: int, size: int) -> Iterator[tuple[int, int]]:
        if position < size:
            yield position, size

    def no_read_ahead(self, fd: int) -> None: ...

    def forget(self, fd: int, position: int, length: int) -> None: ...

    # -- a mapping

    def map(self, fd: int, size: int, *, bare: bool) -> Any:
        content = self._open[fd][0]
        return memoryview(content) if bare else content

    def advise(self, mapping: Any, call: str, start: int, stop: int, *advice: Any) -> int:
        if call == "mincore":
            advice[0][:] = b"\1" * len(advice[0])
        return 0

    # -- names

    def listed(self, path: str | Path) -> list[Entry]:
        folder = str(path)
        if folder not in self.folders:
            raise _error(errno.ENOTDIR if folder in self.files else errno.ENOENT, path)
        found = [Entry(name, content) for name, content in self.files.items()]
        found += [Entry(name, None) for name in self.folders - {"/"}]
        return sorted(entry for entry in found if folder_of(entry.path) == folder)

    def exists(self, path: Path) -> bool:
        return str(path) in self.files or str(path) in self.folders

    def is_directory(self, path: Path) -> bool:
        return str(path) in self.folders

    def is_usable(self, path: Path) -> bool:
        return self.exists(path)

    def modified_ms(self, path: Path) -> int:
        return self._file(path).modified_ms

    def contents(self, path: Path) -> bytes:
        return bytes(self._file(path))

    def touch(self, path: Path) -> None:
        if str(path) not in self.files:
            self.close(self.open(path, "make"))

    def replace(self, source: Path, target: Path) -> None:
        self.files[str(target)] = self._file(source)
        del self.files[str(source)]

    def delete(self, path: str | Path) -> None:
        self.files.pop(str(path), None)

    def make_directories(self, path: Path) -> None:
        for folder in (path, *path.parents):
            if str(folder) in self.files:
                raise _error(errno.EEXIST, folder)
            self.folders.add(str(folder))

    def delete_directory(self, path: Path) -> None:
        if self.listed(path):
            raise _error(errno.ENOTEMPTY, path)
        self.folders.discard(str(path))

    def delete_tree(self, path: Path) -> None:
        inside = f"{path}/"
        self.files = {p: c for p, c in self.files.items() if not p.startswith(inside)}
        self.folders = {p for p in self.folders if p != str(path) and not p.startswith(inside)}

    def sync_directory(self, path: Path) -> None:
        self.syncs += 1

    def lock(self, path: Path) -> MemoryLock:
        return MemoryLock(self._held, path)

    def lock_folder(self, path: Path) -> MemoryLock:
        return MemoryLock(self._held, path)

    # -- the system

    def strerror(self, number: int) -> str:
        return os.strerror(number)

    def new_lock(self) -> AbstractContextManager[object]:
        return nullcontext()

    def used_ratio(self, path: Path) -> float:
        return 0.1

    def memory_size(self) -> int:
        return 1 << 30

    def most_mappings(self) -> int:
        return 1 << 10

    def _file(self, path: Path) -> Content:
        content = self.files.get(str(path))
        if content is None:
            raise _error(errno.ENOENT, path)
        return content

    def _in_folder(self, path: str | Path) -> None:
        if folder_of(str(path)) not in self.folders:
            raise _error(errno.ENOENT, path)


def _error(number: int, path: str | Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
