"""A DLedger log on a disk of bytearrays, in files that a few entries fill."""

from __future__ import annotations

from pathlib import Path

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.remoting.protocol.record import NewRecord, QueueEnd, encode_record, put_record
from aiorocketmq.remoting.protocol.record.entry import position_of_next
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.log.commit_log import CommitLog
from aiorocketmq.store.log.entry_index import EntryIndex
from aiorocketmq.store.log.entry_log import DledgerLog
from aiorocketmq.store.log.entry_recovery import EntryRecovery, recover_entries

from ...sim import told_of
from ..memory_disk import MemoryDisk

FILE_SIZE = 2048
INDEX_FILE_SIZE = 320
DATA = "/d/data"
INDEX = "/d/index"
CHECKSUMS = "/d/checksums"
SMALL = 48 + 91 + 1
"""An entry with an empty body and a topic of one letter."""
BODIES = [bytes([number]) * (number * 37 % 300) for number in range(40)]


class EntryWorld:
    """What a process finds, and does."""

    def __init__(self, disk: MemoryDisk | None = None, start: int = 0) -> None:
        self.disk = disk or MemoryDisk()
        files = MappedFileQueue(DATA, FILE_SIZE, self.disk)
        files.load()
        self.commit_log = CommitLog(files, 48, start)
        self.index = EntryIndex(Path(INDEX), self.disk, INDEX_FILE_SIZE, INDEX_FILE_SIZE // 32)
        self.index.load()
        self.log = DledgerLog(self.commit_log, self.index, told_of())
        self.found: EntryRecovery = recover_entries(self.commit_log, self.index)
        self.log.open(self.found)
        self.commit_log.max_body = self.commit_log.max_record = FILE_SIZE - 56
        self._queue = QueueEnd()
        self._queue.topic_field = b"\x01T"

    def killed(self) -> EntryWorld:
        """The next process, after this one was killed."""
        return EntryWorld(self.disk.copy(), self.commit_log.divided)

    def put(self, *bodies: bytes, term: int = 1) -> None:
        """As the leader of a term."""
        self.log.begin_term(term)
        for body in bodies:
            self._queue.buffer, self._queue.position, self._queue.limit = bytearray(20), 0, 20
            self._queue.max_offset = self.commit_log.index
            while (
                put_record(
                    self.commit_log, self._queue, None, body, b"", 0, 0, 1, bytes(8), 5, 0, 0, 0
                )
                is None
            ):
                self.commit_log.make_room(SMALL - 48 + len(body))

    def all(self) -> list[Entry]:
        """Every entry, read as a peer would get them."""
        found: list[Entry] = []
        index = self.log.begin_index
        while 0 <= index <= self.log.end_index:
            found += self.log.entries(index, 500)
            index = found[-1].index + 1
        return found

    def data(self) -> dict[str, bytes]:
        """The files of the log and its index."""
        return {
            path: bytes(content)
            for path, content in sorted(self.disk.files.items())
            if not path.startswith(CHECKSUMS)
        }

    def without_checksums(self) -> MemoryDisk:
        """What is on the disk, as if the original had written it."""
        disk = self.disk.copy()
        for path in [path for path in disk.files if path.startswith(CHECKSUMS)]:
            del disk.files[path]
        return disk


def made(bodies: list[bytes], first: Entry | None = None, term: int = 1) -> list[Entry]:
    """Entries as a leader's log would have them, behind another one."""
    entries: list[Entry] = []
    end, index = (0, 0) if first is None else (first.pos + first.size, first.index + 1)
    for body in bodies:
        pos = position_of_next(end, SMALL + len(body), FILE_SIZE)
        record = encode_record(
            NewRecord("T", 0, body, b"", index, pos + 48, 0, 1, bytes(8), 5, bytes(8))
        )
        entries.append(Entry(index, term, pos, record, 48 + len(record), 1))
        end, index = pos + 48 + len(record), index + 1
    return entries


def state(world: EntryWorld) -> tuple[int, int, int]:
    """Its first and last index, and the last term."""
    return world.log.begin_index, world.log.end_index, world.log.end_term
