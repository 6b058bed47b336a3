"""A sequence of mapped files that is one long range of bytes: a commit log or a consume queue.

Every file has the same size and its name is the offset of its first byte (commitlog.md §2; class
MappedFileQueue)::

    00000000000000000000   00000000001073741824   00000000002147483648

A commit log may lie in several directories (class MultiPathMappedFileQueue): number n of all files
(offset / size) is made in directory n % count of those that take new files, sorted by name. Where a
file was made it stays.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from ..model.errors import (
    BrokenPromiseError,
    MissingFileError,
    StoreConfigError,
    StoreFileError,
    WrongLengthError,
    file_error,
)
from .disk import DirEntry, Disk
from .mapped_file import MappedFile

log: Final = logging.getLogger(__name__)

_NAME_DIGITS: Final = 20


class MappedFileQueue:
    """The files of one range in order, without a hole between them."""

    __slots__ = (
        "_others",
        "_read_only",
        "_where",
        "behind_hole",
        "disk",
        "file_size",
        "files",
        "full",
        "makes_folders",
        "new_files",
        "on_bad_sector",
        "two_reserve",
        "wrong_length",
    )

    def __init__(self, directory: str | Path, file_size: int, disk: Disk) -> None:
        self._where: Final = str(directory)
        self.file_size: Final = file_size
        self.files: list[MappedFile] = []
        self.new_files: bool = False
        """A file was made or removed since the directories were synced."""
        self.behind_hole: list[MappedFile] = []
        """What ``load(derived=True)`` found behind a missing file, or from one of another length
        on: not in the range."""
        self.wrong_length: WrongLengthError | None = None
        """What is wrong with the first file of another length; only with ``load(derived=True)``."""
        self.full: frozenset[Path] = frozenset()
        """Directories that get no new file for now, unless no other is left."""
        self.makes_folders: bool = True
        """``make`` does, where there is none. If not, a folder that is moved, or not mounted any
        more, is no reason to go on in another one, of which the next start knows nothing."""
        self.two_reserve: bool = False
        """A thread reserves space in the files, and so does their writer."""
        self.on_bad_sector: Callable[[int, int], object] | None = None
        """Of each file."""
        self.disk: Final = disk
        self._others: tuple[Path, ...] = ()
        self._read_only: frozenset[Path] = frozenset()

    @classmethod
    def on_paths(
        cls, paths: Sequence[Path], read_only: Collection[Path], file_size: int, disk: Disk
    ) -> MappedFileQueue:
        """Files in several directories; those in ``read_only`` get no new ones. Raises
        StoreConfigError when no other is there.
        """
        directories = sorted({*paths, *read_only}, key=str)
        writable = [path for path in directories if path not in read_only]
        if not writable:
            raise StoreConfigError(
                "storePathCommitLog: every path is also in readOnlyCommitLogStorePaths"
            )
        queue = cls(writable[0], file_size, disk)
        queue._others = tuple(path for path in directories if path != queue.directory)
        queue._read_only = frozenset(read_only)
        return queue

    @property
    def directory(self) -> Path:
        """Where the files are, or the first of those that get new ones."""
        return Path(self._where)

    @property
    def directories(self) -> list[Path]:
        """All directories, sorted by name."""
        return sorted((self.directory, *self._others), key=str)

    @property
    def writable(self) -> list[Path]:
        """The directories that new files are made in, sorted by name."""
        return [path for path in self.directories if path not in self._read_only]

    def directory_of(self, start: int) -> Path:
        """Where the file is made that begins at ``start``."""
        if not self._others:
            return self.directory
        free = [path for path in self.writable if path not in self.full] or self.writable
        return free[start // self.file_size % len(free)]

    def load(self, *, derived: bool = False) -> None:
        """Take in the files that are there.

        A last file of length 0 is the trace of a crash while it was made, and goes; in front of
        others it counts as a hole, in front of all of them it is told. Raises StoreFileError for a
        foreign file, a file of another length or one that is there twice, MissingFileError for a
        hole in the sequence; nothing is changed then, but of two of which one is all zeros, that
        one goes. What is ``derived`` can be made again: there the range ends in front of a hole, or
        of a file of another length (``wrong_length``: who configured another one does not want
        that).
        """
        self.wrong_length = None
        files = self._found(derived=derived)
        if self._others:
            files = self._without_twins(files)
        self.behind_hole = []
        if self.wrong_length is not None:
            name = self.wrong_length.path.name
            good = next(number for number, file in enumerate(files) if file.path.name == name)
            self.behind_hole = files[good:]
            del files[good:]
        for number, (before, file) in enumerate(itertools.pairwise(files), 1):
            if file.start == before.start:
                raise StoreFileError(
                    file.path, f"is there twice, also as {before.path}; move one of them away"
                )
            if file.start == before.end:
                continue
            path = self.directory_of(before.end) / MappedFile.name_of(before.end)
            empty = self.disk.exists(path)
            missing = MissingFileError(path, before.end, before.path, file.path, empty=empty)
            if not derived:
                raise missing
            log.warning("%s: the files from there on are made again from the commit log", missing)
            self.behind_hole = files[number:] + self.behind_hole
            del files[number:]
            break
        self.files = files

    def _found(self, *, derived: bool) -> list[MappedFile]:
        at = self._where
        try:
            entries: list[DirEntry] = []
            for at in map(str, self.directories) if self._others else (self._where,):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    entries += self.disk.listed(at)
            if self._others:
                entries.sort(key=_name)
            files: list[MappedFile] = []
            empty: list[str] = []
            for entry in entries:
                at = entry.path
                try:
                    has_content = self._check(entry)
                except WrongLengthError as error:
                    if not derived:
                        raise
                    self.wrong_length = self.wrong_length or error
                    has_content = True
                if has_content:
                    files.append(self._one_of_these(MappedFile(at, self.file_size, self.disk)))
                else:
                    empty.append(at)
            for at in empty:
                start = int(Path(at).name)
                if derived or not files or start > files[-1].start:
                    self.disk.delete(at)
                elif start < files[0].start:  # files that expire are never cut first
                    log.error("%s: is empty, what was in it is lost: all begins behind it", at)
        except OSError as error:
            raise file_error(Path(at), "cannot be looked at", error) from error
        return files

    def _without_twins(self, files: list[MappedFile]) -> list[MappedFile]:
        """Of a file that was made on two paths, as one of them was full, the one that has
        something; a stop came before the other was deleted. Raises StoreFileError."""
        kept: list[MappedFile] = []
        for file in files:
            if kept and kept[-1].start == file.start:
                if file.is_blank():
                    file.delete()
                    continue
                if kept[-1].is_blank():
                    kept.pop().delete()
            kept.append(file)
        return kept

    def _check(self, entry: DirEntry) -> bool:
        """False for a file of length 0. Raises StoreFileError, OSError."""
        name, size = entry.name, self.file_size
        if not (
            len(name) == _NAME_DIGITS and name.isascii() and name.isdigit() and entry.is_file()
        ):
            raise StoreFileError(
                Path(entry.path), "is not a file of the store (a name of 20 digits); move it away"
            )
        length = entry.stat().st_size
        if length not in (size, 0):
            problem = (
                f"is {length} bytes long but the configured file size is {size}; nothing was "
                "changed"
            )
            raise WrongLengthError(Path(entry.path), problem)
        if int(name) % size:
            raise StoreFileError(
                Path(entry.path), f"has a name that is not a multiple of the file size {size}"
            )
        return length > 0

    @property
    def start(self) -> int:
        """Offset of the first byte there is; 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """Offset behind the last file; 0 without files."""
        return self.files[-1].end if self.files else 0

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds a byte."""
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    def read(self, offset: int, length: int) -> bytes:
        """A copy of some bytes of one file; short at its end, empty where there is no file. Without
        the mapping: there may be a hole, which must not be touched (``mapped_file``). Raises
        StoreFileError.
        """
        file = self.find(offset)
        return b"" if file is None else file.read_unmapped(offset - file.start, length)

    def make(self, start: int) -> MappedFile:
        """A new file that is not part of the sequence yet. Raises OutOfSpaceError or
        StoreFileError."""
        folder = self.directory_of(start)
        if not self.makes_folders and not self.disk.is_directory(folder):
            raise StoreFileError(folder, "is gone, messages that belong there go nowhere else")
        return self._one_of_these(MappedFile.create(folder, start, self.file_size, self.disk))

    def _one_of_these(self, file: MappedFile) -> MappedFile:
        if self.two_reserve:
            file.turns = self.disk.new_lock()
        file.on_bad_sector = self.on_bad_sector
        return file

    def make_named(self, start: int) -> MappedFile:
        """The same, with a name that outlives a power failure. For a worker thread."""
        file = self.make(start)
        self.disk.sync_directory(file.path.parent)
        return file

    def pass_over(self, file: MappedFile) -> bool:
        """The disk of a new file is full: it is deleted if there is another directory for it, which
        ``make`` takes then."""
        full = self.full | {file.path.parent}
        if full.issuperset(self.writable):
            return False
        self.full = full
        file.delete()
        return True

    def add(self, file: MappedFile) -> None:
        """Append a file that was made elsewhere."""
        if self.files and file.start != self.end:
            raise BrokenPromiseError(f"{file} does not follow {self.files[-1]}")
        self.files.append(file)
        self.new_files = True

    def reserve(self, start: int, stop: int) -> MappedFile:
        """Make every byte of a range writable, with new files as needed; returns the file that
        holds ``start``.

        Raises OutOfSpaceError; what was reserved until then stays and does no harm.
        """
        size = self.file_size
        for base in range(start - start % size, stop, size):
            file = self.find(base)
            if file is None:
                file = self.make(base)
                self.add(file)
            file.reserve(stop - base)
        found = self.find(start)
        assert found is not None, "a range of at least one byte"
        return found

    def drop_from(self, offset: int) -> list[MappedFile]:
        """Delete the files that begin at ``offset`` or behind it, the last one first. Raises
        StoreFileError; the next call goes on from there."""
        dropped = []
        while self.files and self.files[-1].start >= offset:
            self.files[-1].delete()
            dropped.append(self.files.pop())
            self.new_files = True
        return dropped

    def drop_behind_hole(self) -> None:
        """Delete what lies behind a hole, the last one first."""
        while self.behind_hole:
            self.behind_hole[-1].delete()
            self.behind_hole.pop()
            self.new_files = True

    def drop_first(self) -> MappedFile:
        """Take the oldest file out of the sequence; it stays on the disk until it is deleted."""
        self.new_files = True
        return self.files.pop(0)

    def drop_deleted(self) -> None:
        """Take files out of the front that were deleted in a worker thread."""
        while self.files and self.files[0].deleted:
            self.drop_first()

    def sync_directory(self, *above: Path) -> None:
        """Make the names of new files durable, and the folders ``above`` if they are there. For a
        worker thread. Raises StoreFileError; the next call tries again.
        """
        if self.new_files:
            self.new_files = False  # before: others may come meanwhile
            try:
                for directory in (self.directory, *self._others, *above):
                    if self.disk.is_directory(directory):
                        self.disk.sync_directory(directory)
            except StoreFileError:
                self.new_files = True
                raise

    def close(self) -> None:
        for file in self.files:
            file.close()

    def remove_leftovers(self) -> None:
        """Before the first file is made: delete those that ``delete`` could not. Raises
        StoreFileError."""
        if self.disk.is_directory(self.directory):
            for file in self._found(derived=True):
                file.delete()

    def delete(self) -> None:
        """Delete all files and the directory if it is then empty. Raises StoreFileError; see
        ``remove_leftovers``."""
        self.drop_behind_hole()
        self.drop_from(0)
        try:
            self.disk.delete_directory(self.directory)
        except OSError:
            pass  # something else lies there, or it never was


def refuse_other_lengths(ranges: Iterable[MappedFileQueue]) -> None:
    """Files of another length are damage, unless all of them have it. Raises WrongLengthError."""
    all_ranges = list(ranges)
    wrong = next(
        (files.wrong_length for files in all_ranges if files.wrong_length is not None), None
    )
    if wrong is not None and not any(files.files for files in all_ranges):
        raise wrong


def _name(entry: DirEntry) -> str:
    return entry.name
