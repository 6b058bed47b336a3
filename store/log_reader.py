"""Reading files of a store that may be damaged, from outside and without a trace: nothing is locked, mapped or written.

Bytes come by ``pread``, so that a bad sector is an error that can be reported and not a signal. The CRC is computed by
``crcmod``, which shares nothing with the code that wrote the records.
"""

from __future__ import annotations

import errno
import importlib
import itertools
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import crcmod.predefined
import msgspec

from ..remoting.protocol.message import MessageExt
from ..remoting.protocol.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC,
    MIN_RECORD_SIZE,
    RecordError,
    decode_record,
    head_struct,
    size_and_magic,
)
from .log_scanner import has_lost_sector

__all__ = ["Damage", "FileSequence", "LogReader", "LogRecord", "StoredFile", "crc_engine", "independent_crc"]

_crc32: Final = crcmod.predefined.mkCrcFun("crc-32")
_NAME: Final = re.compile(r"[0-9]{20}")
_MAGIC_BYTES: Final = struct.pack(">I", MAGIC)
_MAGIC_V2: Final = 0xDAA320AB
_CHUNK: Final = 4 << 20
_PHY_OFFSET_AT: Final = 28


def independent_crc(body: bytes) -> int:
    """The bodyCRC field of a body, by crcmod."""
    return int(_crc32(body)) & 0x7FFFFFFF if body else 0


def crc_engine() -> str:
    """Which part of crcmod computes the CRC: the extension in C is some twenty times faster."""
    extension = getattr(importlib.import_module("crcmod.crcmod"), "_usingExtension", False)
    return "crcmod's C extension" if extension else "crcmod in pure Python"


