"""Fillers are units of a consume queue that stand for messages which are not there
(``consume_queue``). Such a message may turn up after all: it came damaged, and was mended.
"""

from __future__ import annotations

from typing import Final

from ..model.config import CQ_UNIT_SIZE
from .consume_queue import CQ_UNIT, FILLER_SIZE, ConsumeQueue, end_of

MOST_LOST: Final = 4096
"""That so many messages of a queue that follow each other were lost is believed, if only a number
says so."""


def fill_in(queue: ConsumeQueue, number: int, unit: bytes) -> None:
    """Write the unit of a message in the place of its filler, if there is one; the queue may begin
    with it then. Nothing is done where it does not lie between its neighbours: it belongs to a
    topic of that name that was deleted. Fillers beside it that would break that physical offsets
    grow are written anew. Raises StoreFileError.
    """
    begin, end = CQ_UNIT.unpack(unit)[0], end_of(*CQ_UNIT.unpack(unit))
    start = queue.files.start // CQ_UNIT_SIZE
    if not start <= number < queue.max_offset or queue.raw_unit(number)[1] != FILLER_SIZE:
        return
    for near in (1, 64, MOST_LOST):
        low, high = max(start, number - near), min(queue.max_offset, number + near + 1)
        units = list(CQ_UNIT.iter_unpack(queue.read_units(low, high)))
        first, stop = number - low, number - low + 1
        while first and units[first - 1][1] == FILLER_SIZE and units[first - 1][0] > begin:
            first -= 1
        while stop < len(units) and units[stop][1] == FILLER_SIZE and units[stop][0] < end:
            stop += 1
        if (first or low == start) and (stop < len(units) or high == queue.max_offset):
            break
    else:
        return
    following = units[stop][0] if stop < len(units) else end
    if (
        (first and end_of(*units[first - 1]) > begin)
        or following < end
        or low + stop < queue.min_offset
    ):
        return
    in_front, behind = number - low - first, low + stop - number - 1
    queue.overwrite(low + first, _fillers(begin, in_front) + unit + _fillers(following, behind))
    queue.min_offset = min(queue.min_offset, number)


def _fillers(phy_offset: int, count: int) -> bytes:
    return CQ_UNIT.pack(phy_offset, FILLER_SIZE, 0) * count
