"""Looking for the next request for a moment before the process goes to sleep.

A process that sleeps has to be woken, and a processor without work sleeps as well: on a virtual machine it goes back
to the host. Getting both again takes 20 to 60 µs, several times what a send takes, and a client that sends one message after
the other pays for it each time. So while requests come one by one, each soon after the last answer, the loop asks for events
without sleeping. That costs nothing where it succeeds (falling asleep and waking up take CPU time, too), and little where it
does not: it goes on only while it succeeds, and pauses get longer after every failure.

Nothing is looked for while requests come faster than they are served, and while answers wait for a disk or a slave: the
thread that syncs needs the interpreter, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from .processors import usable_processors

__all__ = ["IdlePolling", "helps_here"]

_ENOUGH: Final = 3
"""So many requests, and what was lost at the end has been made up for."""
_LONGEST_PAUSE_MS: Final = 64
_BUSY_TURNS: Final = 8
"""So many turns of the loop without an empty one: nobody is waited for."""


def helps_here() -> bool:
    """Whether there is another processor, on which somebody can send something meanwhile."""
    return usable_processors() >= 2


class IdlePolling:
    """The looking of one server."""

    def __init__(
        self,
        window_s: float,
        *,
        now: Callable[[], float],
        reads: Callable[[], int],
        waiting: Callable[[], int] = int,
    ) -> None:
        """``window_s``: for how long after the last request. ``now`` in seconds; ``reads`` counts how often something came;
        ``waiting``: answers that wait for something else than this loop."""
        self.active: bool = False
        self._window_s = window_s
        self._now = now
        self._reads = reads
        self._waiting = waiting
        self._seen = 0
        self._until = 0.0
        self._found = 0
        """Requests that were not there in the turn before."""
        self._was_empty = False
        self._busy_turns = 0
        self._pause_ms = 1
        self._began_ms = 0
        self._not_before_ms = 0

    def begin(self, now_ms: int) -> None:
        """Answers have been sent, and the next request may come soon. Does nothing during a pause."""
        if self.active or now_ms < self._not_before_ms:
            return
        self.active, self._began_ms = True, now_ms
        self._seen, self._until = self._reads(), self._now() + self._window_s
        self._found, self._busy_turns, self._was_empty = 0, 0, False
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """One turn of the loop. That this is called again in the next one keeps the loop from sleeping."""
        reads = self._reads()
        if reads == self._seen:
            self._was_empty, self._busy_turns = True, 0
            if self._now() >= self._until or self._waiting():
                self._end()
                return
        else:
            self._seen, self._until = reads, self._now() + self._window_s
            if self._was_empty:
                self._found += 1
            self._was_empty = False
            self._busy_turns += 1
            if self._busy_turns >= _BUSY_TURNS:
                self._end()
                return
        asyncio.get_running_loop().call_soon(self._turn)

    def _end(self) -> None:
        self.active = False
        self._pause_ms = 1 if self._found >= _ENOUGH else min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
        self._not_before_ms = self._began_ms + self._pause_ms
