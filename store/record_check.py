"""Whether records are what their queue units say, before they are handed out.

``heads_fit`` looks at what a reader needs to get from one record to the next, of many at once: cheap enough for every pull.
``problem_of`` looks at all that can be proved, the CRC of the body included: for what comes from the disk.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from ..remoting.protocol.record import MAGIC, MIN_RECORD_SIZE, NoRecord
from ..remoting.protocol.record.verdict import take_apart

__all__ = ["SIZE_AND_MAGIC", "heads_fit", "problem_of", "word_of"]

SIZE_AND_MAGIC: Final = struct.Struct(">Q")
"""The first two fields of a record as one number, see ``word_of``."""


def word_of(size: int) -> int:
    """The first eight bytes of a record of that size."""
    return size << 32 | MAGIC


def heads_fit(records: Any, sizes: Sequence[int]) -> bool:
    """Whether each of ``records``, which lie one after the other, has the size that it should, and the magic."""
    count, size = len(sizes), sizes[0]
    try:
        even = len(records) == count * size >= count * MIN_RECORD_SIZE
        if even and _heads_of(count, size).unpack_from(records).count(word_of(size)) == count:
            return True
        at, read = 0, SIZE_AND_MAGIC.unpack_from
        for size in sizes:
            if read(records, at)[0] != size << 32 | MAGIC:
                return False
            at += size
    except struct.error:  # sizes that cannot be, from a damaged queue
        return False
    return True


@lru_cache(maxsize=1024)
def _heads_of(count: int, size: int) -> struct.Struct:
    """The first words of records of one size, side by side."""
    return struct.Struct(">" + f"Q{size - SIZE_AND_MAGIC.size}x" * count)


def problem_of(data: Any, start: int, size: int, phy_offset: int) -> str | None:
    """What is wrong with the record ``data[start:start + size]``, which should lie at ``phy_offset``; None when it is intact
    as far as can be proved. ``data``, bytes or a mapping, must reach that far.
    """
    try:
        _, own_size, *_ = take_apart(data, start, phy_offset, len(data) - start)
    except NoRecord as error:
        return error.verdict.problem
    return None if own_size == size else f"the record says it is {own_size} bytes long, its queue says {size}"
