"""The delay levels: ``1s 5s 10s 30s 1m ... 2h`` is level 1, 2, 3 ... (broker-services.md §3,
ScheduleMessageService).
"""

from __future__ import annotations

import re
from typing import Final

UNKNOWN_LEVEL_DELAY_MS: Final = 1000
_LEVEL: Final = re.compile(r"([0-9]+)([smhd])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Milliseconds per level; level n is item n - 1. Raises ValueError naming the part that is
    wrong, and for none."""
    delays = []
    for part in text.split():
        found = _LEVEL.fullmatch(part)
        if found is None:
            raise ValueError(f"delay level {part!r} is not a number followed by s, m, h or d")
        delays.append(int(found[1]) * _UNIT_MS[found[2]])
    if not delays:
        raise ValueError("there is no delay level")
    return tuple(delays)
