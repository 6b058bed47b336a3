"""Rows that are kept until one attempt of each task is chosen (``guarantee=exactly_once``): files
of chunks, on storage that the driver and all executors reach.

::

    <stagingLocation>/<query or write id>/<batch id>/part-<partition>-<attempt>-<random>.rows
                                                     manifest.json    see ``manifest.py``
                                                     done

A file of rows is ``ARMQROWS1\\n``, then for each chunk its head (MessagePack, with its length and
the checksum of the body in front) and its body, and at its end a head of no rows that counts all of
them: a file that was cut is noticed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, Final
from zlib import crc32

import msgspec
from pyarrow import fs

from ...client.errors import MessageError
from ...remoting.errors import RocketMQError
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import PropertyName, decode_properties
from ...remoting.protocol.message.topic_names import is_retry_topic
from .chunks import Chunk
from .sink_delivery import Totals

__all__ = [
    "ANEW",
    "Folder",
    "StagedRows",
    "StagedTask",
    "StagingError",
    "check_readable",
    "folder_of",
    "name_of_rows",
    "staged_chunks",
    "uri_of",
]

_REACHED: Final = (
    "The option stagingLocation (default: the folder rocketmq-sink of the checkpoint) names a "
    "folder that the driver and all executors reach through Arrow (a path, file://, hdfs://, "
    "s3://, gs://, abfs://)"
)
ANEW: Final = (
    "delete the folder of the query in stagingLocation (of a write, that of its writeId), and all "
    "rows of the batch are computed and sent anew"
)
"""Not that of the batch alone: what is kept of the one before has the producer's id, under which
brokers have rows of this one."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+", re.IGNORECASE)
"""Of more than one letter: that is a drive."""
_SCHEMES: Final = {"s3a": "s3"}
"""Of Hadoop, and what Arrow calls it."""
_MAGIC: Final = b"ARMQROWS1\n"
_LENGTHS: Final = Struct(">III")
"""Of the head, of the body, and the checksum of both."""
_MOST_HEAD_BYTES: Final = 1 << 20


class StagingError(RocketMQError):
    """Rows could not be staged, or what is staged cannot be read again; the text says what to
    do."""


class _Head(msgspec.Struct, array_like=True):
    """Of a chunk; that of the end has the number of all rows, and no topic."""

    topic: str
    queue: tuple[str, int] | None
    rows: int
    properties: str | None
    flag: int
    compress: bool


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Head).decode


class Folder:
    """A folder on any storage that Arrow reaches: ``hdfs://``, ``s3://``, ``gs://``, ``abfs://``,
    ``file://`` or a plain path."""

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem: Final = filesystem
        self.path: Final = path

    def __truediv__(self, name: str) -> Folder:
        return Folder(self._filesystem, f"{self.path.rstrip('/')}/{name}")

    def make(self) -> None:
        """With those that it is in. Raises ``StagingError``."""
        with _told(self.path, "cannot be made"):
            self._filesystem.create_dir(self.path, recursive=True)

    def names(self) -> list[str]:
        """Of what is in it; none when it is not there. Raises ``StagingError``."""
        with _told(self.path, "cannot be read"):
            selector = fs.FileSelector(self.path, allow_not_found=True)
            return [info.base_name for info in self._filesystem.get_file_info(selector)]

    def reader(self, name: str) -> Any:
        """Of a file in it."""
        return self._filesystem.open_input_stream(f"{self.path}/{name}")

    def writer(self, name: str) -> Any:
        """Of a new file in it."""
        return self._filesystem.open_output_stream(f"{self.path}/{name}")

    def read(self, name: str) -> bytes | None:
        """A small file; None when it is not there. Raises ``StagingError``."""
        with _told(f"{self.path}/{name}", "cannot be read"):
            try:
                with self.reader(name) as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                return None

    def write_first(self, name: str, data: bytes) -> bool:
        """Write a small file whole, unless it is there: whether this was the first. On a local file
        system it is on the disk then, and nobody can come in between; other storage has no way to
        ask for that, and two drivers at the same moment could both be told so. Raises
        ``StagingError``."""
        with _told(f"{self.path}/{name}", "cannot be written"):
            if isinstance(self._filesystem, fs.LocalFileSystem):
                is_first = _link(Path(self.path) / name, data)
                _sync_names(Path(self.path))
                return is_first
            if self.read(name) is not None:
                return False
            own = f".{name}.{os.urandom(4).hex()}"
            with self.writer(own) as stream:
                stream.write(data)
            self._filesystem.move(f"{self.path}/{own}", f"{self.path}/{name}")
            return True

    def sync(self, name: str) -> None:
        """A file that was written is on the disk, with its name, on a local file system; other
        storage keeps what it has taken. Raises ``StagingError``."""
        if not isinstance(self._filesystem, fs.LocalFileSystem):
            return
        path = Path(self.path) / name
        with _told(str(path), "cannot be written"):
            with path.open("rb+") as file:
                os.fsync(file.fileno())
            _sync_names(path.parent)

    def place_of(self, name: str) -> str:
        """Of a file in it, another one of each copy, with the same times, too, and under the same
        name later. Raises ``StagingError``."""
        path = f"{self.path}/{name}"
        with _told(path, "cannot be read"):
            if isinstance(self._filesystem, fs.LocalFileSystem):
                status = os.stat(path)
                return f"{path} {status.st_ino} {status.st_ctime_ns}"
            return f"{path} {self._filesystem.get_file_info(path).mtime_ns}"

    def delete(self, name: str) -> None:
        """A file or folder in it, if it is there. Raises ``StagingError``."""
        path = f"{self.path}/{name}"
        with _told(path, "cannot be deleted"), contextlib.suppress(FileNotFoundError):
            info = self._filesystem.get_file_info(path)
            if info.type is fs.FileType.Directory:
                self._filesystem.delete_dir(path)
            elif info.type is not fs.FileType.NotFound:
                self._filesystem.delete_file(path)


