"""Whether units of a consume queue can be what was once written (see ``consume_queue`` for their layout).

Units of one queue point to records that lie one behind the other: each begins where the one before ends, or later. A unit
that breaks this was damaged, or the one in front of it was; zeros and noise break it at once. What is believed here need not
be true: only the commit log knows.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from ..remoting.protocol.record import MIN_RECORD_SIZE

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["Account", "UnitChain"]

_UNIT: Final = struct.Struct(">qiq")
_FILLER: Final = 0x7FFFFFFF
_MOST_PHY_OFFSET: Final = 1 << 50
"""No commit log gets so long: a petabyte."""
_MOST_SIZE: Final = 1 << 30
_MASK: Final = (1 << 64) - 1
_FEW: Final = 48
"""Fewer units are faster one by one."""


class Account(NamedTuple):
    """What units account for in one file of the commit log. Records that fill [0, n) without a gap have n bytes, and their
    squares (end² - begin², positions in the file) add up to n²: so another record twice does not make up for a missing one.
    """

    size: int = 0
    squares: int = 0
    """Modulo 2^64."""
    end: int = 0
    """Position behind the last record."""

    def plus(self, other: Account) -> Account:
        """Both together."""
        return Account(self.size + other.size, self.squares + other.squares & _MASK, max(self.end, other.end))

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
        """Go on with more units; False when one cannot be believed, then nothing behind it counts."""
        count = len(data) // _UNIT.size
        if numpy is None or count < _FEW:
            return self._feed_one_by_one(data)
        units = numpy.frombuffer(data, [("phy", ">i8"), ("size", ">i4"), ("code", ">i8")], count)
        phy, sizes = units["phy"].astype(numpy.int64), units["size"].astype(numpy.int64)
        real = sizes != _FILLER
        ends = numpy.where(real, phy + sizes, phy)
        good = (phy >= 0) & (phy < _MOST_PHY_OFFSET) & (sizes >= MIN_RECORD_SIZE) & (~real | (sizes <= _MOST_SIZE))
        good[0] &= phy[0] >= self.end
        good[1:] &= phy[1:] >= ends[:-1]
        if not good.all():
            count = int(good.argmin())
        if count:
            self.count += count
            self.end = int(ends[count - 1])
            if self._file_size:
                self._account(phy[:count], ends[:count])
        return count == len(units)

    def _feed_one_by_one(self, data: bytes) -> bool:
        end, believed = self.end, 0
        for phy_offset, size, _ in _UNIT.iter_unpack(data[: len(data) - len(data) % _UNIT.size]):
            if not end <= phy_offset < _MOST_PHY_OFFSET or not (MIN_RECORD_SIZE <= size <= _MOST_SIZE or size == _FILLER):
                break
            believed += 1
            end = phy_offset
            if size != _FILLER:
                end += size
                if self._file_size:
                    position = phy_offset % self._file_size
                    self._add(phy_offset // self._file_size, size, size * (2 * position + size), position + size)
        self.count += believed
        self.end = end
        return believed == len(data) // _UNIT.size

    def _account(self, phy: Any, ends: Any) -> None:
        files = phy // self._file_size
        bases = files * self._file_size
        sizes = ends - phy  # 0 of fillers
        squares = sizes * (phy + ends - 2 * bases)
        begins = numpy.concatenate(([0], numpy.flatnonzero(numpy.diff(files)) + 1))
        stops = numpy.concatenate((begins[1:], [len(files)]))
        sums, moments = (numpy.add.reduceat(column, begins).tolist() for column in (sizes, squares))
        columns = files[begins].tolist(), sums, moments, (ends - bases)[stops - 1].tolist()
        for file, size, square, end in zip(*columns, strict=True):
            if size:
                self._add(file, size, square, end)

    def _add(self, file: int, size: int, squares: int, end: int) -> None:
        self.accounts[file] = self.accounts.get(file, Account()).plus(Account(size, squares, end))
