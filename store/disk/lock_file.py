"""The two marks in a store directory: ``lock`` (somebody has it open) and ``abort`` (it was not
closed in order); and the lock of a commit log that lies elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from ..model.errors import StoreError, StoreLockedError, file_error, translated
from .disk import Disk

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class LockFile:
    """Exclusive use of the directory, until the process ends at the latest.

    Locked twice: the byte range [0, 1) is what a broker of the original locks on its start,
    ``flock`` also keeps out a second store of this process.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._fd = -1

    def acquire(self) -> None:
        """Raises StoreLockedError when another process (or store) has it, StoreError where locks do
        not exist.
        """
        if fcntl is None:
            raise StoreError(
                "a store needs POSIX file locks and file reservation, which this platform does "
                "not have"
            )
        with translated(self.path, "cannot be opened"):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            with contextlib.suppress(OSError):  # only for people who look into it
                os.pwrite(fd, b"lock", 0)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise file_error(self.path, "cannot be locked", error) from error
            raise StoreLockedError(
                f"{self.path.parent} is in use by another process; stop it, or choose another "
                "storePathRootDir"
            ) from error
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FolderLock:
    """Exclusive use of one folder of a store that may lie elsewhere, and so in two stores: that of
    the commit log. Nothing is made in it, for the original refuses files there that it does not
    know, and locks nothing there. Where the system locks no folders (some of NFS) there is no such
    lock."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._fd = -1

    def acquire(self) -> None:
        """Raises StoreLockedError when another store has it, StoreFileError."""
        if fcntl is None:
            return
        with translated(self.path, "cannot be opened"):
            fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno == errno.EAGAIN:
                raise StoreLockedError(
                    f"{self.path} is the commit log of another process, though its "
                    "storePathRootDir is another one; stop it, or give each its own "
                    "storePathCommitLog (storePathDLedgerCommitLog)"
                ) from error
            return
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class AbortFile:
    """Exists while a store is open: found on opening it tells of a crash."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path: Final = path
        self._disk: Final = disk

    def exists(self) -> bool:
        return self._disk.exists(self.path)

    def create(self) -> None:
        """Durable, before anything else is written. Raises StoreFileError."""
        with translated(self.path, "cannot be created"):
            self._disk.touch(self.path)
        self._disk.sync_directory(self.path.parent)

    def remove(self) -> None:
        """Only after everything else is on the disk. Raises StoreFileError."""
        with translated(self.path, "cannot be removed"):
            self._disk.delete(self.path)
        self._disk.sync_directory(self.path.parent)
