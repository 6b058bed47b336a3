"""When a replica asks others for what is damaged in its own log: at once when something has been
found, and a few times later, further and further apart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from ...remoting.clock import Clock
from ...remoting.services import happens_within
from ...store.log.damage import DamagedRecords
from ...store.message_store import MessageStore

LOOK_S: Final = 10.0
PAUSES_S: Final = (0.0, 60.0, 3600.0)
"""Before each time that a place is asked for; then never again until the next start."""
UNHEARD_S: Final = 60.0
"""Pause after a time when nobody could be asked, or nobody answered: that does not count."""


class Tries:
    """How often each place was asked for, by physical offset, and when it is the next time."""

    def __init__(self) -> None:
        self._of: Final[dict[int, tuple[int, float]]] = {}

    def __contains__(self, phy_offset: int) -> bool:
        """It was asked for."""
        return phy_offset in self._of

    def due(self, places: Iterable[int], now: float) -> list[int]:
        return [each for each in places if self._of.get(each, (0, now))[1] <= now]

    def tell(self, damage: DamagedRecords, now: float) -> None:
        """What was asked for, and is not for now, nobody waits for: also what looked mended, and is
        found again."""
        for each in damage.unasked:
            if each in self and self._of[each][1] > now:
                damage.is_asked_for(each)

    def count(self, phy_offset: int, now: float) -> bool:
        """It is asked for. Whether for the last time."""
        count = self._of.get(phy_offset, (0, now))[0] + 1
        last = count == len(PAUSES_S)
        self._of[phy_offset] = count, float("inf") if last else now + PAUSES_S[count]
        return last

    def was_unheard(self, phy_offset: int, now: float) -> None:
        """That did not count."""
        self._of[phy_offset] = self._of[phy_offset][0] - 1, now + UNHEARD_S

    def forget(self, phy_offset: int) -> None:
        """As if it had never been asked for."""
        self._of.pop(phy_offset, None)

    def give_up(self, phy_offset: int) -> None:
        """Nobody has it."""
        self._of[phy_offset] = len(PAUSES_S), float("inf")


async def keep_mended(
    store: MessageStore, clock: Clock, mend: Callable[[], Awaitable[None]]
) -> None:
    """Until cancelled: ``mend`` whenever it may be time to ask for something. Threads find damage,
    too; so did the start. Who waits for what is damaged reads again each time."""
    found, damage = asyncio.Event(), store.damage
    if damage.is_known:
        found.set()
    tell = partial(asyncio.get_running_loop().call_soon_threadsafe, found.set)
    damage.on_found.append(tell)
    try:
        while True:
            await happens_within(found, LOOK_S, clock)
            found.clear()
            await mend()
            store.read_again()
    finally:
        damage.on_found.remove(tell)
