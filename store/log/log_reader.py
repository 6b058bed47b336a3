"""Reading files of a store that may be damaged, from outside and without a trace: nothing is
locked, mapped or written.

Bytes come by ``pread``, so that a bad sector is an error that can be reported and not a signal. The
CRC is computed by ``crcmod``, which shares nothing with the code that wrote the records; where
bodies are checked, so are all fields read in Python, never by the compiled leaves.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from ...remoting.protocol.record import MessageExt, Reason, Records, scan
from ...remoting.protocol.record.decode import whole_record
from ...remoting.protocol.record.entry import ENTRY_HEAD, ENTRY_MAGIC, EntryHead
from ...remoting.protocol.record.layout import glance
from ...remoting.protocol.record.walk import CHUNK, LogFile, LogWalk
from ..disk.disk import LOST_AND_FOUND
from ..disk.holes import data_ranges

_BODY_CRC: Final = glance("body_crc")
_NAME: Final = re.compile(r"[0-9]{20}")


def independent_crc(body: bytes | memoryview) -> int:
    """The bodyCRC field of a body, by crcmod."""
    return int(_crc32()(body)) & 0x7FFFFFFF if body else 0


@functools.cache
def _crc32() -> Callable[[bytes | memoryview], int]:
    import crcmod.predefined  # here: who only reads does without

    made: Callable[[bytes | memoryview], int] = crcmod.predefined.mkCrcFun("crc-32")
    return made


def crc_engine() -> str:
    """Which part of crcmod computes the CRC: the extension in C is some twenty times faster."""
    extension = getattr(importlib.import_module("crcmod.crcmod"), "_usingExtension", False)
    return "crcmod's C extension" if extension else "crcmod in pure Python"


def is_entry_folder(folder: Path) -> bool:
    """Whether files of a commit log lie there whose records have the heads of entries: those of a
    DLedger member. Raises OSError."""
    if folder.name == "data" and folder.parent.name.startswith("dledger-"):
        return True
    names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
    for name in names:
        with (folder / name).open("rb") as file:
            start = file.read(ENTRY_HEAD.size)
        if len(start) == ENTRY_HEAD.size and any(start):
            head = EntryHead._make(ENTRY_HEAD.unpack(start))
            return head.magic == ENTRY_MAGIC and head.pos == int(name)
    return False


class StoredFile(NamedTuple):
    """A file whose name is the offset of its first byte."""

    path: Path
    start: int
    length: int
    head: int = 0
    """Bytes in front of each record (``LogFile.head``)."""

    @property
    def end(self) -> int:
        return self.start + self.length

    def read(self, position: int, length: int) -> bytes:
        """Some bytes, short at the end of the file. Raises OSError."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            there = os.fstat(fd).st_size - position  # pread makes room for all that is asked for
            return os.pread(fd, max(0, min(length, there)), position)
        finally:
            os.close(fd)


class FileSequence:
    """The files of one directory, or several, that make up one range of bytes, and what is wrong
    with them."""

    def __init__(self, directory: Path, *others: Path) -> None:
        self.directory: Final = directory
        self.directories: Final = (directory, *others)
        self.files: list[StoredFile] = []
        self.problems: list[tuple[Path, int, str]] = []
        """File, byte in it, what is wrong."""
        self.notes: list[tuple[Path, str]] = []
        """What is unusual and harms nobody."""
        self.file_size: int = 0
        """Found out from the files: most of them have it; 0 without files."""
        self._load()

    @property
    def start(self) -> int:
        return self.files[0].start if self.files else 0

    def find(self, offset: int) -> StoredFile | None:
        """The file that holds a byte."""
        return next(
            (file for file in reversed(self.files) if file.start <= offset < file.end), None
        )

    def begin_of(self, phy_offset: int) -> int:
        """Where a record begins together with the head of its entry, if it has one."""
        file = self.find(phy_offset)
        return phy_offset if file is None else phy_offset - file.head

    def holes(self) -> Iterator[tuple[int, int]]:
        """Ranges of bytes that are missing between the files."""
        for before, following in itertools.pairwise(self.files):
            if before.end < following.start:
                yield before.end, following.start

    def _load(self) -> None:
        found = []
        paths = [path for directory in self.directories for path in directory.iterdir()]
        for path in sorted(paths, key=lambda path: (path.name, path)):
            if path.name == LOST_AND_FOUND:
                continue
            if not path.is_file() or not _NAME.fullmatch(path.name):
                self.problems.append(
                    (
                        path,
                        0,
                        "is not a file of the store (a name of 20 digits): a broker will not start",
                    )
                )
            else:
                head = ENTRY_HEAD.size if is_entry_folder(path.parent) else 0
                found.append(StoredFile(path, int(path.name), path.stat().st_size, head))
        if found and found[-1].length == 0:
            self.notes.append(
                (found.pop().path, "is empty: the trace of a crash while it was made")
            )
        self.file_size = _usual_size(found)
        for file in found:
            if file.length != self.file_size:
                end = min(file.length, self.file_size)
                self.problems.append(
                    (file.path, end, f"is {file.length} bytes long instead of {self.file_size}")
                )
            elif file.start % self.file_size:
                self.problems.append(
                    (
                        file.path,
                        0,
                        f"has a name that is not a multiple of the file size {self.file_size}",
                    )
                )
        for before, file in itertools.pairwise(found):
            if before.start == file.start:
                self.problems.append((file.path, 0, f"is there twice, also as {before.path}"))
        self.files = [file for file in found if file.length]
        for before, following in itertools.pairwise(self.files):
            if (end := before.start + self.file_size) < following.start:
                missing = self.directory / f"{end:020d}"
                self.problems.append(
                    (
                        missing,
                        0,
                        f"is missing: {before.path.name} is followed by {following.path.name}",
                    )
                )


