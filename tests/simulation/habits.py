"""What one seed does often: a mixture that is the same for all would do everything now and then,
and never much of one thing (Groce et al., "Swarm Testing", 2012)."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

FAULTS = {
    "kill": 4,
    "power": 8,
    "step": 8,
    "twice": 3,
    "all": 2,
    "relay": 3,
    "heirs": 3,
    "stop": 2,
    "client": 3,
    "cut": 2,
    "alone": 3,
    "far": 2,
    "drop": 2,
    "lost": 3,
    "stall": 2,
    "slow": 2,
    "errno": 2,
    "full": 2,
    "scarce": 2,
    "clock": 2,
    "namesrv": 1,
    "role": 3,
    "disk": 1,
    "promote": 1,
    "flip": 2,
    "derived": 2,
    "sectors": 2,
}
"""Faults, and how often one is drawn compared with the others."""
SENDS = {"one": 8, "list": 2, "keyed": 4, "delayed": 3, "transaction": 4}
"""What a producer does next."""
CHORES = {
    "make": 3,
    "change": 3,
    "send": 2,
    "delete": 2,
    "group": 3,
    "ungroup": 1,
    "move": 4,
    "reset": 1,
    "limit": 1,
    "look": 1,
}
"""What an administrator does next."""
STEPS = ("sent", "disk", "unsynced", "table")
"""Kinds of steps. A program can be killed right behind one: bytes that others get, a call of the
disk that changes something, a table that was replaced; or in front of a sync, when most is lost
with the power."""


class Habits(NamedTuple):
    """Of one seed. Times in seconds; those that vary are means."""

    faults: dict[str, int]
    sends: dict[str, int]
    chores: dict[str, int]
    pause_s: float
    """Between a fault and the next one."""
    lasts_s: float
    """Until who is down starts again, and what is cut is whole."""
    steps: tuple[str, ...]
    """Programs are killed at steps of these kinds."""
    struck: str
    """``any`` broker, or mostly the ``same`` one, or whoever ``serves``: two rare things one after
    the other need not strike one machine by chance."""
    at_once: int
    """So many faults may last at the same time."""
    thread_s: float
    """What a thread does takes so long: a sync, mostly."""
    slower: float
    """What some of the threads do, the same ones all the time, takes so many times as long."""
    latency_s: float
    drift: float
    """Of clocks, in seconds per second."""
    pace_s: float
    """Between messages."""
    chores_s: float
    """Between what the administrator does."""
    filling: int
    """Bodies are longer than they need be by up to so many bytes."""
    refused: float
    """The share of messages that a handler wants again."""
    handling_s: float
    in_order: int
    """Members of the group that consumes in order."""
    asked_for: bool
    """Somebody consumes by asking (``PullConsumer``), too."""
    tagged: bool
    """And somebody wants messages with a tag only."""
    hopeless: bool
    """The handlers that refuse never take some of the messages."""
    light: bool
    """Many messages of TOPIC name further queues that they are to be in."""


def habits(random: Random) -> Habits:
    """Drawn for a seed."""
    return Habits(
        faults=_some(FAULTS, random),
        sends=_some(SENDS, random),
        chores=_some(CHORES, random),
        pause_s=random.choice([0.2, 0.5, 1.5]),
        lasts_s=random.choice([0.05, 0.5, 3.0]),
        steps=random.choice([STEPS, *((each,) for each in STEPS)]),
        struck=random.choice(["any", "any", "same", "serves"]),
        at_once=random.choice([1, 1, 2, 3]),
        thread_s=random.choice([0.0005, 0.0005, 0.02, 0.2]),
        slower=random.choice([1.0, 10.0]),
        latency_s=random.choice([0.0002, 0.0002, 0.01]),
        drift=random.choice([0.0, 0.001, 0.02]),
        pace_s=random.choice([0.15, 0.3, 0.6]),
        chores_s=random.choice([0.3, 1.5]),
        filling=random.choice([0, 0, 300, 1500]),
        refused=random.choice([0.0, 0.1, 0.4]),
        handling_s=random.choice([0.0, 0.0, 0.05, 0.5]),
        in_order=random.choice([1, 2]),
        asked_for=random.choice([False, True]),
        tagged=random.choice([False, True]),
        hopeless=random.choice([False, True]),
        light=random.choice([False, True]),
    )


def _some(weights: dict[str, int], random: Random) -> dict[str, int]:
    """All of them, or a half, or a few."""
    most = len(weights)
    count = random.choice([most, (most + 1) // 2, (most + 1) // 2, min(most, 3)])
    kept = random.sample(sorted(weights), count)
    return {kind: weights[kind] for kind in kept}
