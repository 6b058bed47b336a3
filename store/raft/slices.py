"""Entries on their way to several peers are read from the log once: peers that stand at the same
index get the same object, which the shell encodes once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...remoting.protocol.bodies.dledger import Entry
from ...remoting.protocol.bodies.stored_entries import body_bytes
from .entry_log import EntryLog

MAX_KEPT_BYTES = 4 * 1024 * 1024


class Slice(NamedTuple):
    """Consecutive entries, at least one."""

    entries: Sequence[Entry]
    last: int
    size: int
    """Of the bodies."""


class Slices:
    """The last slices of a log that only grows: of a leader in its term."""

    def __init__(self, log: EntryLog, slice_bytes: int) -> None:
        self._log = log
        self._slice_bytes = slice_bytes
        self._kept: dict[int, Slice] = {}
        self._kept_bytes = 0

    def at(self, first: int) -> Slice | None:
        """From this index on; None if the log has none (any more)."""
        kept = self._kept.get(first)
        if kept is not None:
            return kept
        entries = self._log.entries(first, self._slice_bytes)
        if not entries:
            return None
        size = body_bytes(entries)
        made = Slice(entries, first + len(entries) - 1, size)
        while self._kept and self._kept_bytes + size > MAX_KEPT_BYTES:
            oldest = next(iter(self._kept))
            self._kept_bytes -= self._kept.pop(oldest).size
        self._kept[first] = made
        self._kept_bytes += size
        return made

    def forget(self) -> None:
        """The log may change otherwise from now on."""
        self._kept.clear()
        self._kept_bytes = 0