def folder_of(location: str) -> Folder:
    """The folder that an option names. Raises ``StagingError``."""
    with _told(location, "is no place for staged rows"):
        if (uri := uri_of(location)) is None:
            return Folder(fs.LocalFileSystem(), os.path.abspath(location))
        return Folder(*fs.FileSystem.from_uri(uri))


def uri_of(location: str) -> str | None:
    """As Arrow writes what Hadoop writes in a way of its own; None for a path."""
    scheme, colon, rest = location.partition(":")
    if not colon or not rest.startswith("/") or not _SCHEME.fullmatch(scheme):
        return None
    slashes = "" if rest.startswith("//") else "//"
    return f"{_SCHEMES.get(scheme, scheme)}:{slashes}{rest}"


def name_of_rows(partition: int, attempt: int) -> str:
    """What an attempt of a task calls its file, as no other one ever does: a driver that starts
    again counts attempts from 0 again, and must not write over what was decided before."""
    return f"part-{partition:05d}-{attempt}-{os.urandom(8).hex()}.rows"


def _link(path: Path, data: bytes) -> bool:
    """All of it under this name at once, or nothing. Raises ``OSError``."""
    own = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with own.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(own, path)
        except FileExistsError:
            return False
        return True
    finally:
        own.unlink(missing_ok=True)