class StoredFile(NamedTuple):
    """A file whose name is the offset of its first byte."""

    path: Path
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length

    def read(self, position: int, length: int) -> bytes:
        """Some bytes, short at the end of the file. Raises OSError."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            return os.pread(fd, length, position)
        finally:
            os.close(fd)


class FileSequence:
    """The files of one directory, or several, that make up one range of bytes, and what is wrong with them."""

    def __init__(self, directory: Path, *others: Path) -> None:
        self.directory: Final = directory
        self._directories: Final = (directory, *others)
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
        return next((file for file in reversed(self.files) if file.start <= offset < file.end), None)

    def holes(self) -> Iterator[tuple[int, int]]:
        """Ranges of bytes that are missing between the files."""
        for before, following in itertools.pairwise(self.files):
            if before.end < following.start:
                yield before.end, following.start

    def _load(self) -> None:
        found = []
        paths = [path for directory in self._directories for path in directory.iterdir()]
        for path in sorted(paths, key=lambda path: (path.name, path)):
            if not path.is_file() or not _NAME.fullmatch(path.name):
                self.problems.append((path, 0, "is not a file of the store (a name of 20 digits): a broker will not start"))
            else:
                found.append(StoredFile(path, int(path.name), path.stat().st_size))
        if found and found[-1].length == 0:
            self.notes.append((found.pop().path, "is empty: the trace of a crash while it was made"))
        self.file_size = _usual_size(found)
        for file in found:
            if file.length != self.file_size:
                end = min(file.length, self.file_size)
                self.problems.append((file.path, end, f"is {file.length} bytes long instead of {self.file_size}"))
            elif file.start % self.file_size:
                self.problems.append((file.path, 0, f"has a name that is not a multiple of the file size {self.file_size}"))
        for before, file in itertools.pairwise(found):
            if before.start == file.start:
                self.problems.append((file.path, 0, f"is there twice, also as {before.path}"))
        self.files = [file for file in found if file.length]
        for before, following in itertools.pairwise(self.files):
            if (end := before.start + self.file_size) < following.start:
                missing = self.directory / f"{end:020d}"
                self.problems.append((missing, 0, f"is missing: {before.path.name} is followed by {following.path.name}"))


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
    data: bytes
    """The record lies in here ..."""
    position: int
    """... from this byte on."""

    def message(self) -> MessageExt:
        """All of it."""
        return decode_record(self.data, self.position)


class Damage(NamedTuple):
    """A place in the log that is no intact record."""

    path: Path
    position: int
    """The byte of the file that is wrong, as far as one can tell."""
    begin: int
    end: int
    """Physical offsets of what cannot be used: [begin, end); nothing when the blank at the end of a file is wrong."""
    problem: str
    tail: bool = False
    """No intact record follows: the log may simply end here."""
    empty: bool = False
    """Zeros up to the end of the file."""


class LogReader:
    """Every record of a commit log in order, and every damaged place.

    Behind a damaged place the log goes on with the next record that proves itself by magic, physical offset, lengths and
    CRC, and is not older than the last one (else it is a leftover of a log that was cut once).
    """

    def __init__(self, files: FileSequence, *, check_crc: bool = True) -> None:
        self._files: Final = files
        self._check_crc: Final = check_crc
        self._timestamp = 0
        self.position: int = files.start
        """How far the reader is."""
        self.end: int = files.start
        """Behind the last record, after the last one was given out."""
        self.next_position: int = files.start
        """Where the next record goes: behind a blank if the last record is followed by one."""
        self.records: int = 0

    def read(self, start: int | None = None) -> Iterator[LogRecord | Damage]:
        """From a physical offset on, at which a record begins; without one from the start of the log."""
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
            yield from self._read_from(fd, file, position)
        except OSError as error:
            at = self.position - file.start
            yield Damage(file.path, at, self.position, file.end, f"cannot be read from here on: {error.strerror}")
        finally:
            os.close(fd)

    def _read_from(self, fd: int, file: StoredFile, position: int) -> Iterator[LogRecord | Damage]:
        self.position = file.start + position
        while True:
            yield from self._records(fd, file, position)
            position = self.position - file.start
            if file.length - position < MIN_RECORD_SIZE:
                head = os.pread(fd, BLANK_SIZE, position)
            else:
                head = os.pread(fd, MIN_RECORD_SIZE + 24, position)
            left = file.length - position
            if len(head) >= BLANK_SIZE and size_and_magic(head, 0)[1] == BLANK_MAGIC:
                if (said := size_and_magic(head, 0)[0]) != left:
                    problem = f"the blank at the end of the file says {said} bytes, {left} are left"
                    yield Damage(file.path, position, file.start + position, file.start + position, problem)
                elif self.end == self.position:
                    self.next_position = file.end
                return
            following = self._next_intact(fd, file, position)
            stop = file.start + following if following is not None else file.end
            byte, problem = _record_problem(fd, file, position, head)
            tail = following is None
            empty = tail and not any(head) and not any(map(any, _pieces(fd, file, position)))
            yield Damage(file.path, position + byte, file.start + position, stop, problem, tail, empty)
            if following is None:
                return
            position = following

    def _records(self, fd: int, file: StoredFile, position: int) -> Iterator[LogRecord | Damage]:
        """The records from a position on up to the first thing that is none; ``self.position`` tells where that is."""
        check_crc = self._check_crc
        topics: dict[bytes, str] = {}
        wanted = _CHUNK
        while True:
            data = os.pread(fd, wanted, position)
            length = len(data)
            base = file.start + position
            at = 0
            while at + MIN_RECORD_SIZE <= length:
                head = head_struct(data[at + 39])
                body_at = at + head.size
                if body_at > length:
                    break
                (
                    size, magic, crc, queue_id, _flag, queue_offset, phy_offset, sys_flag, _born, _born_host,
                    store_timestamp, _store_host, _reconsume, _prepared, body_size,
                ) = head.unpack_from(data, at)  # fmt: skip
                end = at + size
                body_end = body_at + body_size
                if magic != MAGIC or phy_offset != base + at or body_size < 0 or end > length or body_end + 1 >= end:
                    break
                topic_end = body_end + 1 + data[body_end]
                if topic_end + 2 > end or topic_end + 2 + (data[topic_end] << 8 | data[topic_end + 1]) != end:
                    break
                topic_bytes = data[body_end + 1 : topic_end]
                topic = topics.get(topic_bytes)
                if topic is None:
                    if b"\0" in topic_bytes:
                        break
                    topic = topics[topic_bytes] = topic_bytes.decode("utf-8", "replace")
                properties = data[topic_end + 2 : end]
                if b"\0" in properties and has_lost_sector(data, base, topic_end + 2, end):
                    break
                if check_crc and body_size and _crc32(data[body_at:body_end]) & 0x7FFFFFFF != crc:
                    found = independent_crc(data[body_at:body_end])
                    problem = f"the body has the CRC {found:#010x}, the record says {crc:#010x}"
                    yield Damage(file.path, position + body_at, phy_offset, phy_offset + size, problem)
                self.end = self.position = self.next_position = base + end
                self.records += 1
                self._timestamp = store_timestamp
                yield LogRecord(
                    phy_offset, size, topic, queue_id, queue_offset, sys_flag, store_timestamp, properties, data, at,
                )  # fmt: skip
                at = end
            position += at
            if at:
                wanted = _CHUNK
                continue
            size, magic = size_and_magic(data, 0) if length >= BLANK_SIZE else (0, 0)
            if not (magic == MAGIC and length < size <= file.length - position) or wanted != _CHUNK:
                return
            wanted = size  # longer than a chunk

    def _next_intact(self, fd: int, file: StoredFile, position: int) -> int | None:
        """Where in the file the next intact record begins."""
        for start, stop in data_ranges(fd, position, file.length):
            for at in range(start, stop, _CHUNK):
                window = os.pread(fd, min(_CHUNK, stop - at) + 8, at)
                magic_at = -1
                while (magic_at := window.find(_MAGIC_BYTES, magic_at + 1)) >= 0:
                    found = at + magic_at - 4
                    if found > position and self._is_intact(fd, file, found):
                        return found
        return None

    def _is_intact(self, fd: int, file: StoredFile, position: int) -> bool:
        head = os.pread(fd, _PHY_OFFSET_AT + 8, position)
        if len(head) < _PHY_OFFSET_AT + 8 or int.from_bytes(head[_PHY_OFFSET_AT:], "big") != file.start + position:
            return False
        size = size_and_magic(head, 0)[0]
        if not MIN_RECORD_SIZE <= size <= file.length - position:
            return False
        try:
            message = decode_record(os.pread(fd, size, position))
        except RecordError:
            return False
        return message.store_timestamp >= self._timestamp and independent_crc(message.stored_body) == message.body_crc


def data_ranges(fd: int, position: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges that may hold something else than zeros: the file system knows its holes."""
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
            stop = os.lseek(fd, start, os.SEEK_HOLE)
        except (OSError, AttributeError) as error:
            if not isinstance(error, OSError) or error.errno != errno.ENXIO:
                yield position, size  # no holes known here: everything may be data
            return
        yield start, min(stop, size)
        position = stop


