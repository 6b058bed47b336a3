"""What can go wrong with a store directory. Each text names the file and says what to do.

What an errno of the system means for the store is decided here, and nowhere else:

===========================  ===============  ==================================================
errno                        error            what the store does
===========================  ===============  ==================================================
any, of a sync               SyncFailedError  refuses puts until it is opened again
ENOSPC, EDQUOT               OutOfSpaceError  tries again; puts that need space are refused
EMFILE, ENFILE, ENOMEM,      ShortageError    tries again; puts meanwhile are refused
ENOBUFS, EINTR, EAGAIN
any other (EACCES, EROFS,    StoreFileError   tries again, says so; what needs the file is
EIO ...)                                      refused
===========================  ===============  ==================================================

A sync of files that were written through their mapping is special: what the system could not write
it marks as written, or throws away, and the next sync would lie. That holds for EIO, as well for
ENOSPC, EDQUOT and EROFS, which come where the space of a file could not be reserved (NFS, copy on
write), and for ENOMEM and the like: Linux keeps whatever stopped it from writing, and tells it once
(``errseq_t``). To have no descriptor for a sync says nothing about the data: it has not begun.
Files that are written as a whole each time (checkpoint, tables) may be tried again after anything.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_SHORT: Final = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EINTR, errno.EAGAIN)
)


class StoreError(Exception):
    """Base of all errors of the store. The records themselves are judged by ``RecordError``."""

    is_operating: Final = True
    """No bug: a request that comes to it is answered with its text (``remoting.dispatch``)."""


class BrokenPromiseError(StoreError):
    """The next step would break a promise (``docs/design/promises.md``), and is not done: logs or
    identities were mixed up, or the mistake is here."""


class StoreConfigError(StoreError):
    """A property of the store has a value that it cannot take."""


class StoreFileError(StoreError):
    """A file or directory of the store is not what it must be, or cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class MissingFileError(StoreFileError):
    """There is a hole in a sequence of files."""

    def __init__(self, path: Path, start: int, before: Path, behind: Path, *, empty: bool) -> None:
        super().__init__(
            path,
            f"is {'empty' if empty else 'missing'} between {before.name} and {behind.name}",
        )
        self.start = start
        """Offset of the first byte that is missing."""
        self.stop: int = int(behind.name)
        """Offset of the first byte that is there again."""


class WrongLengthError(StoreFileError):
    """A file is not as long as all files of its kind must be."""


class OutOfSpaceError(StoreFileError):
    """The disk (or the quota) is full. Nothing was written; the same call succeeds once there is
    space."""


class ShortageError(StoreFileError):
    """The system is short of descriptors or memory just now, or was interrupted; the same call may
    succeed the next time."""


class SyncFailedError(StoreFileError):
    """A sync failed: nobody knows what of the file is on the disk, and no later sync will tell."""


class StoreLockedError(StoreError):
    """Another process has the store open."""


def file_error(path: Path, problem: str, error: OSError) -> StoreFileError:
    """What an error of the system about a file means: see the module."""
    kinds = {**dict.fromkeys(_FULL, OutOfSpaceError), **dict.fromkeys(_SHORT, ShortageError)}
    return kinds.get(error.errno or 0, StoreFileError)(
        path, f"{problem}: {error.strerror or error}"
    )


def is_of_bad_sector(error: Exception) -> bool:
    """The disk has lost what was to be read: what is derived can be made again."""
    cause = error.__cause__ if isinstance(error, StoreFileError) else error
    return isinstance(cause, OSError) and cause.errno == errno.EIO


@contextlib.contextmanager
def translated(path: Path, problem: str) -> Iterator[None]:
    """OSError becomes an error of the store that names the file."""
    try:
        yield
    except OSError as error:
        raise file_error(path, problem, error) from error


@contextlib.contextmanager
def translated_sync(path: Path) -> Iterator[None]:
    """The same around the call that syncs, and nothing else."""
    try:
        yield
    except OSError as error:
        problem = file_error(path, "cannot be synced", error).problem
        raise SyncFailedError(path, problem) from error