def _sync_names(folder: Path) -> None:
    """That of a file in it, and its own below the staging location: a power failure must not take
    back what rows were sent by. Raises ``OSError``."""
    if os.name != "posix":
        return  # no way to ask for it
    for each in (folder, *folder.parents[:2]):
        fd = os.open(each, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _told(path: str, what: str) -> Iterator[None]:
    """Raises ``StagingError`` for what storage and Arrow raise."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        if isinstance(error, StagingError):
            raise
        raise StagingError(f"{path} {what}: {error}. {_REACHED}") from error


@dataclass(frozen=True)
class StagedTask:
    """What one task has staged, as the driver is told it."""

    write_id: str
    name: str
    """Of its file, in the folder of the batch."""
    rows: int
    topics: frozenset[str]
    brokers: Mapping[str, str]
    """To whose queues rows are bound, and a topic for each."""


def check_readable(folder: Folder, tasks: Sequence[StagedTask]) -> None:
    """Raises ``StagingError`` where not all files are there that tasks have staged: whoever decides
    that a batch has them could never finish it."""
    names, there = [task.name for task in tasks if task.rows], set(folder.names())
    if missing := [name for name in names if name not in there]:
        raise StagingError(
            f"{folder.path}: {len(missing)} of {len(names)} files that tasks have staged are not "
            f"there for the driver, {missing[0]} for one. {_REACHED}"
        )


class StagedRows:
    """The file of one attempt of a task, while it is written. In the place of an ``Outbox``."""

    def __init__(self, folder: Folder, write_id: str, name: str) -> None:
        """Raises ``StagingError``."""
        self._name: Final = name
        self._write_id: Final = write_id
        self._totals = Totals()
        self._topics: set[str] = set()
        self._brokers: dict[str, str] = {}
        self._folder: Final = folder
        self._finished = False
        folder.make()
        with _told(f"{folder.path}/{name}", "cannot be written"):
            self._stream = folder.writer(name)
            self._stream.write(_MAGIC)

    def put(self, chunk: Chunk) -> None:
        """Raises ``StagingError``, and ``MessageError`` for what a broker cannot store once."""
        if chunk.properties is not None and PropertyName.DELAY in decode_properties(
            chunk.properties
        ):
            raise MessageError("guarantee=exactly_once cannot be had for rows with a delayLevel")
        if is_retry_topic(chunk.topic):
            raise MessageError(f"guarantee=exactly_once cannot be had for {chunk.topic}")
        queue = None if chunk.queue is None else (chunk.queue.broker_name, chunk.queue.queue_id)
        head = _Head(chunk.topic, queue, chunk.rows, chunk.properties, chunk.flag, chunk.compress)
        self._write(head, chunk.body)
        self._totals = Totals(self._totals.rows + chunk.rows, self._totals.frames + 1)
        self._topics.add(chunk.topic)
        if queue is not None:
            self._brokers[queue[0]] = chunk.topic

    @property
    def task(self) -> StagedTask:
        """For the driver."""
        topics, brokers = frozenset(self._topics), dict(self._brokers)
        return StagedTask(self._write_id, self._name, self._totals.rows, topics, brokers)

    def _write(self, head: _Head, body: memoryview | bytes) -> None:
        data = _encode(head)
        with _told(f"{self._folder.path}/{self._name}", "cannot be written"):
            self._stream.write(_LENGTHS.pack(len(data), len(body), crc32(body, crc32(data))))
            self._stream.write(data)
            self._stream.write(body)

    def finish(self) -> Totals:
        """All of them are there, also after a power failure: a batch that is decided with them
        could not be finished otherwise. Raises ``StagingError``."""
        self._write(_Head("", None, self._totals.rows, None, 0, False), b"")
        with _told(f"{self._folder.path}/{self._name}", "cannot be written"):
            self._stream.close()
        self._folder.sync(self._name)
        self._finished = True
        return self._totals

    def give_up(self) -> None:
        """They are not wanted, unless they are finished; what cannot be deleted is left to the end
        of the batch."""
        if self._finished:
            return
        with contextlib.suppress(OSError, ValueError, StagingError):
            self._stream.close()
            self._folder.delete(self._name)


def staged_chunks(folder: Folder, name: str) -> Iterator[Chunk]:
    """What a file has, in its order. Raises ``StagingError`` where it is not what was written."""
    where = f"{folder.path}/{name}"
    with _told(where, "cannot be read"), folder.reader(name) as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise _damaged(where)
        rows = 0
        while True:
            head, body = _next(stream, where)
            if not head.topic:
                break
            rows += head.rows
            queue = None if head.queue is None else MessageQueue(head.topic, *head.queue)
            yield Chunk(
                head.topic, queue, memoryview(body), head.rows, head.properties, head.flag,
                head.compress,
            )  # fmt: skip
        if head.rows != rows:
            raise _damaged(where)


def _next(stream: Any, where: str) -> tuple[_Head, bytes]:
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) != _LENGTHS.size:
        raise _damaged(where)
    head_size, body_size, checksum = _LENGTHS.unpack(lengths)
    if head_size > _MOST_HEAD_BYTES:
        raise _damaged(where)
    data, body = stream.read(head_size), stream.read(body_size)
    if (len(data), len(body)) != (head_size, body_size) or crc32(body, crc32(data)) != checksum:
        raise _damaged(where)
    try:
        return _decode(data), body
    except msgspec.DecodeError:
        raise _damaged(where) from None


def _damaged(where: str) -> StagingError:
    return StagingError(
        f"{where} is damaged: rows of a batch that was chosen cannot be read again. Part of the "
        f"batch may be in the topic; after a look at what is there {ANEW}"
    )
