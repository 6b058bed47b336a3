"""Entries of a DLedger member against their index, and against what the member noted of them.

Whether an entry goes on from the one before, and is what its head says, was seen when the log was
read. An index unit that is wrong is no loss: entries are found without it, and it is made again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...remoting.protocol.record.entry import ENTRY_HEAD, ENTRY_MAGIC, INDEX_UNIT, EntryHead
from ...store.disk.system_disk import PosixDisk
from ...store.dledger.state_files import CommitFile, HardStateFile
from ...store.inspect import StoreDirectory
from ...store.log.log_reader import FileSequence, LogRecord
from ...store.model.errors import StoreFileError
from .findings import Findings, span

__all__ = ["ELSEWHERE", "EntryCheck", "refuse_member"]

_HEAD: Final = ENTRY_HEAD.size
_UNIT: Final = INDEX_UNIT.size
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
        self.committed, _ = CommitFile(folder, PosixDisk()).load()
        """Index; -1 where nobody knows."""
        self.uncommitted: int = 0
        """Entries behind it that are in no queue, as it has to be."""
        self.last: EntryHead | None = None
        self._folder: Final = folder
        self._findings: Final = findings
        self._hard_state: Final = HardStateFile(folder, PosixDisk()).load()
        index = folder / "index"
        self._units: Final = FileSequence(index) if index.is_dir() else None
        for path, byte, problem in self._units.problems if self._units is not None else ():
            findings.damage(path, byte, problem, recoverable=True)
        self._block, self._block_first = b"", 0
        self._wrong: list[tuple[int, int, str]] = []
        """Entries with numbers that follow each other: first, last, what they have."""

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
        unit = self._unit(head.index)
        if unit == INDEX_UNIT.pack(head.magic, head.pos, head.size, head.index, head.term):
            return
        problem = _OTHER if any(unit) else _MISSING
        if self._wrong and self._wrong[-1][1:] == (head.index - 1, problem):
            self._wrong[-1] = self._wrong[-1][0], head.index, problem
        else:
            self._wrong.append((head.index, head.index, problem))

    def is_uncommitted(self) -> bool:
        """Of the entry that was looked at last: as far as the member knew."""
        return self.last is not None and self.last.index > self.committed >= 0

    def finish(self) -> None:
        """Tell what was found."""
        for first, last, problem in self._wrong:
            path, byte = self._where(first)
            what = f"{'entry' if first == last else 'entries'} {span(first, last)}"
            self._findings.damage(path, byte, f"{problem} for {what}", recoverable=True)
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

    def _unit(self, index: int) -> bytes:
        """Its 32 bytes; empty where no file has them."""
        at = (index - self._block_first) * _UNIT
        if not 0 <= at < len(self._block):
            self._block, self._block_first, at = b"", index, 0
            file = None if self._units is None else self._units.find(index * _UNIT)
            if file is not None:
                self._block = file.read(index * _UNIT - file.start, _AT_ONCE * _UNIT)
        return self._block[at : at + _UNIT]

    def _where(self, index: int) -> tuple[Path, int]:
        """File and byte of a unit, be it there or not."""
        file = None if self._units is None else self._units.find(index * _UNIT)
        if file is None:
            return self._folder / "index", 0
        return file.path, index * _UNIT - file.start
