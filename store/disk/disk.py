"""All that the store asks of an operating system about files.

``SystemDisk`` asks it; a disk of bytearrays, or one that fails when a test wants it to, can take
its place (``tests/store/memory_disk.py``). Files that are open are numbers, as POSIX has them.
Unless something else is said, every method raises OSError, with the ``errno`` of what went wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Literal, Protocol

Mode = Literal["read", "write", "change", "make", "append", "replace"]
"""How a file is opened. ``change``: to read and to write; ``make``: the same, and it is made when
it is not there; ``replace``: to write, it is made or emptied."""


LOST_AND_FOUND: Final = "lost+found"
"""In each folder that is a file system of its own; only root may look into it."""


class FileSize(Protocol):
    """What is asked of ``os.stat_result``."""

    @property
    def st_size(self) -> int: ...


class DirEntry(Protocol):
    """Something in a folder (``os.DirEntry``)."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    def is_dir(self) -> bool: ...

    def is_file(self) -> bool: ...

    def stat(self) -> FileSize: ...


class Lock(Protocol):
    """Exclusive use of a folder (``lock_file``)."""

    def acquire(self) -> None:
        """Raises StoreLockedError, StoreError."""

    def release(self) -> None: ...


class Disk(Protocol):
    """See the module."""

    page_size: int
    syncs_parts: bool
    """A part of a file may be synced by its mapping. If not, there are only those of ``sync``."""
    deleting: AbstractContextManager[object]
    """Held while a file is deleted: one thread does it."""
    counting: AbstractContextManager[object]
    """Held for a moment, around a number that one thread raises and another lowers."""

    # -- an open file

    def open(self, path: str | Path, mode: Mode) -> int: ...

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def resize(self, fd: int, size: int) -> None: ...

    def read(self, fd: int, length: int, position: int) -> bytes:
        """Short at the end of the file."""

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """The same into a buffer; how many bytes."""

    def write(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        """How many bytes were written: perhaps not all."""

    def append(self, fd: int, data: bytes | memoryview) -> int:
        """The same behind what was written last; with the mode ``append`` at the end."""

    def allocate(self, fd: int, offset: int, length: int) -> None:
        """Reserve disk blocks; the bytes there stay what they are."""

    def sync(self, fd: int) -> None:
        """Return when the file's data is on the disk."""

    def times(self, fd: int) -> tuple[int, int]:
        """When it was read and when it was modified last, in nanoseconds."""

    def set_times(self, fd: int, times: tuple[int, int]) -> None:
        """That it was then. May do nothing."""

    def first_hole(self, fd: int) -> int:
        """Where the first hole of a file begins, or its end; 0 where the system does not tell.
        Never raises."""

    def data_ranges(self, fd: int, position: int, size: int) -> Iterator[tuple[int, int]]:
        """Ranges of [position, size) that may hold something else than zeros. Never raises."""

    def no_read_ahead(self, fd: int) -> None:
        """The file will be read here and there. May do nothing."""

    def forget(self, fd: int, position: int, length: int) -> None:
        """These bytes need not stay in memory. May do nothing."""

    # -- a mapping

    def map(self, fd: int, size: int, *, bare: bool) -> Any:
        """A file as bytes that are read and written in place: a ``mmap``, with a method ``close``;
        or ``bare``, with a descriptor less, a memoryview, which is released."""

    def advise(self, mapping: Any, call: str, start: int, stop: int, *advice: Any) -> int:
        """One call of the C library (``madvise``, ``mincore``, ``mlock``, ``msync`` ...) about a
        range of a mapping, without the GIL; its errno, 0 for success, ENOSYS where there is none,
        or the mapping is closed."""

    # -- names

    def listed(self, path: str | Path) -> Sequence[DirEntry]:
        """What is in a folder, by name; without what the file system keeps for itself."""

    def exists(self, path: Path) -> bool: ...

    def is_directory(self, path: Path) -> bool:
        """Whether it is there, and one. Raises StoreFileError."""

    def is_usable(self, path: Path) -> bool:
        """Whether this process may read and write it."""

    def modified_ms(self, path: Path) -> int:
        """Time of the last modification as the file system has it."""

    def contents(self, path: Path) -> bytes:
        """All of a small file."""

    def touch(self, path: Path) -> None:
        """Make an empty file if there is none."""

    def replace(self, source: Path, target: Path) -> None:
        """Give a file that was synced the name of another, at once."""

    def delete(self, path: str | Path) -> None:
        """A file; nothing to do where there is none."""

    def make_directories(self, path: Path) -> None:
        """With all above; nothing to do where it is there."""

    def delete_directory(self, path: Path) -> None:
        """Raises OSError unless it is empty."""

    def delete_tree(self, path: Path) -> None:
        """With all in it, as far as that goes. Never raises."""

    def sync_directory(self, path: Path) -> None:
        """Return when the directory's entries are on the disk. Raises StoreFileError."""

    def lock(self, path: Path) -> Lock:
        """Of a store: this file in it. Not acquired yet. Does not raise."""

    def lock_folder(self, path: Path) -> Lock:
        """Of a folder as such, in which nothing is made. Not acquired yet. Does not raise."""

    # -- the system

    def strerror(self, number: int) -> str:
        """What an ``errno`` says. Never raises."""

    def new_lock(self) -> AbstractContextManager[object]:
        """One that threads share."""

    def used_ratio(self, path: Path) -> float:
        """How full the file system is for an ordinary user, 0.0 to 1.0 in whole percent, rounded up
        (UtilAll)."""

    def memory_size(self) -> int:
        """Bytes of physical memory; a pull tells "on disk" from "in memory" by it."""

    def most_mappings(self) -> int:
        """How many files may be mapped for consume queues."""
