"""One line of what the doctor says. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

_MOST_PLACES = 5


class Level(Enum):
    """How bad it is."""

    WRONG = "WRONG"
    NOTE = "NOTE"
    """Good to know."""
    UNSEEN = "UNSEEN"
    """What could not be looked at."""


class Finding(NamedTuple):
    """What is the matter with whom, and what to do about it."""

    level: Level
    where: str
    what: str
    to_do: str = ""


def wrong(where: str, what: str, to_do: str) -> Finding:
    return Finding(Level.WRONG, where, what, to_do)


def note(where: str, what: str, to_do: str = "") -> Finding:
    return Finding(Level.NOTE, where, what, to_do)


def unseen(where: str, what: str, to_do: str = "") -> Finding:
    return Finding(Level.UNSEEN, where, what, to_do)


def together(found: Iterable[Finding]) -> list[Finding]:
    """Those that say the same of several places as one, the worst first."""
    places: dict[tuple[Level, str, str], list[str]] = {}
    for each in found:
        places.setdefault((each.level, each.what, each.to_do), []).append(each.where)
    merged = [
        Finding(level, _joined(list(dict.fromkeys(where))), what, to_do)
        for (level, what, to_do), where in places.items()
    ]
    return sorted(merged, key=lambda each: list(Level).index(each.level))


def _joined(places: list[str]) -> str:
    more = len(places) - _MOST_PLACES
    shown = "; ".join(places[:_MOST_PLACES])
    return f"{shown}; and {more} more" if more > 0 else shown
