"""Whether units of a consume queue can be what was once written (see ``consume_queue`` for their
layout).

Units of one queue point to records that lie one behind the other: each begins where the one before
ends, or later. A unit that breaks this was damaged, or the one in front of it was; zeros and noise
break it at once. What is believed here need not be true: only the commit log knows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...remoting.protocol.record import MIN_RECORD_SIZE
from ...remoting.protocol.record.units import believed_units
from ..model.config import CQ_UNIT_SIZE

_MASK: Final = (1 << 64) - 1


class Account(NamedTuple):
    """What units account for in one file of the commit log. Records that fill [0, n) without a gap
    have n bytes, and their squares (end² - begin², positions in the file) add up to n²: so another
    record twice does not make up for a missing one.
    """

    size: int = 0
    squares: int = 0
    """Modulo 2^64."""
    end: int = 0
    """Position behind the last record."""

    def plus(self, other: Account) -> Account:
        """Both together."""
        return Account(
            self.size + other.size, self.squares + other.squares & _MASK, max(self.end, other.end)
        )

    @property
    def has_no_gap(self) -> bool:
        """Every byte up to the end is accounted for, once."""
        return self.size == self.end and self.squares == self.end * self.end & _MASK


class UnitChain:
    """Units of one queue in their order, as long as they can be believed."""

    __slots__ = ("_file_size", "accounts", "count", "end")

    def __init__(self, log_file_size: int = 0) -> None:
        """With the size of commit log files it also adds up what the units account for."""
        self.count: int = 0
        """Units that were believed."""
        self.end: int = 0
        """Physical offset behind the last of them."""
        self.accounts: Final[dict[int, Account]] = {}
        """By the number of the commit log file."""
        self._file_size: Final = log_file_size

    def feed(self, data: bytes) -> bool:
        """Go on with more units; False when one cannot be believed, then nothing behind it
        counts."""
        count, self.end, runs = believed_units(data, MIN_RECORD_SIZE, self.end, self._file_size)
        self.count += count
        for file, size, squares, end in runs:
            self.accounts[file] = self.accounts.get(file, Account()).plus(
                Account(size, squares, end)
            )
        return count == len(data) // CQ_UNIT_SIZE
