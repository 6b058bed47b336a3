"""Records of the commit log that are not what was written: logged once each, counted, kept for who
can mend them.

Nothing that reads stops at one: it is left out, and what lies beside it is handed out.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import accumulate
from typing import Final

log: Final = logging.getLogger(__name__)

_MOST: Final = 10_000
"""Kept and logged one by one; of more only the number."""


def lies_in(places: Mapping[int, int]) -> Callable[[int], bool]:
    """Whether a byte is one of these places, which may lie over each other: of a stretch only its
    begin is known, not which records lie in it."""
    begins = sorted(places)
    ends = list(accumulate((begin + places[begin] for begin in begins), max))

    def is_in(phy_offset: int) -> bool:
        number = bisect_right(begins, phy_offset)
        return number > 0 and phy_offset < ends[number - 1]

    return is_in


class DamagedRecords:
    """Whoever finds one notes it, in any thread."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.found: int = 0
        """Different records since the start."""
        self.mended: int = 0
        self.up_to: int = 0
        """Where the last of them ends, mended or not; readers look closely at what lies before."""
        self.is_watched = False
        """Somebody asks other replicas for what is."""
        self.on_found: Final[list[Callable[[], object]]] = []
        """Called when something new is, in the thread that found it."""
        self._places: dict[int, int] = {}
        self._bad_sectors: Final[dict[int, bool]] = {}
        """Pages that could not be read, and whether they were looked at (``bad_sectors``)."""
        self._nowhere_intact: set[int] = set()
        self._asked: set[int] = set()
        self._lock: Final = lock

    @property
    def is_known(self) -> bool:
        """Something is damaged still."""
        return bool(self._places)

    @property
    def places(self) -> dict[int, int]:
        """Physical offsets and sizes of what is damaged still."""
        with self._lock:
            return dict(self._places)

    @property
    def awaited(self) -> dict[int, int]:
        """Those of them that another replica may have intact."""
        with self._lock:
            return {at: n for at, n in self._places.items() if at not in self._nowhere_intact}

    @property
    def unasked(self) -> dict[int, int]:
        """Those of them that no other replica was asked for yet."""
        with self._lock:
            return {at: n for at, n in self._places.items() if at not in self._asked}

    def is_asked_for(self, phy_offset: int) -> None:
        """Other replicas were asked, and it is damaged still: readers of a leader do not wait any
        longer, for it may take hours."""
        with self._lock:
            if phy_offset in self._places:
                self._asked.add(phy_offset)

    def is_nowhere_intact(self, phy_offset: int) -> None:
        """The replica that leads has it damaged, too: whoever waits for it waits in vain."""
        with self._lock:
            if phy_offset in self._places:
                self._nowhere_intact.add(phy_offset)

    def remember(self, phy_offset: int, size: int) -> int:
        """How many there are now; 0: it was known, or there are too many. For who has logged it
        himself. Of one that is longer than was known the rest is another one."""
        with self._lock:
            while (known := self._places.get(phy_offset, 0)) and known < size:
                phy_offset, size = phy_offset + known, size - known
            if known or len(self._places) > _MOST:
                return 0
            self._places[phy_offset] = size
            self.up_to = max(self.up_to, phy_offset + size)
            self.found += 1
            count = len(self._places)
        for each in self.on_found:
            each()
        return count

    def note(self, phy_offset: int, size: int, problem: str, seen: str) -> None:
        """``seen``: where, for the line in the log: ``queue=T/0 offset=5`` or who looked."""
        number = self.remember(phy_offset, size)
        if not number:
            return
        if number > _MOST:
            log.error(
                "more than %d records of the commit log are damaged, no more of them are logged",
                _MOST,
            )
            return
        log.error(
            "a record of the commit log is damaged and left out phy_offset=%d size=%d %s "
            "problem=%s "
            "(mqstore verify finds all, mqstore repair fetches them from another replica)",
            phy_offset, size, seen, problem,
        )  # fmt: skip

    def note_bad_sector(self, phy_offset: int, size: int) -> None:
        """Somebody came upon one, and goes on with zeros: which records lie there is not known
        yet."""
        with self._lock:
            self.up_to = max(self.up_to, phy_offset + size)
            if phy_offset in self._bad_sectors or len(self._bad_sectors) >= _MOST:
                return
            self._bad_sectors[phy_offset] = False
        log.error(
            "the disk cannot read a part of the commit log (Input/output error), "
            "what lies there is damaged phy_offset=%d size=%d",
            phy_offset, size,
        )  # fmt: skip

    def bad_sectors(self) -> list[int]:
        """Where those begin that nobody has asked for yet."""
        with self._lock:
            new = [at for at, is_known in self._bad_sectors.items() if not is_known]
            self._bad_sectors.update(dict.fromkeys(new, True))
        return new

    def divide(self, phy_offset: int, places: Mapping[int, int]) -> None:
        """What counted as one place is these, which can be mended one by one."""
        with self._lock:
            if self._forget(phy_offset):
                self._places.update(places)
                self.found += len(places) - 1

    def forget_before(self, phy_offset: int) -> None:
        """The log begins there now: what lay in front is waited for, and asked for, no more."""
        with self._lock:
            for at in [at for at in self._places if at < phy_offset]:
                self._forget(at)

    def mend(self, phy_offset: int) -> None:
        """It is intact again."""
        with self._lock:
            self.mended += self._forget(phy_offset)

    def _forget(self, phy_offset: int) -> bool:
        """Whether it was known."""
        self._nowhere_intact.discard(phy_offset)
        self._asked.discard(phy_offset)
        return self._places.pop(phy_offset, None) is not None
