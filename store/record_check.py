"""Whether a record is what its queue unit says, before it is handed out.

Of every pull the leaf ``records_fit`` looks at what a reader needs to get from one record to the next. ``problem_of`` looks
at all that can be proved, the CRC of the body included: for what comes from the disk.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from ..remoting.protocol.record import MAGIC, NoRecord
from ..remoting.protocol.record.verdict import take_apart

SIZE_AND_MAGIC: Final = struct.Struct(">Q")
"""The first two fields of a record as one number, see ``word_of``."""


def word_of(size: int) -> int:
    """The first eight bytes of a record of that size."""
    return size << 32 | MAGIC


def problem_of(data: Any, start: int, size: int, phy_offset: int) -> str | None:
    """What is wrong with the record ``data[start:start + size]``, which should lie at ``phy_offset``; None when it is intact
    as far as can be proved. ``data``, bytes or a mapping, must reach that far.
    """
    try:
        _, own_size, *_ = take_apart(data, start, phy_offset, len(data) - start)
    except NoRecord as error:
        return error.verdict.problem
    return None if own_size == size else f"the record says it is {own_size} bytes long, its queue says {size}"
