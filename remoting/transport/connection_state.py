"""The life of a connection as a table, and what holds up its reading. Pure; the specification of
``connection.py``, which asks it what may be done and tells it what happens.

::

    life        MADE      STOP      CLOSE     CUT       LOST      read  serve  write
    CONNECTING  OPEN      DRAINING  .         ENDING    ENDED     no    no     no
    OPEN        .         DRAINING  ENDING    ENDING    ENDED     yes   yes    yes
    DRAINING    .         .         ENDING    ENDING    ENDED     no    yes    yes
    ENDING      .         .         .         .         ENDED     no    no     no
    ENDED       .         .         .         .         .         no    no     no

A dot: it stays what it is. In DRAINING what was received is still served and answered; in ENDING
what was written may still be on its way (``farewell.py``), what comes is thrown away.

While it is OPEN or DRAINING any of these may hold it up, for as long as it lasts::

    hold    begins with    ends with       read  serve  why
    UNREAD  PAUSE_WRITING  RESUME_WRITING  no    no     the peer has too much to read already
    QUEUED  QUEUE_FULL     QUEUE_FREE      no    no     too many of its long requests wait
    BUDGET  HOLD_BACK      GO_ON           no    yes    all connections together hold too much

Whoever asks (a client) goes on in spite of UNREAD: two that ask each other, and both wait until the
other one reads, would wait for ever.

All states are made when this module is imported; a transition is one look into a dict.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from itertools import product
from typing import Final


class Life(enum.Enum):
    CONNECTING = enum.auto()
    OPEN = enum.auto()
    DRAINING = enum.auto()
    ENDING = enum.auto()
    ENDED = enum.auto()


class Hold(enum.Flag):
    NONE = 0
    UNREAD = enum.auto()
    QUEUED = enum.auto()
    BUDGET = enum.auto()


class Event(enum.Enum):
    MADE = enum.auto()
    """There is a transport."""
    STOP = enum.auto()
    """We take no more requests."""
    CLOSE = enum.auto()
    """We end it, behind what was written."""
    CUT = enum.auto()
    """We end it at once."""
    LOST = enum.auto()
    """The transport has ended, whoever wanted it."""
    PAUSE_WRITING = enum.auto()
    RESUME_WRITING = enum.auto()
    QUEUE_FULL = enum.auto()
    QUEUE_FREE = enum.auto()
    HOLD_BACK = enum.auto()
    GO_ON = enum.auto()


LIVES: Final[Mapping[Life, Mapping[Event, Life]]] = {
    Life.CONNECTING: {
        Event.MADE: Life.OPEN,
        Event.STOP: Life.DRAINING,
        Event.CUT: Life.ENDING,
        Event.LOST: Life.ENDED,
    },
    Life.OPEN: {
        Event.STOP: Life.DRAINING,
        Event.CLOSE: Life.ENDING,
        Event.CUT: Life.ENDING,
        Event.LOST: Life.ENDED,
    },
    Life.DRAINING: {Event.CLOSE: Life.ENDING, Event.CUT: Life.ENDING, Event.LOST: Life.ENDED},
    Life.ENDING: {Event.LOST: Life.ENDED},
    Life.ENDED: {},
}
"""What is not named leaves the life as it is."""

BEGINS: Final[Mapping[Event, Hold]] = {
    Event.PAUSE_WRITING: Hold.UNREAD,
    Event.QUEUE_FULL: Hold.QUEUED,
    Event.HOLD_BACK: Hold.BUDGET,
}
ENDS: Final[Mapping[Event, Hold]] = {
    Event.RESUME_WRITING: Hold.UNREAD,
    Event.QUEUE_FREE: Hold.QUEUED,
    Event.GO_ON: Hold.BUDGET,
}

_SERVING: Final = frozenset({Life.OPEN, Life.DRAINING})
_CLOSED: Final = frozenset({Life.ENDING, Life.ENDED})


class State:
    """One state. ``reads``, ``serves``: the connection may. ``stalled``: frames have to wait,
    whether it is closed or not. ``writable``: it is not closed, and its peer has not too much to
    read. ``after``: the state after each event.
    """

    __slots__ = ("after", "closed", "holds", "life", "reads", "serves", "stalled", "writable")

    def __init__(self, life: Life, holds: Hold, *, asks: bool) -> None:
        self.life: Final = life
        self.holds: Final = holds
        felt = holds & ~Hold.UNREAD if asks else holds
        self.closed: Final = life in _CLOSED
        self.stalled: Final = bool(felt & (Hold.UNREAD | Hold.QUEUED))
        self.serves: Final = life in _SERVING and not self.stalled
        self.reads: Final = life is Life.OPEN and not felt
        self.writable: Final = not self.closed and Hold.UNREAD not in holds
        self.after: dict[Event, State] = {}

    def __repr__(self) -> str:
        return f"<State {self.life.name} {self.holds!r}>"


def _states(*, asks: bool) -> dict[tuple[Life, Hold], State]:
    holds = [Hold(bits) for bits in range(1 << len(Hold))]
    states = {key: State(*key, asks=asks) for key in product(Life, holds)}
    for state, event in product(states.values(), Event):
        life = LIVES[state.life].get(event, state.life)
        held = (state.holds | BEGINS.get(event, Hold.NONE)) & ~ENDS.get(event, Hold.NONE)
        state.after[event] = states[life, held]
    return states


ANSWERING: Final = _states(asks=False)
"""The states of a connection whose owner answers."""
ASKING: Final = _states(asks=True)
"""Those of one whose owner asks."""
START: Final = (Life.CONNECTING, Hold.NONE)
