"""The delay levels: ``1s 5s 10s 30s 1m ... 2h`` is level 1, 2, 3 ... (broker-services.md §3,
ScheduleMessageService).
"""

from __future__ import annotations

import re
from typing import Final

from ...remoting.protocol.message.properties import find_property

UNKNOWN_LEVEL_DELAY_MS: Final = 1000
"""Where there are no levels."""
_LEVEL: Final = re.compile(r"([0-9]{1,9})([smhd])")
_MOST_DIGITS: Final = 10
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Milliseconds per level; level n is item n - 1. Raises ValueError naming the part that is
    wrong, and for none."""
    delays = []
    for part in text.split():
        found = _LEVEL.fullmatch(part)
        if found is None:
            raise ValueError(f"delay level {part[:40]!r} is not a number followed by s, m, h or d")
        delays.append(int(found[1]) * _UNIT_MS[found[2]])
    if not delays:
        raise ValueError("there is no delay level")
    return tuple(delays)


def delay_ms(delays_ms: tuple[int, ...], level: int) -> int:
    """How long a message of a level waits (level 1 is the first of ``delays_ms``); one that is too
    high counts as the highest."""
    return delays_ms[min(level, len(delays_ms)) - 1] if delays_ms else UNKNOWN_LEVEL_DELAY_MS


def level_of(properties: bytes) -> int:
    """The delay level that a stored message carries; 0 without one, and for what no producer can
    have been let through with."""
    text = find_property(properties, b"DELAY") or b""
    return int(text) if text.isdigit() and len(text) < _MOST_DIGITS else 0


def queue_of_level(level: int) -> int:
    """The queue of the schedule topic in which messages of a level wait."""
    return level - 1
