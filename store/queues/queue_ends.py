"""``queueends``: how far every consume queue reached at the last checkpoint. Ours; the original
leaves the file alone.

Consume queues are derived from the commit log, but only this tells a start that one of them has
lost its end, its beginning, or everything; and that the index has lost a file. Written after all
that it tells was synced; big-endian::

    0     8  "aiormqe2"
    8     8  safePhyOffset        of the checkpoint that it goes with ...
    16   24  ... and its three timestamps
    40    4  length of consume queue files
    44    4  n, how many queues
    48    4  length of the names
    52    4  m, how many index files with items
    56    .  names                of each queue: length of the topic (1), topic, queue id (4)
    .   8*n  number of the next message
    .   8*n  physical offset behind the last unit's record, -1 for a queue that never had one
    .   8*n  number of the first message that was still there
    .   8*m  physical offset of the first message with an item in each index file ...
    .   8*m  ... and of the last one
    .     4  CRC-32 of everything before

Behind it, for every queue that was deleted since: CRC-32 (4) of what follows, length of the topic
(1), topic, queue id (4).

It is the truth while safe position and timestamps are those of the checkpoint. If they are not, a
broker of the original has worked here since, or a stop came in between: then it only hints at what
was there once.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import sys
import weakref
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ...remoting.outages import Outages
from ...remoting.protocol.record import topic_field
from ..disk.checkpoint import Checkpoint
from ..disk.disk import Disk
from ..model.errors import StoreFileError, is_of_bad_sector, translated
from .consume_queue import ConsumeQueue

log: Final = logging.getLogger(__name__)

QueueKey = tuple[str, int]
_MARK: Final = b"aiormqe2"
_HEAD: Final = struct.Struct(">8sqqqqIIII")
_QUEUE_ID: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_NAME: Final = "queueends"
_WRITE: Final = (_NAME, "write")
_AT_ONCE: Final = 128
"""Queues that are looked at in one turn of the event loop: a few hundred microseconds."""


class QueueEnd(NamedTuple):
    """What is known about one queue."""

    next_offset: int
    phy_end: int
    """Physical offset behind its last record; -1 when it has no unit."""
    first_offset: int
    """Number of the oldest message."""


class KnownEnds(NamedTuple):
    """What the file says."""

    safe_phy_offset: int
    timestamps: tuple[int, int, int]
    queue_file_size: int
    queues: dict[QueueKey, QueueEnd]
    index_ranges: list[tuple[int, int]]
    """See ``IndexFiles.ranges``."""

    def belongs_to(self, checkpoint: Checkpoint) -> bool:
        """Nobody else has written since: it is the truth."""
        return (
            checkpoint.safe_phy_offset == self.safe_phy_offset
            and checkpoint.timestamps == self.timestamps
        )


class Snapshot:
    """The ends of all queues, taken in steps. What was written meanwhile may be in it: it is synced
    before ``save``."""

    def __init__(self, queues: Sequence[ConsumeQueue]) -> None:
        self._queues: Final = queues
        self.names: Final[list[bytes]] = []
        self.columns: Final[tuple[list[int], list[int], list[int]]] = ([], [], [])
        self.problem: StoreFileError | None = None
        """Why it is not complete."""
        self.deleted: Final[list[QueueKey]] = []
        """Since it was begun."""

    def steps(self) -> Iterator[None]:
        """Take it; a step is some hundred microseconds."""
        try:
            yield from self._steps()
        except StoreFileError as error:
            self.problem = error

    def _steps(self) -> Iterator[None]:
        nexts, ends, firsts = self.columns
        for begin in range(0, len(self._queues), _AT_ONCE):
            for queue in self._queues[begin : begin + _AT_ONCE]:
                if queue.max_offset:
                    self.names.append(queue.topic_field + _QUEUE_ID.pack(queue.queue_id))
                    nexts.append(queue.max_offset)
                    ends.append(queue.known_end())
                    firsts.append(queue.min_offset)
            yield


class QueueEnds:
    """The file. ``save`` may run in a thread, everything else on the event loop."""

    def __init__(self, root: Path, disk: Disk, outages: Outages) -> None:
        self.path: Final = root / _NAME
        self._disk: Final = disk
        self._outages: Final = outages
        self._lock: Final = disk.new_lock()
        self._snapshots: Final[weakref.WeakSet[Snapshot]] = weakref.WeakSet()
        """That are being taken or written."""

    def load(self) -> KnownEnds | None:
        """What it says; None when it is not there, or damaged, be it by a bad sector. Raises
        StoreFileError when it cannot be read otherwise."""
        with translated(self.path, "cannot be read"):
            try:
                data = self._disk.contents(self.path)
            except FileNotFoundError:
                return None
            except OSError as error:
                if not is_of_bad_sector(error):
                    raise
                return None
        return _decode(data)

    def snapshot(self, queues: Sequence[ConsumeQueue]) -> Snapshot:
        """Begin one. Queues that are deleted from now on are not in it any more."""
        snapshot = Snapshot(queues)
        with self._lock:
            self._snapshots.add(snapshot)
        return snapshot

    def forget(self, queues: Iterable[QueueKey]) -> None:
        """They are about to be deleted: a start must not miss them."""
        records = b"".join(map(_deletion, keys := list(queues)))
        with self._lock, contextlib.suppress(OSError):  # unheard of, they are made again at worst
            for snapshot in self._snapshots:
                snapshot.deleted.extend(keys)
            fd = self._disk.open(self.path, "append")
            try:
                self._disk.append(fd, records)
            finally:
                self._disk.close(fd)

    def save(
        self,
        snapshot: Snapshot,
        checkpoint: Checkpoint,
        queue_file_size: int,
        index: Sequence[tuple[int, int]] = (),
    ) -> None:
        """After everything that it tells is on the disk, and the checkpoint. Blocks. A failure
        costs the next start time, and nothing else: it is logged.
        """
        temporary = self.path.with_suffix(".tmp")
        try:
            if snapshot.problem is not None:
                raise snapshot.problem
            data = _encode(snapshot, checkpoint, queue_file_size, index)
            fd = self._disk.open(temporary, "replace")
            try:
                self._write(fd, data)
                self._disk.sync(fd)
                with self._lock:
                    self._write(fd, b"".join(map(_deletion, snapshot.deleted)))
                    self._disk.replace(temporary, self.path)
            finally:
                self._disk.close(fd)
            self._disk.sync_directory(self.path.parent)
        except (OSError, StoreFileError) as error:
            self._outages.fails(
                log, _WRITE, "%s cannot be written, a start may take longer: %s", self.path, error
            )
        else:
            self._outages.works(_WRITE)

    def _write(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._disk.append(fd, view) :]


def _deletion(key: QueueKey) -> bytes:
    record = topic_field(key[0]) + _QUEUE_ID.pack(key[1])
    return _CRC.pack(zlib.crc32(record)) + record


def _column(values: Sequence[int]) -> bytes:
    column = array("q", values)
    if sys.byteorder == "little":
        column.byteswap()
    return column.tobytes()


def _encode(
    snapshot: Snapshot,
    checkpoint: Checkpoint,
    queue_file_size: int,
    index: Sequence[tuple[int, int]],
) -> bytes:
    names = b"".join(snapshot.names)
    assert checkpoint.safe_phy_offset is not None, "it goes with a checkpoint that claims something"
    counts = len(snapshot.names), len(names), len(index)
    head = _HEAD.pack(
        _MARK, checkpoint.safe_phy_offset, *checkpoint.timestamps, queue_file_size, *counts
    )
    columns = *snapshot.columns, [begin for begin, _ in index], [end for _, end in index]
    data = b"".join((head, names, *map(_column, columns)))
    return data + _CRC.pack(zlib.crc32(data))


def _decode(data: bytes) -> KnownEnds | None:
    if len(data) < _HEAD.size:
        return None
    mark, safe, *timestamps, file_size, count, names_length, index_count = _HEAD.unpack_from(data)
    at, lengths = _HEAD.size + names_length, (count, count, count, index_count, index_count)
    end = at + 8 * sum(lengths)
    if (
        mark != _MARK
        or end + _CRC.size > len(data)
        or _CRC.unpack_from(data, end)[0] != zlib.crc32(data[:end])
    ):
        return None
    columns = []
    for length in lengths:
        columns.append(struct.unpack_from(f">{length}q", data, at))
        at += 8 * length
    at, names = _HEAD.size, []
    try:
        for _ in range(count):
            name, at = _name(data, at)
            names.append(name)
    except (IndexError, struct.error):
        return None  # a sealed file, and none of ours
    queues = {name: QueueEnd(*numbers) for name, *numbers in zip(names, *columns[:3], strict=True)}
    for name in _deletions(data, end + _CRC.size):
        queues.pop(name, None)
    physic, logics, index = timestamps
    return KnownEnds(
        safe, (physic, logics, index), file_size, queues, list(zip(*columns[3:], strict=True))
    )


def _deletions(data: bytes, at: int) -> Iterator[QueueKey]:
    """The last one may be cut."""
    while at + _CRC.size < len(data):
        begin, end = at + _CRC.size, at + _CRC.size + 1 + data[at + _CRC.size] + _QUEUE_ID.size
        if end > len(data) or _CRC.unpack_from(data, at)[0] != zlib.crc32(data[begin:end]):
            return
        yield _name(data, begin)[0]
        at = end


def _name(data: bytes, at: int) -> tuple[QueueKey, int]:
    stop = at + 1 + data[at]
    (queue_id,) = _QUEUE_ID.unpack_from(data, stop)
    return (data[at + 1 : stop].decode("utf-8", "replace"), queue_id), stop + _QUEUE_ID.size
