"""Units of consume queues: what the queues get of records, and whether units can be what was once
written."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from ..leaves import leaf
from ..message.properties import tags_code_of
from ..message.sys_flag import UNQUEUED
from .layout import FILLER_SIZE, MOST_PHY_OFFSET, MOST_SIZE, QUEUE_UNIT

if TYPE_CHECKING:
    from .scan import Column, Records

_MASK: Final = (1 << 64) - 1
QueueRun = tuple[int, int, int, int, bool]
"""Number of the topic, queue id; begin and end in what else ``queue_runs`` returns; whether queue
offsets have no gap."""


@leaf
def queue_runs(records: Records, /) -> tuple[list[QueueRun], Column, bytes]:
    """The queues in the order in which they come; the numbers of the records, queue by queue; their
    units in that order. Prepared and rolled back messages are in no queue.
    """
    queues: dict[tuple[int, int], list[int]] = {}
    for number, (topic, queue_id, flags) in enumerate(
        zip(records.topics, records.queue_ids, records.sys_flags, strict=True)
    ):
        if not flags & UNQUEUED:
            queues.setdefault((topic, queue_id), []).append(number)
    runs: list[QueueRun] = []
    order: list[int] = []
    for (topic, queue_id), some in queues.items():
        first = records.queue_offsets[some[0]]
        without_gap = [records.queue_offsets[number] for number in some] == [
            *range(first, first + len(some))
        ]
        runs.append((topic, queue_id, len(order), len(order) + len(some), without_gap))
        order += some
    columns = list(
        zip(
            records.phy_offsets,
            records.sizes,
            map(tags_code_of, records.all_properties()),
            strict=True,
        )
    )
    pack = QUEUE_UNIT.pack
    return runs, array("q", order), b"".join([pack(*columns[number]) for number in order])


@leaf
def believed_units(
    data: bytes, least_size: int, end: int, file_size: int, /
) -> tuple[int, int, list[tuple[int, int, int, int]]]:
    """How many units go on from each other, the first one from ``end``: each begins where the one
    before ends, or later, and its record has ``least_size`` bytes or more. Then where the last one
    ends, and what they account for in each file of the commit log, if ``file_size`` is not 0.

    That is: the number of the file, the sum of the sizes of its records, the sum of their end² -
    begin² (positions in the file) modulo 2^64, and the position behind the last one.
    """
    count = file = size_sum = squares = 0
    runs: list[tuple[int, int, int, int]] = []
    for phy_offset, size, _ in QUEUE_UNIT.iter_unpack(
        data[: len(data) - len(data) % QUEUE_UNIT.size]
    ):
        if not end <= phy_offset < MOST_PHY_OFFSET or not (
            least_size <= size <= MOST_SIZE or size == FILLER_SIZE
        ):
            break
        count += 1
        end = phy_offset
        if size == FILLER_SIZE:
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


@leaf
def message_ids(host: bytes, units: bytes, /) -> bytes:
    """The offset ids of the messages of a batch, joined with commas: the host as hexadecimal
    digits, then where the message lies. ``units``: their units, as a consume queue has them."""
    return b",".join(
        [b"%b%016X" % (host, phy_offset) for phy_offset, *_ in QUEUE_UNIT.iter_unpack(units)]
    )
