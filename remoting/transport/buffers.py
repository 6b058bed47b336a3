"""The memory budget of a process (``budget.py``) and its connections: they tell what they hold, and
do what it says."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from ..clock import Clock
from ..outages import Outages
from .budget import Action, MemoryBudget
from .flow import Limits
from .usable_memory import give_back, usable_memory

log: Final = logging.getLogger(__name__)

_SHARE: Final = 4


class Buffered(Protocol):
    """A connection, as it is seen from here."""

    peer: str

    def __hash__(self) -> int: ...
    def hold_back(self) -> None: ...
    def go_on(self) -> None: ...
    def cut(self, reason: str) -> None: ...


class Buffers:
    """Of all ports of a process. What a connection holds counts when a read event leaves something
    behind, when more waits for its peer than ``writePauseBytes``, and once a second; an announced
    length only as far as bytes came. The port for slaves and our own connections to others do not
    count: their number is fixed, and so is what each of them holds."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        """``maxBufferedBytes`` 0: a quarter of the memory that this process may use, at least what
        one connection may."""
        least = limits.max_frame_bytes + limits.write_pause_bytes
        limit = limits.max_buffered_bytes or max(usable_memory() // _SHARE, 2 * least)
        self._budget: MemoryBudget[Buffered] = MemoryBudget(limit)
        self._clock = clock
        self._outages = Outages(clock)
        self._judging = False
        self._given_up = 0
        """Bytes, by the last time that ``keep_house`` looked."""

    def hold(self, connection: Buffered, size: int) -> None:
        """The connection holds so many bytes now, 0 when it has ended."""
        budget = self._budget
        budget.hold(connection, size, self._clock.monotonic())
        if budget.is_due and not self._judging:
            self._judging = True
            asyncio.get_running_loop().call_soon(self.judge)

    @property
    def held(self) -> int:
        """Bytes that count now."""
        return self._budget.total

    def judge(self) -> None:
        """Stop reading from some, go on with others, cut some."""
        self._judging = False
        for connection, action, reason in self._budget.judge(self._clock.monotonic()):
            if action is Action.PAUSE:
                cause, text = (connection.peer,), "connection not read for now peer=%s reason=%s"
                self._outages.occurs(log, cause, text, connection.peer, reason)
                connection.hold_back()
            elif action is Action.RESUME:
                connection.go_on()
            else:
                connection.cut(reason)

    async def keep_house(self) -> None:
        """Once a second: give memory back to the system when much less is held than before, and
        decide. Whoever is cut does not count any more, and lets its memory go when its connection
        has ended: what is seen now is given back by the next time."""
        given_up, self._given_up = self._given_up, self._budget.take_peak()
        if given_up and await asyncio.to_thread(give_back):
            log.info(
                "memory given back to the system bytes=%d held=%d", given_up, self._budget.total
            )
        self.judge()
