"""What a member needs of its log. Nothing here is durable before the shell syncs it; the original
acknowledges entries in the page cache of a majority, and so does a member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...remoting.protocol.bodies.dledger import Entry
from ..model.errors import BrokenPromiseError, StoreError
from .old_log import OldLog


class EntryLogError(StoreError):
    """The log does not take an entry: wrong position, no space, a failed file. What is stored is
    told by ``end_index``."""


class CommittedConflict(BrokenPromiseError):
    """An entry that is committed would be replaced, or another promise of Raft broken: logs or
    identities of the group were mixed up. The node has to stop and ask for a person."""


class EntryLog(Protocol):
    """Entries by index, from ``begin_index`` without gaps."""

    @property
    def begin_index(self) -> int:
        """Of the first entry, -1 when there is none."""

    @property
    def end_index(self) -> int:
        """Of the last entry, -1 when there is none."""

    @property
    def end_term(self) -> int:
        """Term of the last entry, -1 when there is none."""

    @property
    def old_log(self) -> OldLog:
        """What lies in front of the entries."""

    def position_for(self, size: int) -> int:
        """Where an entry of ``size`` bytes (head included) would go behind the last one: the blank
        rule of §4."""

    def entries(self, first: int, max_bytes: int) -> Sequence[Entry]:
        """From index ``first`` on, at least one if there is one, then as long as their bodies are
        not more than ``max_bytes`` together. None where the first one is damaged: then who lacks it
        gets it from another member."""

    def term_of(self, index: int) -> int:
        """Of an entry that is there."""

    def matches(self, entry: Entry) -> bool:
        """This very entry is stored: index, term, pos, size, magic, channel and body are equal.
        False where there is none of that index."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Entries of a leader, consecutive, behind the last one; each ``pos`` is verified before it
        is written. Raises EntryLogError; a prefix may be stored then."""

    def truncate(self, end_index: int) -> None:
        """Entries behind ``end_index`` go; -1 empties a log that begins with 0. Raises
        EntryLogError."""

    def begin_with(self, entry: Entry) -> None:
        """The log becomes this one entry, whatever it was. Raises EntryLogError."""
