"""System calls that fail when a test wants them to: those of this process about files below one
folder.

They are seen where Python asks the system (functions of ``os``, ``mmap``, ``open``, and what
``MappedFile`` asks of the C library), so that nothing of the code under test has to know.
``shim.c`` does the same to a process from outside.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import mmap
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from aiorocketmq.store.disk import mapped_file, system_disk
from aiorocketmq.store.disk.bare_mapping import bare_mapping

PASSING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN)
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN: Final = (errno.EACCES, errno.EROFS)

_OPENING: Final = ("open", "open_new", "io.open", "scandir", "listdir", "mmap")
_CHANGING: Final = ("open_new", "mkdir", "unlink", "rmdir", "replace", "rename", "ftruncate")
_TAKING_SPACE: Final = (
    "open_new",
    "mkdir",
    "replace",
    "ftruncate",
    "posix_fallocate",
    "pwrite",
    "write",
)
SYNCING: Final = ("fdatasync", "fsync", "msync")


class Call(NamedTuple):
    """One system call: the ``number``-th (from 0) of this name about this file."""

    name: str
    path: str
    """Relative to the folder."""
    number: int


def can_last(number: int, name: str) -> bool:
    """Whether a machine in that state (no descriptors, a full disk ...) would answer such a call
    so."""
    if number in FULL:
        return name in _TAKING_SPACE
    if number in (errno.EMFILE, errno.ENFILE):
        return name in _OPENING
    if number == errno.EROFS:
        return name in (*_CHANGING, "open")
    if number == errno.EACCES:
        return name in (*_CHANGING, "open", "io.open", "scandir", "listdir")
    return True


class Faults:
    """Use as ``with``. ``wanted`` says for each call which errno it gets, 0 for none; every call is
    kept in ``calls``."""

    def __init__(self, root: Path) -> None:
        self.calls: list[Call] = []
        self.wanted: Callable[[Call], int] = lambda _call: 0
        self.injected: list[Call] = []
        self._root: Final = str(root)
        self._fds: Final[dict[int, str]] = {}
        self._seen: Final[Counter[tuple[str, str]]] = Counter()
        self._lock: Final = threading.Lock()
        self._saved: Final[list[tuple[Any, str, Any]]] = []

    def heal(self) -> None:
        """From now on nothing fails."""
        self.wanted = lambda _call: 0

    # -- what is asked

    def _relative(self, path: Any) -> str | None:
        if isinstance(path, int):
            return self._fds.get(path)
        text = os.fsdecode(path)
        return text[len(self._root) + 1 :] or "." if text.startswith(self._root) else None

    def check(self, name: str, path: Any) -> None:
        """Raises OSError when this call is to fail."""
        relative = self._relative(path)
        if relative is None:
            return
        with self._lock:
            call = Call(name, relative, self._seen[name, relative])
            self._seen[name, relative] += 1
            self.calls.append(call)
            number = self.wanted(call)
            if number:
                self.injected.append(call)
        if number:
            raise OSError(number, os.strerror(number), str(path))

    # -- where it is asked

    def __enter__(self) -> Self:
        for name in (
            "pread", "preadv", "pwrite", "write", "ftruncate", "posix_fallocate", "fdatasync",
            "fsync", "mkdir", "unlink",
            "rmdir", "rename", "replace", "scandir", "listdir", "stat", "access", "statvfs",
            "lseek", "fchmod",
        ):  # fmt: skip
            self._patch(os, name, self._checked(name, getattr(os, name)))
        self._patch(os, "open", self._open)
        self._patch(os, "close", self._close)
        self._patch(io, "open", self._io_open)
        self._patch(builtins, "open", self._io_open)
        self._patch(fcntl, "flock", self._checked("flock", fcntl.flock))
        self._patch(mmap, "mmap", self._mmap(mmap.mmap))
        bare = bare_mapping
        self._patch(
            system_disk,
            "bare_mapping",
            lambda libc, fd, size: (self.check("mmap", fd), bare(libc, fd, size))[1],
        )
        self._patch(mapped_file.MappedFile, "_advise", self._advise(mapped_file.MappedFile._advise))
        return self

    def __exit__(self, *_: object) -> None:
        while self._saved:
            setattr(*self._saved.pop())

    def _patch(self, owner: Any, name: str, new: Any) -> None:
        self._saved.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)

    def _checked(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(path: Any = ".", *args: Any, **options: Any) -> Any:
            self.check(name, path)
            return function(path, *args, **options)

        return checked

    def _open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:
        new = flags & os.O_CREAT and not _is_there(path)
        self.check("open_new" if new else "open", path)
        fd: int = self._original(os, "open")(path, flags, *args, **options)
        if (relative := self._relative(path)) is not None:
            self._fds[fd] = relative
        return fd

    def _close(self, fd: int) -> None:
        self._fds.pop(fd, None)
        self._original(os, "close")(fd)

    def _io_open(self, path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if self._relative(path) is None:
            return self._original(io, "open")(path, mode, *args, **options)
        if not isinstance(path, int):
            self.check("open_new" if "w" in mode and not _is_there(path) else "io.open", path)
        return _File(self, self._original(io, "open")(path, mode, *args, **options), path)

    def _mmap(self, original: Any) -> Any:
        def mapped(fd: int, size: int, *args: Any, **options: Any) -> Any:
            self.check("mmap", fd)
            return original(fd, size, *args, **options)

        return mapped

    def _advise(self, original: Callable[..., int]) -> Callable[..., int]:
        def advise(file: mapped_file.MappedFile, call: str, *args: Any) -> int:
            try:
                self.check(call, file.path)
            except OSError as error:
                return error.errno or 0
            return original(file, call, *args)

        return advise

    def _original(self, owner: Any, name: str) -> Any:
        return next(saved for where, what, saved in self._saved if where is owner and what == name)


class _File:
    """A file of Python's own, whose writes and syncs are seen."""

    def __init__(self, faults: Faults, file: Any, path: Any) -> None:
        self._faults = faults
        self._file = file
        self._fd: int = file.fileno()
        faults._fds[self._fd] = str(faults._relative(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._faults._fds.pop(self._fd, None)
        self._file.close()

    def read(self, *args: Any) -> Any:
        self._faults.check("read", self._fd)
        return self._file.read(*args)

    def write(self, data: Any) -> Any:
        self._faults.check("write", self._fd)
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _is_there(path: Any) -> bool:
    try:
        os.lstat(path)
    except OSError:
        return False
    return True
