"""How much of one frame a table fills. Slaves, those of the original too, ask for topics, groups
and offsets as a whole.

Pure. A table that no frame can carry would leave every slave without it: so what would make it too
long is refused when it is made, in words, and whoever runs the broker hears of it in time.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from ...remoting.protocol.frames.frame import MAX_FRAME_BYTES
from ...remoting.protocol.wire import Record

log: Final = logging.getLogger(__name__)

BUDGET_BYTES: Final = MAX_FRAME_BYTES - (64 << 10)
"""For the entries of a table; the rest is for the header of its frame, its version and its
brackets."""
_PUNCTUATION: Final = 4
"""Of an entry: two quotes, a colon, a comma."""
_TENTHS: Final = 10
_FIRST_WARNING: Final = 5
"""From half of it on, then at every tenth."""


class FrameBudget:
    """What the entries of a table take in the frame that has to carry all of them."""

    def __init__(self, what: str, remedy: str, budget_bytes: int = BUDGET_BYTES) -> None:
        """``what`` the table has, for the log and for answers, and what to do when it is full."""
        self.taken_bytes: int = 0
        self.budget_bytes: int = budget_bytes
        self._what: Final = what
        self._remedy: Final = remedy
        self._warn_from = _FIRST_WARNING

    def has(self, size: int) -> bool:
        """Whether so much more can be carried."""
        return self.taken_bytes + size <= self.budget_bytes

    def take(self, size: int) -> None:
        """There is so much more, or (below 0) less."""
        self.taken_bytes += size

    def tell(self) -> None:
        """Log it when a further tenth is taken."""
        if self.taken_bytes * _TENTHS >= self.budget_bytes * self._warn_from:
            tenths = self.taken_bytes * _TENTHS // self.budget_bytes
            self._warn_from = tenths + 1
            log.warning(
                "%s: %s%s", self.fill, self._remedy, " before it is full" if self.has(0) else ""
            )

    @property
    def fill(self) -> str:
        """In words."""
        percent = self.taken_bytes * 100 // self.budget_bytes
        return (
            f"the {self._what} of this broker have {self.taken_bytes} bytes, {percent} % of the "
            f"{self.budget_bytes} "
            "that one frame can carry to a slave"
        )

    def refusal(self, name: str) -> str:
        """Why ``name`` cannot be added."""
        return f"{self.fill}: {name} cannot be added, {self._remedy} first"


def entry_bytes(name: str, entry: Record) -> int:
    """What an entry takes in the JSON of its table."""
    return len(name) + len(msgspec.json.encode(entry)) + _PUNCTUATION
