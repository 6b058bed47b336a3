"""A sequence of mapped files that is one long range of bytes: a commit log or a consume queue.

Every file has the same size and its name is the offset of its first byte (commitlog.md §2; class
MappedFileQueue)::

    00000000000000000000   00000000001073741824   00000000002147483648
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

from .errors import StoreFileError
from .mapped_file import Disk, MappedFile

__all__ = ["MappedFileQueue"]


class MappedFileQueue:
    """The files of one directory in order, without a hole between them."""

    __slots__ = ("_disk", "directory", "file_size", "files", "new_files")

    def __init__(self, directory: Path, file_size: int, disk: Disk) -> None:
        self.directory: Final = directory
        self.file_size: Final = file_size
        self.files: list[MappedFile] = []
        self.new_files = False
        """A file was made or removed since the directory was synced."""
        self._disk: Final = disk

    def load(self) -> None:
        """Take in the files of the directory.

        A last file of length 0 is the trace of a crash while it was made, and is made anew. Raises
        StoreFileError for a foreign file, a file of another length and a hole in the sequence; nothing is
        changed then.
        """
        if not self.directory.is_dir():
            return
        paths = sorted(self.directory.iterdir())
        if paths and paths[-1].is_file() and paths[-1].stat().st_size == 0:
            paths.pop().unlink()
        files = [self._check(path) for path in paths]
        for before, file in itertools.pairwise(files):
            if file.start != before.end:
                missing = self.directory / MappedFile.name_of(before.end)
                raise StoreFileError(missing, f"is missing between {before.path.name} and {file.path.name}")
        self.files = files

    def _check(self, path: Path) -> MappedFile:
        if not (path.is_file() and path.name.isascii() and path.name.isdigit() and len(path.name) == 20):
            raise StoreFileError(path, "is not a file of the store (a name of 20 digits); move it away")
        length = path.stat().st_size
        if length != self.file_size:
            raise StoreFileError(
                path, f"is {length} bytes long but the configured file size is {self.file_size}; nothing was changed"
            )
        file = MappedFile(path, self.file_size, self._disk)
        if file.start % self.file_size:
            raise StoreFileError(path, f"has a name that is not a multiple of the file size {self.file_size}")
        return file

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
        """A copy of some bytes of one file; short at its end, empty where there is no file."""
        file = self.find(offset)
        return b"" if file is None else file.read(offset - file.start, length)

    def make(self, start: int) -> MappedFile:
        """A new file that is not part of the sequence yet. Raises OutOfSpaceError or StoreFileError."""
        return MappedFile.create(self.directory, start, self.file_size, self._disk)

    def add(self, file: MappedFile) -> None:
        """Append a file that was made elsewhere."""
        if self.files and file.start != self.end:
            raise ValueError(f"{file} does not follow {self.files[-1]}")
        self.files.append(file)
        self.new_files = True

    def reserve(self, start: int, stop: int) -> MappedFile:
        """Make every byte of a range writable, with new files as needed; returns the file that holds
        ``start``.

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
        """Delete the files that begin at ``offset`` or behind it, the last one first."""
        dropped = []
        while self.files and self.files[-1].start >= offset:
            file = self.files.pop()
            file.delete()
            dropped.append(file)
            self.new_files = True
        return dropped

    def drop_first(self) -> MappedFile:
        """Take the oldest file out of the sequence; it stays on the disk until it is deleted."""
        self.new_files = True
        return self.files.pop(0)

    def drop_deleted(self) -> None:
        """Take files out of the front that were deleted in a worker thread."""
        while self.files and self.files[0].deleted:
            self.drop_first()

    def sync_directory(self) -> None:
        """Make the names of new files durable. For a worker thread."""
        if self.new_files:
            self.new_files = False
            self._disk.sync_directory(self.directory)

    def close(self) -> None:
        for file in self.files:
            file.close()

    def delete(self) -> None:
        """Delete all files and the directory if it is then empty."""
        self.drop_from(0)
        try:
            self.directory.rmdir()
        except OSError:
            pass  # something else lies there, or it never was