def _record_problem(fd: int, file: StoredFile, position: int, head: bytes) -> tuple[int, str]:
    """Why no record begins here: the byte that is wrong, counted from here, and a text."""
    left = file.length - position
    if not left:
        return 0, "the file ends without the blank record that leads to the next one"
    if not any(head):
        return 0, "zeros where a record should begin"
    if left < MIN_RECORD_SIZE or len(head) < MIN_RECORD_SIZE:
        return 0, f"{left} bytes that are neither a record nor the blank at the end of a file"
    size, magic = size_and_magic(head, 0)
    phy_offset = int.from_bytes(head[_PHY_OFFSET_AT : _PHY_OFFSET_AT + 8], "big", signed=True)
    fields = head_struct(head[39])
    if magic == _MAGIC_V2:
        return 4, "a record of RocketMQ 5 (magic 0xdaa320ab), which 4.9 cannot read"
    if magic != MAGIC:
        return 4, f"the magic is {magic:#010x}, a record has {MAGIC:#010x}"
    if not MIN_RECORD_SIZE <= size <= left:
        return 0, f"the record says it is {size} bytes long, {left} are left in the file"
    if phy_offset != file.start + position:
        return _PHY_OFFSET_AT, f"the record says it is at {phy_offset}, it is at {file.start + position}"
    record = os.pread(fd, size, position)
    body_size = fields.unpack_from(record, 0)[14] if len(record) >= fields.size else -1
    topic_at = fields.size + body_size
    if body_size < 0 or topic_at + 3 > size:
        return fields.size - 4, f"the body is said to be {body_size} bytes long, in a record of {size}"
    properties_at = topic_at + 1 + record[topic_at]
    topic = record[topic_at + 1 : properties_at]
    if b"\0" in topic:
        return topic_at + 1, "the topic has zero bytes in it: the record was not written to its end"
    if properties_at + 2 > size:
        return topic_at, f"the topic is said to be {record[topic_at]} bytes long, which reaches over the end of the record"
    begin, at = properties_at + 2, file.start + position
    if size == len(record) and has_lost_sector(record, at, begin, size):
        first = record.find(b"\0", begin)
        return first, "a sector of zeros in its properties: it was not written to its end, or lost since"
    needed = properties_at + 2 + int.from_bytes(record[properties_at : properties_at + 2], "big")
    return properties_at, f"body, topic and properties make {needed} bytes, the record says it is {size} bytes long"


def _pieces(fd: int, file: StoredFile, position: int) -> Iterator[bytes]:
    for start, stop in data_ranges(fd, position, file.length):
        for at in range(start, stop, _CHUNK):
            yield os.pread(fd, min(_CHUNK, stop - at), at)
