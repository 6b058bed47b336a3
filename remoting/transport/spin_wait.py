"""How to wait for an answer that comes soon: spinning (asking again and again) or asleep. Pure.

Where a core has nothing else to do the system puts it to rest as soon as its only thread sleeps.
Waking it, above all in a virtual machine, may take longer than what it is woken for, and the peer's
core rests just when we work: two that talk in turn both work at half their speed. Who spins pays
with the time of a core that nobody else wants, and saves the peer's; he gives it away at every
step (``sched_yield``), because the peer may need it. Measured in turn with and without (two cores):
a thread sends 26,600 messages/s one after the other, without 17,600, and the broker needs 46 µs
each, not 60.

Where somebody does want it, or where the peer is far away, answers come late, and it is better to
sleep.
"""

from __future__ import annotations

from typing import Final

SOON_S: Final = 80e-6
"""What comes within so long is worth being awake. A broker on the same machine needs a third of
it."""
SPIN_S: Final = 200e-6
"""For how long to spin: while its core was at rest the broker needs longer."""
TRIES: Final = 16
"""So many answers in a row may come later than soon: both cores have to wake up first."""
INTERRUPTED_S: Final = 1e-3
"""Somebody else has used the core meanwhile: it is wanted."""
LEAST_SLEEPS: Final = 16
MOST_SLEEPS: Final = 4096
"""So many answers are then waited for asleep."""


class SpinWait:
    """Of one connection. ``sleeps``: how many of the next answers to wait for asleep; its owner
    counts them down."""

    __slots__ = ("_late", "_next", "sleeps")

    def __init__(self) -> None:
        self.sleeps: int = 0
        self._late = 0
        self._next = LEAST_SLEEPS

    def ended(self, seconds: float) -> None:
        """After a spin. The oftener it was in vain, the rarer it is tried."""
        if seconds <= SOON_S:
            self._late = 0
            if self._next > LEAST_SLEEPS:
                self._next -= 1
            return
        self._late += 1
        if self._late >= TRIES or seconds >= INTERRUPTED_S:
            self._late = 0
            self.sleeps = self._next
            self._next = min(2 * self._next, MOST_SLEEPS)
