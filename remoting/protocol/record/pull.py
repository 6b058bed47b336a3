"""What a pull does with the units of a queue: whether their records are wanted and where they lie,
these records side by side, and whether they are what their units say.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any

from ..leaves import leaf
from .layout import (
    MAGIC,
    MIN_RECORD_SIZE,
    MOST_PHY_OFFSET,
    QUEUE_UNIT,
    SIZE_AND_MAGIC,
    size_and_magic,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


@leaf
def survey_units(
    units: bytes, most: int, most_bytes: int, tags: frozenset[int] | None, /
) -> tuple[int, int, int, int, int] | None:
    """Of the first ``most`` units, or as many as there are, up to the first one with which their
    records would take more than ``most_bytes`` (one there is always): how many, the bytes of their
    records, where the first one begins and the last one ends, and where the record behind them
    begins (or the last of them, where there is none).

    None when one of their tags codes is not among ``tags`` (``None``: all are), or the last record
    lies where none can. Raises ``ValueError`` where there is no unit.
    """
    count = min(len(units) // QUEUE_UNIT.size, most)
    fields = _fields(units, count)
    sizes = fields[1 : 3 * count : 3]
    fitting = list(takewhile(most_bytes.__ge__, accumulate(sizes))) or [sizes[0]]
    count, total = len(fitting), fitting[-1]
    last = 3 * count - 3
    if not 0 <= fields[last] < MOST_PHY_OFFSET or (
        tags is not None and not tags.issuperset(fields[2 : last + 3 : 3])
    ):
        return None
    behind = fields[last + 3] if len(fields) > last + 3 else fields[last]
    return count, total, fields[0], fields[last] + fields[last + 1], behind


@leaf
def join_records(data: Any, begin: int, units: bytes, count: int, /) -> bytes | None:
    """The records of the first ``count`` units, one behind the other, from a buffer whose first
    byte lies at ``begin`` of the log. None when one of them does not lie in it. Raises
    ``ValueError`` where there are not so many units.
    """
    fields = _fields(units, count)
    phy_offsets, sizes = fields[: 3 * count : 3], fields[1 : 3 * count : 3]
    if min(phy_offsets) < begin or min(sizes) < 1:
        return None
    joined = b"".join(
        [data[at - begin : at - begin + size] for at, size in zip(phy_offsets, sizes, strict=True)]
    )
    return joined if len(joined) == sum(sizes) else None


@leaf
def records_fit(records: Buffer, units: bytes, count: int, /) -> bool:
    """Whether the records of the first ``count`` units, one behind the other, begin with the sizes
    that these say, and with the magic. Raises ``ValueError`` where there are not so many units.
    """
    sizes = _fields(units, count)[1 : 3 * count : 3]
    size, length, at = sizes[0], len(memoryview(records)), 0
    if (
        size >= MIN_RECORD_SIZE and length == count * size and sizes.count(size) == count
    ):  # mostly; seven times as fast
        return _heads_struct(count, size).unpack_from(records).count(size << 32 | MAGIC) == count
    for size in sizes:
        if (
            size < MIN_RECORD_SIZE
            or at + MIN_RECORD_SIZE > length
            or size_and_magic(records, at) != (size, MAGIC)
        ):
            return False
        at += size
    return True


def _fields(units: bytes, count: int) -> tuple[int, ...]:
    """Of all units."""
    if not 0 < count <= len(units) // QUEUE_UNIT.size:
        raise ValueError(f"{count} units are not in {len(units)} bytes")
    return _unpacked(units)


@lru_cache(maxsize=4)
def _unpacked(units: bytes) -> tuple[int, ...]:
    """The three leaves ask one after the other."""
    return _units_struct(len(units) // QUEUE_UNIT.size).unpack_from(units)


@lru_cache(maxsize=256)
def _units_struct(count: int) -> struct.Struct:
    return struct.Struct(">" + QUEUE_UNIT.format.removeprefix(">") * count)


@lru_cache(maxsize=1024)
def _heads_struct(count: int, size: int) -> struct.Struct:
    """The first words of records of one size, side by side."""
    return struct.Struct(">" + f"Q{size - SIZE_AND_MAGIC.size}x" * count)
