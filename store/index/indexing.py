"""Building the index behind the writer (classes ReputMessageService, IndexService;
consumequeue-index.md §3.3).

A put only adds the keys of its message to ``keys``; some milliseconds later ``IndexingService``
makes items of them, in steps of a few hundred (less than a millisecond), one step per turn of the
event loop, more when too much waits.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...remoting.clock import Clock
from ...remoting.protocol.leaves import KeyEntries, record_entries
from ...remoting.protocol.message.index_keys import TopicPrefixes
from ...remoting.protocol.record import Records
from ..model.dispatch_request import DispatchRequest, requests_of
from ..model.errors import StoreFileError
from .index_files import IndexFiles

if TYPE_CHECKING:
    from ...remoting.protocol.leaves.pure_index import Columns

log: Final = logging.getLogger(__name__)

_LARGEST_STEP: Final = 8192
_LEAST_STEP: Final = 64
_FIRST_STEP: Final = 128
_STEP_SECONDS: Final = 0.0007
"""A step that takes longer halves the next one, a whole one that takes less than half of it doubles
it: after the file was written back to the disk every slot is a page fault, so the first steps are
small."""
_BACKLOG_PER_STEP: Final = 2_000
"""For every so many messages that wait, or twice what a step may write, one more step is done per
turn."""


class Indexing:
    """Messages on their way into the index files."""

    def __init__(self, files: IndexFiles, clock: Clock) -> None:
        self.keys: Final = KeyEntries()
        """Of messages that were put; the writer adds them."""
        self.idle: bool = False
        """Who adds keys has to call ``wake``."""
        self.on_keys: Callable[[], None] = lambda: None
        """Called by ``wake``."""
        self._files: Final = files
        self._clock: Final = clock
        self._prefixes: Final = TopicPrefixes()
        self._entries = array("i"), array("q"), array("q")
        """Of keys that were taken: hashes, physical offsets, store times."""
        self._written = 0
        """So many of them are in the files."""
        self._size = _FIRST_STEP
        self._done_offset = -1
        self._done_items = 0

    @property
    def waits(self) -> bool:
        """Something is not in the files yet."""
        return bool(self.keys or self._left)

    @property
    def waiting(self) -> int:
        """How many keys do, about."""
        return len(self.keys) + self._left

    @property
    def _left(self) -> int:
        """Entries that are not in the files."""
        return len(self._entries[0]) - self._written

    def position(self, log_end: int) -> int:
        """Every message below has its items in the files; ``log_end`` when nothing waits."""
        if self._left:
            return self._entries[1][self._written]
        return self.keys.first_offset if self.keys else log_end

    def wake(self) -> None:
        """There are keys now."""
        self.idle = False
        self.on_keys()

    def note(self, request: DispatchRequest) -> None:
        """A message that was read from a log."""
        self.keys.add(
            request.topic,
            request.properties,
            request.phy_offset,
            request.store_timestamp,
            request.sys_flag,
        )
        self.wake()

    def note_records(self, records: Records) -> None:
        """The same for many at once."""
        while self.keys:
            self._take()
        prefixes, done = [self._prefixes[name] for name in records.names], 0
        while done < len(records):
            count, entries = record_entries(records, prefixes, done, _LARGEST_STEP)
            self._add(entries)
            done += count
        self.wake()

    # -- recovery

    def go_on(self) -> None:
        """Messages that are in the files already are passed over from now on (``dispatch``). Raises
        as ``build_all``."""
        self.build_all()
        self._done_offset = self._files.end_phy_offset
        self._done_items = self._files.items_at_end()

    def dispatch(self, request: DispatchRequest) -> None:
        """A record read from the log, in order; blocks now and then. Raises OutOfSpaceError,
        StoreFileError."""
        if request.phy_offset < self._done_offset:
            return
        self.note(request)
        if request.phy_offset == self._done_offset:  # its last items may be missing
            self._take()
            self._written = min(self._done_items, self._left)
        if len(self.keys) >= self._size:
            self.build_all()

    def dispatch_records(self, records: Records) -> None:
        """The same for many records."""
        if records.phy_offsets[0] <= self._done_offset:
            for request in requests_of(records):
                self.dispatch(request)
            return
        self.note_records(records)
        self.build_all()

    def build_all(self) -> None:
        """Everything that waits; blocks when there has to be room for it. Raises OutOfSpaceError,
        StoreFileError."""
        while self.waits:
            if not self.step():
                self._files.use(self._files.make())

    # -- the work

    def step(self) -> bool:
        """Write some items. False when they need room first (``IndexFiles.make``)."""
        if self._files.synced:
            self._size = min(self._size, _FIRST_STEP)
        began = self._clock.monotonic()
        if not self._left:
            self._take()
            if not self._left:  # those messages had no keys
                return True
        current = self._files.current()
        if current is None:
            return False
        index, room = current
        start = self._written
        stop = min(start + min(room, self._size), len(self._entries[0]))
        index.put(*(column[start:stop] for column in self._entries))
        self._written = stop
        took = self._clock.monotonic() - began
        if took > _STEP_SECONDS:
            self._size = max(_LEAST_STEP, self._size // 2)
        elif took < _STEP_SECONDS / 2 and stop - start >= self._size:
            self._size = min(_LARGEST_STEP, self._size * 2)
        return True

    def _take(self) -> None:
        """A step's keys."""
        self._add(self.keys.take(self._size))

    def _add(self, entries: Columns) -> None:
        if not self._left:
            self._entries, self._written = entries, 0
            return
        for column, more in zip(self._entries, entries, strict=True):
            del column[: self._written]
            column.extend(more)
        self._written = 0

    def last_offset(self) -> int:
        """Of the message that came last, -1 when nothing waits."""
        if self.keys:
            return self.keys.last_offset
        return self._entries[1][-1] if self._left else -1

    def steps_of_a_turn(self) -> int:
        """How many steps keep up with what comes."""
        return 1 + self.waiting // max(_BACKLOG_PER_STEP, 2 * self._size)

    def close(self) -> bool:
        """Build what waits; blocks. False when that failed: then the index has to be completed from
        the log."""
        try:
            self.build_all()
        except StoreFileError as error:
            log.error(
                "the index could not be completed, this is done when the store is opened again: %s",
                error,
            )
            return False
        return True
