"""Looking for the next request for a moment before the process goes to sleep.

A process that sleeps has to be woken, and a processor without work sleeps as well: on a virtual machine it goes back
to the host. Getting both again takes 20 to 60 µs, several times what a send takes, and a client that sends one message after
the other pays for it each time. So while requests come one by one, each soon after the last answer, the loop asks for events
without sleeping.

Falling asleep and waking up take CPU time, too, so what is found at once costs nothing. What is found late costs more than
it saves. So an account is kept: every request that is found brings in three quarters of the window and costs the time that
was spent on looking for it. Looking ends when it has cost too much, or when nothing came within the window; when it did not
pay there is a pause, a longer one each time.

Nothing is looked for while requests come faster than they are served, and while answers wait for a disk or a slave: the
thread that syncs needs the interpreter, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from .processors import usable_processors

__all__ = ["IdlePolling", "helps_here"]

_MOST_WINDOWS: Final = 4
"""The account goes so far above and below zero: some dozens of requests decide, and not what was long ago."""
_WORTH_WINDOWS: Final = 0.75
"""What a request that is found brings in. With less the asyncio ``Producer``, which comes back after 45 to 65 µs, gains
little; with more, clients that come back late cost a processor for nothing."""
_FIRST_PAUSE_S: Final = 0.004
_LONGEST_PAUSE_S: Final = 0.064
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
        """``window_s``: for how long after the last request. ``now`` in seconds, of a clock that is never set; ``reads``
        counts how often something came; ``waiting``: answers that wait for something else than this loop."""
        self.active: bool = False
        """It looks in the next turn of the loop, too."""
        self.window_s: float = window_s
        self._now = now
        self._reads = reads
        self._waiting = waiting
        self._seen = 0
        self._served_s = 0.0
        """When it was seen that something had come and was served."""
        self._empty_s = 0.0
        """When it was seen that nothing had come."""
        self._gain_s = 0.0
        """The account."""
        self._busy_turns = 0
        self._pause_s = 0.0
        self._not_before_s = 0.0

    def begin(self) -> None:
        """Answers have been sent, and the next request may come soon. Does nothing during a pause."""
        now = self._now()
        if self.active or now < self._not_before_s:
            return
        self._seen, self._served_s, self._busy_turns = self._reads(), now, 0
        self._gain_s = -self.window_s  # in the end one is looked for in vain
        self._go_on()

    def _go_on(self) -> None:
        """That this is called in every turn of the loop keeps the loop from sleeping."""
        self.active = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self.active = False  # at first, so that it can begin again whatever fails here
        now, reads = self._now(), self._reads()
        if reads == self._seen:
            self._empty_s, self._busy_turns = now, 0
            goes_on = now < self._served_s + self.window_s and not self._waiting()
        else:
            if self._empty_s > self._served_s:
                gain_s = self._gain_s + _WORTH_WINDOWS * self.window_s - (self._empty_s - self._served_s)
                self._gain_s = min(gain_s, _MOST_WINDOWS * self.window_s)
            self._seen, self._served_s = reads, now
            self._busy_turns += 1
            goes_on = self._busy_turns < _BUSY_TURNS and self._gain_s > -_MOST_WINDOWS * self.window_s
        if goes_on:
            self._go_on()
        else:
            self._rest(now)

    def _rest(self, now: float) -> None:
        """Not at all when it paid: turns that are tried are far enough from each other."""
        self._pause_s = 0.0 if self._gain_s > 0 else min(2 * self._pause_s or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self._not_before_s = now + self._pause_s
