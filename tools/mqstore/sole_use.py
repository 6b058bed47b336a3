"""Nobody else has a store, or its commit log, while ``rebuild``, ``mend`` and ``repair`` work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ...store.disk.disk import Lock
from ...store.disk.lock_file import FolderLock, LockFile
from ...store.inspect import StoreDirectory
from ...store.log.log_reader import FileSequence

__all__ = ["sole_use"]


@contextmanager
def sole_use(directory: StoreDirectory) -> Iterator[FileSequence]:
    """The files of the log, as they are once nobody else changes them. A commit log that lies
    elsewhere may be another store's as well. Raises StoreLockedError, StoreFileError, OSError."""
    directory.log_files()  # the errors of a directory that is none, before a lock is made in it
    with ExitStack() as locked:
        locks: list[Lock] = [LockFile(directory.root / "lock")]
        locks += map(FolderLock, dict.fromkeys(directory.commit_logs))
        for lock in locks:
            lock.acquire()
            locked.callback(lock.release)
        yield directory.log_files()
