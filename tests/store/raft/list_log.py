"""An ``EntryLog`` that is a list, with the blank rule of the files (``dledger.md`` §4)."""

from __future__ import annotations

from collections.abc import Sequence

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.remoting.protocol.record.entry import ENTRY_HEAD, ENTRY_MAGIC
from aiorocketmq.store.raft.entry_log import EntryLogError
from aiorocketmq.store.raft.old_log import NO_OLD_LOG, OldLog


class ListLog:
    """Entries of ``begin_index`` and up."""

    def __init__(self, entries: Sequence[Entry] = (), *, file_size: int = 65_536) -> None:
        self.stored = list(entries)
        self.file_size = file_size
        self.old_log: OldLog = NO_OLD_LOG
        self.full = False
        """Appends are refused."""

    @property
    def begin_index(self) -> int:
        return self.stored[0].index if self.stored else -1

    @property
    def end_index(self) -> int:
        return self.stored[-1].index if self.stored else -1

    @property
    def end_term(self) -> int:
        return self.stored[-1].term if self.stored else -1

    def position_for(self, size: int) -> int:
        end = self.stored[-1].pos + self.stored[-1].size if self.stored else 0
        room = self.file_size - end % self.file_size
        return end + room if size + 8 > room else end

    def entries(self, first: int, max_bytes: int) -> list[Entry]:
        taken: list[Entry] = []
        size = 0
        at = first - self.begin_index
        for entry in self.stored[at:] if self.stored and at >= 0 else ():
            size += len(entry.body)
            if taken and size > max_bytes:
                break
            taken.append(entry)
        return taken

    def term_of(self, index: int) -> int:
        return self.stored[index - self.begin_index].term

    def matches(self, entry: Entry) -> bool:
        return (
            self.begin_index <= entry.index <= self.end_index
            and bool(self.stored)
            and self.stored[entry.index - self.begin_index] == entry
        )

    def append(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if self.full:
                raise EntryLogError("the disk is full")
            if self.stored and entry.index != self.end_index + 1:
                raise EntryLogError(f"{entry.index} does not follow {self.end_index}")
            if entry.pos != self.position_for(entry.size):
                raise EntryLogError(f"{entry.pos}: should be {self.position_for(entry.size)}")
            self.stored.append(entry)

    def truncate(self, end_index: int) -> None:
        if self.stored:
            del self.stored[max(0, end_index + 1 - self.begin_index) :]

    def begin_with(self, entry: Entry) -> None:
        self.stored = []
        if self.full:
            raise EntryLogError("the disk is full")
        self.stored = [entry]

    def put(self, term: int, body: bytes) -> Entry:
        """What the leader's own store does."""
        size = ENTRY_HEAD.size + len(body)
        entry = Entry(
            index=self.end_index + 1,
            term=term,
            pos=self.position_for(size),
            body=body,
            size=size,
            magic=ENTRY_MAGIC,
        )
        self.stored.append(entry)
        return entry