def _usual_size(files: list[StoredFile]) -> int:
    """The size that most files have; in doubt the one that the names agree with."""
    counted = Counter(file.length for file in files if file.length)
    steps = Counter(b.start - a.start for a, b in itertools.pairwise(files))
    return max(counted, key=lambda size: (counted[size], steps[size], size), default=0)


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One record whose lengths are right."""

    phy_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes
    data: bytes | memoryview
    """The record lies in here ..."""
    position: int
    """... from this byte on."""

    def message(self) -> MessageExt:
        """All of it."""
        return whole_record(bytes(self.data), self.position)


class Damage(NamedTuple):
    """A place in the log that is no intact record."""

    path: Path
    position: int
    """The byte of the file that is wrong, as far as one can tell."""
    begin: int
    end: int
    """Physical offsets of what cannot be used: [begin, end); nothing when the blank at the end of a
    file is wrong."""
    problem: str
    tail: bool = False
    """No intact record follows: the log may simply end here."""
    empty: bool = False
    """Zeros up to the end of the file."""


class LogReader:
    """Every record of a commit log in order, and every damaged place.

    Behind a damaged place the log goes on with the next record that proves itself by magic,
    physical offset, lengths and CRC, and is not older than the last one (else it is a leftover of a
    log that was cut once).
    """

    def __init__(self, files: FileSequence, *, check_crc: bool = True) -> None:
        self._files: Final = files
        self._walk: Final = LogWalk(crc=independent_crc if check_crc else None)
        self.position: int = files.start
        """How far the reader is."""
        self.end: int = files.start
        """Behind the last record, after the last one was given out."""
        self.next_position: int = files.start
        """Where the next record goes: behind a blank if the last record is followed by one."""
        self.records: int = 0

    def read(self, start: int | None = None) -> Iterator[LogRecord | Damage]:
        """From a physical offset on, at which a record or its head begins; without one from the
        start of the log."""
        start = self._files.start if start is None else start
        held: list[Damage] = []  # what may be the end of the log, unless something follows
        for file in self._files.files:
            if file.end <= start:
                continue
            for item in self._read_file(file, max(0, start - file.start)):
                if isinstance(item, Damage) and item.tail:
                    held.append(item)
                    continue
                if held and isinstance(item, LogRecord):
                    yield from (damage._replace(tail=False) for damage in held)
                    held = []
                yield item
        self.position = self._files.files[-1].end if self._files.files else 0
        yield from held

    def _read_file(self, file: StoredFile, position: int) -> Iterator[LogRecord | Damage]:
        try:
            fd = os.open(file.path, os.O_RDONLY)
        except OSError as error:
            yield Damage(file.path, 0, file.start, file.end, f"cannot be opened: {error.strerror}")
            return
        try:
            yield from self._items(log_file(file, fd), file, position)
        except OSError as error:
            at = self._walk.position
            yield Damage(
                file.path,
                at - file.start,
                at,
                file.end,
                f"cannot be read from here on: {error.strerror}",
            )
        finally:
            os.close(fd)

    def _items(
        self, source: LogFile, file: StoredFile, position: int
    ) -> Iterator[LogRecord | Damage]:
        for item in self._walk.through(source, position):
            if isinstance(item, Records):
                yield from self._records(item)
                continue
            verdict = item.verdict
            if verdict.reason is Reason.BLANK:
                self.position = item.begin
                if verdict.size != item.end - item.begin:
                    yield Damage(
                        file.path, item.begin - file.start, item.begin, item.begin, verdict.problem
                    )
                elif self.end == item.begin:
                    self.next_position = file.end
                continue
            at = item.begin - file.start
            empty = item.tail and not any(map(any, _pieces(source, at)))
            yield Damage(
                file.path,
                at + verdict.byte,
                item.begin,
                item.end,
                verdict.problem,
                item.tail,
                empty,
            )
            if verdict.reason is Reason.CRC:  # all but its body can be believed
                data = source.read(at, verdict.size)
                yield from self._records(_whatever_its_body(data, item.begin, source.head))

    def _records(self, found: Records) -> Iterator[LogRecord]:
        rows = zip(
            found.phy_offsets, found.sizes, found.topics, found.queue_ids, found.queue_offsets,
            found.sys_flags,
            found.store_timestamps, found.all_properties(), found.at, strict=True,
        )  # fmt: skip
        for (
            phy_offset,
            size,
            topic,
            queue_id,
            queue_offset,
            sys_flag,
            store_timestamp,
            properties,
            at,
        ) in rows:
            self.end = self.position = self.next_position = phy_offset + size
            self.records += 1
            yield LogRecord(
                phy_offset, size, found.names[topic], queue_id, queue_offset, sys_flag,
                store_timestamp, properties,
                found.data, at,
            )  # fmt: skip


def _whatever_its_body(data: bytes, place: int, head: int) -> Records:
    """The record that ``data`` is, by the CRC that it says: without one the leaf would read it."""
    (own_crc,) = _BODY_CRC.unpack_from(data, head)
    return scan(data, place, crc=lambda _: own_crc, head=head).records


def log_file(file: StoredFile, fd: int) -> LogFile:
    """An open file of a commit log."""
    return LogFile(
        file.start,
        file.length,
        lambda at, size: os.pread(fd, size, at),
        lambda at: data_ranges(fd, at, file.length),
        file.head,
    )


def _pieces(source: LogFile, position: int) -> Iterator[bytes]:
    for start, stop in source.data_ranges(position):
        for at in range(start, stop, CHUNK):
            yield source.read(at, min(CHUNK, stop - at))
