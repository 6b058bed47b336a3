"""Reading a store directory from outside: no lock, nothing is changed, whoever wrote it."""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from .disk.checkpoint import Checkpoint
from .disk.disk import LOST_AND_FOUND
from .disk.holes import data_ranges
from .disk.system_disk import PosixDisk
from .log.log_reader import FileSequence, StoredFile, is_entry_folder
from .model.config import CQ_UNIT_SIZE
from .model.errors import StoreFileError
from .queues.consume_queue_ext import EXT_HEAD, ExtUnit, offset_of_address
from .recovery.opening import configured_topics

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_QUEUE_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_UNITS_AT_ONCE: Final = 256
_EXT_BLOCK: Final = 64 << 10


class QueueReader:
    """The units of one consume queue, valid or not, read in small blocks."""

    def __init__(self, topic: str, queue_id: int, directory: Path) -> None:
        self.topic: Final = topic
        self.queue_id: Final = queue_id
        self.sequence: Final = FileSequence(directory)
        self.first: Final = -(-self.sequence.start // CQ_UNIT_SIZE)
        """Number of the first unit of the first file."""
        self.unreadable: list[tuple[Path, str]] = []
        self._block = b""
        self._block_first = 0
        self.end: Final = max(self.first, self._find_end())
        """Behind the last unit that is not all zeros."""

    def unit(self, number: int) -> bytes:
        """The 20 bytes of a unit; empty where no file has it."""
        at = (number - self._block_first) * CQ_UNIT_SIZE
        if not 0 <= at < len(self._block):
            self._read_block(number)
            at = (number - self._block_first) * CQ_UNIT_SIZE
        unit = self._block[at : at + CQ_UNIT_SIZE] if at >= 0 else b""
        return unit if len(unit) == CQ_UNIT_SIZE else b""

    def where(self, number: int) -> tuple[Path, int]:
        """The file and the byte of a unit, be it there or not."""
        offset = number * CQ_UNIT_SIZE
        file = self.sequence.find(offset)
        if file is not None:
            return file.path, offset - file.start
        size = self.sequence.file_size or offset + CQ_UNIT_SIZE
        return self.sequence.directory / f"{offset - offset % size:020d}", offset % size

    def _read_block(self, number: int) -> None:
        self._block, self._block_first = b"", number
        offset = number * CQ_UNIT_SIZE
        file = self.sequence.find(offset) if offset >= 0 else None
        if file is None:
            return
        try:
            self._block = file.read(offset - file.start, _UNITS_AT_ONCE * CQ_UNIT_SIZE)
        except OSError as error:
            self.unreadable.append((file.path, f"cannot be read: {error.strerror}"))

    def _find_end(self) -> int:
        for file in reversed(self.sequence.files):
            try:
                length = _data_length(file)
            except OSError as error:
                self.unreadable.append((file.path, f"cannot be read: {error.strerror}"))
                continue
            if length:
                return -(-(file.start + length) // CQ_UNIT_SIZE)
        return 0


class ExtReader:
    """The extension of one consume queue, read in blocks."""

    def __init__(self, directory: Path) -> None:
        self.sequence: Final = FileSequence(directory)
        self._block = b""
        self._block_start = 0

    def unit(self, address: int) -> ExtUnit | None:
        """The unit at an address; None when there is none. Raises OSError."""
        offset = offset_of_address(address)
        head = self._read(offset, EXT_HEAD.size)
        if len(head) < EXT_HEAD.size:
            return None
        size, tags_code, store_timestamp, bitmap_size = EXT_HEAD.unpack(head)
        bitmap = self._read(offset + EXT_HEAD.size, max(bitmap_size, 0))
        if size != EXT_HEAD.size + len(bitmap) or bitmap_size < 0:
            return None
        return ExtUnit(tags_code, store_timestamp, bitmap)

    def _read(self, offset: int, length: int) -> bytes:
        at = offset - self._block_start
        if not 0 <= at <= len(self._block) - length:
            file = self.sequence.find(offset)
            self._block = (
                b"" if file is None else file.read(offset - file.start, max(length, _EXT_BLOCK))
            )
            self._block_start, at = offset, 0
        return self._block[at : at + length]


def _commit_logs(root: Path) -> tuple[Path, ...]:
    plain, members = root / "commitlog", sorted(root.glob("dledger-*/data"))
    if len(members) > 1:
        problem = (
            f"holds the logs of several members ({', '.join(m.parent.name for m in members)}): "
            "name the folder data of one with --commit-log"
        )
        raise StoreFileError(root, problem)
    return (*([plain] if plain.is_dir() or not members else []), *members)


def _data_length(file: StoredFile) -> int:
    """Bytes of a file without the zeros at its end."""
    length = 0
    fd = os.open(file.path, os.O_RDONLY)
    try:
        for start, stop in data_ranges(fd, 0, file.length):
            data = os.pread(fd, stop - start, start).rstrip(b"\0")
            length = start + len(data) if data else length
    finally:
        os.close(fd)
    return length


class StoreDirectory:
    """A store directory of either implementation."""

    def __init__(self, root: Path, commit_logs: Sequence[Path] = ()) -> None:
        self.root: Final = root
        self._given: Final = tuple(sorted(commit_logs, key=str))
        """Where the commit log lies, if not in the directory."""

    @property
    def commit_logs(self) -> tuple[Path, ...]:
        """Where the commit log lies; of a member of a DLedger group its entries, and an older log
        in front of them. Raises StoreFileError where there are several members."""
        return self._given or _commit_logs(self.root)

    def log_files(self) -> FileSequence:
        """The files of the commit log. Raises OSError."""
        return FileSequence(*self.commit_logs)

    @property
    def member_folder(self) -> Path | None:
        """``dledger-<id>``, be the entries in it or elsewhere (``storePathDLedgerCommitLog``); None
        where the store is no member's of a DLedger group. Raises StoreFileError, OSError."""
        for folder in self.commit_logs:
            if folder.name == "data" and folder.parent.name.startswith("dledger-"):
                return folder.parent
        return next((path for path in sorted(self.root.glob("dledger-*")) if path.is_dir()), None)

    @property
    def lacks_entries(self) -> bool:
        """It is a member's, and its entries lie where nobody said. Raises StoreFileError,
        OSError."""
        return self.member_folder is not None and not any(
            is_entry_folder(folder) for folder in self.commit_logs if folder.is_dir()
        )

    @property
    def has_abort_file(self) -> bool:
        """The store was not closed in order, or is open."""
        return (self.root / "abort").exists()

    @property
    def is_locked(self) -> bool:
        """A running broker has the store open."""
        return _is_locked(self.root / "lock")

    def topics(self) -> set[str] | None:
        """The topics that ``config/topics.json`` knows; None when it cannot be read."""
        return configured_topics(self.root, PosixDisk())

    def queue_readers(self) -> Iterator[QueueReader]:
        """All consume queues by topic and number. What is no folder of a queue is left out:
        ``foreign_queues``."""
        for _, topic, queue_id, path in self._queue_folders():
            if queue_id is not None:
                yield QueueReader(topic, queue_id, path)

    def foreign_queues(self) -> Iterator[tuple[Path, bool]]:
        """What lies among the consume queues and is none, and whether a broker refuses to start
        with it."""
        for fatal, _, queue_id, path in self._queue_folders():
            if queue_id is None:
                yield path, fatal

    def _queue_folders(self) -> Iterator[tuple[bool, str, int | None, Path]]:
        queues = self.root / "consumequeue"
        for topic in sorted(queues.iterdir()) if queues.is_dir() else ():
            if not topic.is_dir():
                yield True, topic.name, None, topic
                continue
            if topic.name == LOST_AND_FOUND:
                continue
            named = [
                (int(p.name) if p.is_dir() and _QUEUE_ID.fullmatch(p.name) else None, p)
                for p in topic.iterdir()
            ]
            for queue_id, path in sorted(
                named, key=lambda item: (item[0] is None, item[0] or 0, item[1])
            ):
                yield False, topic.name, queue_id, path

    def checkpoint(self) -> Checkpoint:
        """The checkpoint; all zeros when there is none."""
        checkpoint = Checkpoint(self.root / "checkpoint", PosixDisk())
        checkpoint.load()
        return checkpoint


def _is_locked(path: Path) -> bool:
    """Whether another process holds the lock, without taking it where the system can tell."""
    if fcntl is None:
        return False
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        if sys.platform == "linux":
            question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            answer = fcntl.fcntl(fd, fcntl.F_GETLK, question)
            return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(fd)
    return False
