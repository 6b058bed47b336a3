"""Entries of a DLedger member against their index and checksums, and against what the member noted
of them.

Whether an entry goes on from the one before, and is what its head says, was seen when the log was
read. An index unit that is wrong is no loss: entries are found without it, and it is made again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zlib import crc32

from ...remoting.protocol.record.entry import ENTRY_HEAD, ENTRY_MAGIC, INDEX_UNIT, EntryHead
from ...store.disk.system_disk import PosixDisk
from ...store.dledger.state_files import CommitFile, HardStateFile
from ...store.inspect import StoreDirectory
from ...store.log.entry_checksums import CHECKSUM_UNIT, checksum_in
from ...store.log.log_reader import FileSequence, LogRecord, StoredFile
from ...store.model.errors import StoreFileError
from .findings import Findings, span

__all__ = ["ELSEWHERE", "EntryCheck", "refuse_member"]

_HEAD: Final = ENTRY_HEAD.size
_AT_ONCE: Final = 1024
_MISSING: Final = "no unit"
_OTHER: Final = "a unit that leads elsewhere"


def refuse_member(directory: StoreDirectory, instead: str) -> None:
    """For a command that knows nothing of the other members. Raises StoreFileError."""
    folder = directory.member_folder
    if folder is not None:
        raise StoreFileError(folder, f"is the log of a member of a DLedger group: {instead}")


ELSEWHERE: Final = (
    "what it has lost the other members have; move this folder away and start it, the leader sends "
    "all of it again, and it does not vote before that"
)
"""For what changes a commit log."""


class EntryCheck:
    """One check; records come in the order of the log."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        """Raises StoreFileError, OSError."""
        checkpoint = CommitFile(folder, PosixDisk())
        self.committed, _ = checkpoint.load()
        """Index; -1 where nobody knows."""
        self.uncommitted: int = 0
        """Entries behind it that are in no queue, as it has to be."""
        self.last: EntryHead | None = None
        self._folder: Final = folder
        self._findings: Final = findings
        self._hard_state: Final = HardStateFile(folder, PosixDisk()).load()
        self._units: Final = _Units(folder / "index", INDEX_UNIT.size, findings)
        self._has_sums: Final = checkpoint.has_checksums
        self._sums: Final = _Units(folder / "checksums", CHECKSUM_UNIT.size, findings)
        self._wrong: list[tuple[int, int, str]] = []
        """Entries with numbers that follow each other: first, last, what they have."""
        self._told = (0, 0)
        self._others: dict[int, int] = {}
        """Entries that are not what they were, by position: the index of each."""

    @classmethod
    def of(cls, directory: StoreDirectory, findings: Findings) -> EntryCheck | None:
        """None where the log is no member's."""
        folder = directory.member_folder
        return None if folder is None else cls(folder, findings)

    def record(self, record: LogRecord) -> None:
        """Look for the unit of an entry, if this is one: an older log has none."""
        at = record.position - _HEAD
        if at < 0:
            return
        head = EntryHead._make(ENTRY_HEAD.unpack_from(record.data, at))
        if head.magic != ENTRY_MAGIC or head.pos != record.phy_offset - _HEAD:
            return
        self.last = head
        self._check_sum(record, at, head)
        unit = self._units.read(head.index)
        if unit == INDEX_UNIT.pack(head.magic, head.pos, head.size, head.index, head.term):
            return
        problem = _OTHER if any(unit) else _MISSING
        if self._wrong and self._wrong[-1][1:] == (head.index - 1, problem):
            self._wrong[-1] = self._wrong[-1][0], head.index, problem
        else:
            self._wrong.append((head.index, head.index, problem))

    def _check_sum(self, record: LogRecord, at: int, head: EntryHead) -> None:
        """Whether an entry is what it was when it was written, as far as that was noted."""
        noted = checksum_in(self._sums.read(head.index)) if self._has_sums else None
        told = self._told[0] <= head.pos < self._told[1]
        if not told and noted not in (None, crc32(memoryview(record.data)[at : at + head.size])):
            self._others[head.pos] = head.index

    def damaged(self, begin: int, end: int) -> None:
        """What lies there in the log is told already; the next record may be of it."""
        self._told = begin, end

    def is_uncommitted(self) -> bool:
        """Of the entry that was looked at last: as far as the member knew."""
        return self.last is not None and self.last.index > self.committed >= 0

    def finish(self) -> None:
        """Tell what was found."""
        for first, last, problem in self._wrong:
            path, byte = self._units.where(first)
            what = f"{'entry' if first == last else 'entries'} {span(first, last)}"
            self._findings.damage(path, byte, f"{problem} for {what}", recoverable=True)
        for pos, index in self._others.items():
            problem = f"entry {index}, at {pos} of the log, is not what it was when it was written"
            self._findings.damage(*self._sums.where(index), problem)
        end, term = (-1, -1) if self.last is None else (self.last.index, self.last.term)
        if self.committed > end:
            problem = (
                f"says that entries up to {self.committed} are committed, the log ends with {end}"
            )
            self._findings.damage(self._folder / "checkpoint", 0, problem)
        if self._hard_state is None:
            problem = "is missing or not to be understood: what this member voted for is not known"
            self._findings.damage(self._folder / "currterm", 0, problem)
        elif self._hard_state.term < term:
            problem = f"says the term {self._hard_state.term}, the last entry has the term {term}"
            self._findings.damage(self._folder / "currterm", 0, problem)
        if self.uncommitted:
            problem = (
                f"entries {span(end - self.uncommitted + 1, end)} are not committed as far as this "
                "member knows: the next leader confirms or replaces them"
            )
            self._findings.note(self._folder, problem)

    def __str__(self) -> str:
        if self.last is None:
            return "no entries"
        return f"entries up to {self.last.index} in term {self.last.term}"


class _Units:
    """What is kept of every entry in files beside the log, where there are any."""

    def __init__(self, folder: Path, unit: int, findings: Findings) -> None:
        self._folder: Final = folder
        self._unit: Final = unit
        self._files: Final = FileSequence(folder) if folder.is_dir() else None
        for path, byte, problem in self._files.problems if self._files is not None else ():
            findings.damage(path, byte, problem, recoverable=True)
        self._block, self._block_first = b"", 0

    def read(self, index: int) -> bytes:
        """The unit of an entry; empty where no file has it."""
        at = (index - self._block_first) * self._unit
        if not 0 <= at < len(self._block):
            self._block, self._block_first, at = b"", index, 0
            file = self._file(index)
            if file is not None:
                place = index * self._unit - file.start
                self._block = file.read(place, _AT_ONCE * self._unit)
        return self._block[at : at + self._unit]

    def _file(self, index: int) -> StoredFile | None:
        return None if self._files is None else self._files.find(index * self._unit)

    def where(self, index: int) -> tuple[Path, int]:
        """File and byte of a unit, be it there or not."""
        file = self._file(index)
        if file is None:
            return self._folder, 0
        return file.path, index * self._unit - file.start
