"""Python twin of ``units.pxi``: whether units of a consume queue can be what was once written."""

from __future__ import annotations

import struct
from typing import Final

_UNIT: Final = struct.Struct(">qiq")
_FILLER: Final = 0x7FFFFFFF
"""The size in a unit that stands for no message."""
_MOST_PHY_OFFSET: Final = 1 << 50
"""No commit log gets so long: a petabyte."""
_MOST_SIZE: Final = 1 << 30
_MASK: Final = (1 << 64) - 1


def believed_units(
    data: bytes, least_size: int, end: int, file_size: int, /
) -> tuple[int, int, list[tuple[int, int, int, int]]]:
    """How many units go on from each other, the first one from ``end``: each begins where the one before ends, or later,
    and its record has ``least_size`` bytes or more. Then where the last one ends, and what they account for in each file of
    the commit log, if ``file_size`` is not 0.

    That is: the number of the file, the sum of the sizes of its records, the sum of their end² - begin² (positions in the
    file) modulo 2^64, and the position behind the last one.
    """
    count = file = size_sum = squares = 0
    runs: list[tuple[int, int, int, int]] = []
    for phy_offset, size, _ in _UNIT.iter_unpack(data[: len(data) - len(data) % _UNIT.size]):
        if not end <= phy_offset < _MOST_PHY_OFFSET or not (least_size <= size <= _MOST_SIZE or size == _FILLER):
            break
        count += 1
        end = phy_offset
        if size == _FILLER:
            continue
        end += size
        if file_size:
            number, position = divmod(phy_offset, file_size)
            if not runs or number != file:
                file, size_sum, squares = number, 0, 0
                runs.append((0, 0, 0, 0))
            size_sum += size
            squares = squares + size * (2 * position + size) & _MASK
            runs[-1] = file, size_sum, squares, position + size
    return count, end, runs
