"""What lies in a store, record by record: for tests that look at the files behind a broker's back.

The CRC is computed by ``crcmod`` here, an implementation that shares nothing with the one that
wrote the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiorocketmq.remoting.protocol.record import (
    BLANK_SIZE,
    MessageExt,
    NoRecord,
    Reason,
    decode_record,
    scan,
    size_and_magic,
)
from aiorocketmq.store import inspect
from aiorocketmq.store.log.log_reader import independent_crc
from aiorocketmq.store.model.config import CQ_UNIT_SIZE
from aiorocketmq.store.queues.consume_queue import CQ_UNIT
from aiorocketmq.store.replica.replica_stream import Piece, SlaveSide


def iter_records(
    data: bytes | memoryview, *, broker_name: str = "", check_crc: bool = False
) -> Iterator[MessageExt]:
    """The records that lie one after the other in ``data``. Raises NoRecord at the first that is
    broken."""
    data, at = bytes(data), 0
    while at < len(data):
        message = decode_record(data, at, broker_name=broker_name, check_crc=check_crc)
        at += message.store_size
        yield message


def decode_messages(
    data: bytes | memoryview, broker_name: str = "", *, check_crc: bool = False
) -> list[MessageExt]:
    """The body of a pull response, up to the first record that is broken."""
    messages: list[MessageExt] = []
    try:
        messages.extend(iter_records(data, broker_name=broker_name, check_crc=check_crc))
    except NoRecord:
        pass  # list.extend keeps what came before the error
    return messages


class EntryKind(Enum):
    """What lies at an offset of the commit log."""

    RECORD = "record"
    BLANK = "blank"
    DAMAGED = "damaged"
    END = "end"


class Entry(NamedTuple):
    """One finding in the commit log."""

    kind: EntryKind
    phy_offset: int
    size: int
    """Of the record; what a blank says is left in the file; 0 for the rest."""
    message: MessageExt | None = None
    problem: str = ""


class QueueFile(NamedTuple):
    """The units of one consume queue file, up to the first that is not valid."""

    topic: str
    queue_id: int
    path: Path
    units: list[tuple[int, int, int, int]]
    """Number in the queue, physical offset, size, tags code."""


class StoreDirectory(inspect.StoreDirectory):
    """Small ones: each file is read as a whole."""

    def entries(self) -> Iterator[Entry]:
        """The commit log in order: records, the blanks at the ends of files, then END, or DAMAGED
        for each file with something else in it (what follows in that file is not read)."""
        paths = [path for folder in self.commit_logs for path in folder.iterdir()]
        for path in sorted(paths, key=lambda path: path.name):
            yield from _entries_of(path.read_bytes(), int(path.name))

    def records(self) -> Iterator[MessageExt]:
        """The intact records in order."""
        return (entry.message for entry in self.entries() if entry.message is not None)

    def queue_files(self) -> Iterator[QueueFile]:
        """All consume queue files by topic, queue and offset."""
        queues = self.root / "consumequeue"
        for path in sorted(queues.glob("*/*/*")):
            first = int(path.name) // CQ_UNIT_SIZE
            units = []
            for number, (phy_offset, size, code) in enumerate(
                CQ_UNIT.iter_unpack(path.read_bytes()), first
            ):
                if phy_offset < 0 or size <= 0:
                    break
                units.append((number, phy_offset, size, code))
            yield QueueFile(path.parent.parent.name, int(path.parent.name), path, units)


def _entries_of(data: bytes, start: int) -> Iterator[Entry]:
    records, end, verdict = scan(data, start, crc=independent_crc)
    for at, size in zip(records.at, records.sizes, strict=True):
        yield Entry(EntryKind.RECORD, start + at, size, decode_record(data, at))
    if verdict.reason is Reason.BLANK:
        yield Entry(EntryKind.BLANK, start + end, verdict.size)
    elif len(data) - end >= BLANK_SIZE and not any(size_and_magic(data, end)):
        yield Entry(EntryKind.END, start + end, 0)
    elif len(data) - end >= BLANK_SIZE:
        yield Entry(EntryKind.DAMAGED, start + end, 0, problem=verdict.problem)


def received(slave: SlaveSide, data: bytes | memoryview, now: float) -> list[Piece]:
    """What a slave makes of bytes of the connection, however many; the pieces have bytes of their
    own."""
    pieces: list[Piece] = []
    while data:
        room = slave.get_buffer()
        part, data = data[: len(room)], data[len(room) :]
        room[: len(part)] = part
        pieces += [_with_own_bytes(each) for each in slave.buffer_updated(len(part), now)]
    return pieces


def _with_own_bytes(piece: Piece) -> Piece:
    data = bytes(piece.data)
    records = None if piece.records is None else msgspec.structs.replace(piece.records, data=data)
    return piece._replace(data=data, records=records)
