"""A member asks the others for what is damaged in its own log, whoever found it: the scrub, or a
pull. As a slave does (``replication/self_mending.py``), a few times, further and further apart.

Members of the original tell entries only while they lead: a leader that nobody tells asks another
member to lead. What has expired at all others is asked for, and waited for, no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages, without_figures
from ...remoting.protocol.bodies.dledger import Entry
from ...remoting.protocol.record.entry import ENTRY_HEAD
from ...remoting.services import to_the_end
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError, StoreFileError
from ..replication.damage_watch import Tries, keep_mended

log: Final = logging.getLogger(__name__)

HAND_OVER_PAUSE_S: Final = 60.0
"""A leader whose damage nobody mended asks again after that."""
_AT_ONCE: Final = 100
PATIENCE_S: Final = 60.0
"""So long a leader's readers wait while nobody answers: members may be away for a moment, and a
group of consumers never gets what was passed over."""


class ExpiredEverywhereError(StoreError):
    """The logs of all other members begin behind an entry."""


class EntryMending:
    """Service. ``entries_of_others``: the entry of an index as each other member has it that
    answers. Raises ExpiredEverywhereError."""

    def __init__(
        self,
        store: MessageStore,
        entries_of_others: Callable[[int], AsyncIterator[Entry]],
        hand_over: Callable[[], Awaitable[object]],
        mended: Callable[[], None],
        clock: Clock,
    ) -> None:
        """``hand_over``: of a leader, to another member; does nothing anywhere else. ``mended`` is
        called after each entry."""
        self._store: Final = store
        self._entries_of_others: Final = entries_of_others
        self._hand_over: Final = hand_over
        self._mended: Final = mended
        self._hands_over_at = 0.0
        """Not earlier."""
        self._clock: Final = clock
        self._outages: Final = Outages(clock)
        self._tries: Final = Tries()
        store.damage.is_watched = True
        self._unanswered: Final[Counter[int]] = Counter()
        """How often nobody had an answer: those that have expired elsewhere keep none waiting."""
        self._silent_since: float | None = None
        """Nobody has had one since."""

    async def run(self) -> None:
        """Until cancelled."""
        await keep_mended(self._store, self._clock, self.mend)

    async def mend(self) -> None:
        """Ask for what it is time for."""
        self._divide()
        now = self._clock.monotonic()
        if not self._store.damage.is_known:
            self._silent_since = None
        self._tries.tell(self._store.damage, now)
        due = self._tries.due(self._store.damage.places, now)
        due.sort(key=self._unanswered.__getitem__)
        for phy_offset in due[:_AT_ONCE]:
            try:
                if not await self._mend(phy_offset):  # nobody has answered: another time
                    self._unanswered[phy_offset] += 1
                    if self._silent_since is None:
                        self._silent_since = now
                    if now - self._silent_since >= PATIENCE_S:
                        for each in due:
                            self._store.damage.is_asked_for(each)
                    if now >= self._hands_over_at:
                        self._hands_over_at = now + HAND_OVER_PAUSE_S
                        await self._hand_over()
                    return
            except StoreError as error:
                if isinstance(error, ExpiredEverywhereError):
                    self._store.damage.is_nowhere_intact(phy_offset)
                self._outages.occurs(
                    log,
                    (without_figures(str(error)),),
                    "a damaged record is not mended phy_offset=%d reason=%s",
                    phy_offset,
                    error,
                )
            self._silent_since = None
            self._tries.count(phy_offset, now)
            self._store.damage.is_asked_for(phy_offset)

    def _divide(self) -> None:
        """What a start or the scrub has found ends where something is intact again: several entries
        may lie there, which are asked for one by one. Of many the first, then the next."""
        raft, damage = self._store.raft, self._store.damage
        assert raft is not None, "only members have entries"
        for phy_offset, size in damage.places.items():
            if phy_offset in self._tries:
                continue
            places: dict[int, int] = {}
            with contextlib.suppress(StoreFileError):  # another time
                for each in raft.entries_in(phy_offset, size):
                    if len(places) == _AT_ONCE:
                        head = each.phy_offset - ENTRY_HEAD.size
                        places[head] = phy_offset + size - head
                        break
                    places[each.phy_offset] = each.size
                if places and places.keys() != {phy_offset}:
                    damage.divide(phy_offset, places)

    async def _mend(self, phy_offset: int) -> bool:
        """Whether somebody has answered. Raises StoreError: nobody has it intact."""
        raft = self._store.raft
        assert raft is not None, "only members have entries"
        if (index := raft.index_at(phy_offset)) is None:
            return True
        wrong: StoreError | None = None
        async for entry in self._entries_of_others(index):
            try:
                size = await to_the_end(asyncio.to_thread(raft.put_right, phy_offset, entry))
            except StoreError as error:
                wrong = error
                continue
            self._store.mended(phy_offset, size)
            self._mended()
            log.info("a damaged record is mended phy_offset=%d size=%d", phy_offset, size)
            return True
        if wrong is not None:
            raise wrong
        return False
