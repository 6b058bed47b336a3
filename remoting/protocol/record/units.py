"""What the consume queues get of records: for each queue its units, side by side."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from ..leaves import leaf
from ..properties import tags_code_of
from ..sys_flag import MessageSysFlag
from .layout import QUEUE_UNIT

if TYPE_CHECKING:
    from .scan import Column, Records

__all__ = ["QueueRun", "queue_runs"]

QueueRun = tuple[int, int, int, int, bool]
"""Number of the topic, queue id; begin and end in what else ``queue_runs`` returns; whether queue offsets have no gap."""


@leaf
def queue_runs(records: Records, /) -> tuple[list[QueueRun], Column, bytes]:
    """The queues in the order in which they come; the numbers of the records, queue by queue; their units in that order.
    Prepared and rolled back messages are in no queue.
    """
    queues: dict[tuple[int, int], list[int]] = {}
    for number, (topic, queue_id, flags) in enumerate(
        zip(records.topics, records.queue_ids, records.sys_flags, strict=True)
    ):
        if not flags & MessageSysFlag.TRANSACTION_PREPARED:
            queues.setdefault((topic, queue_id), []).append(number)
    runs: list[QueueRun] = []
    order: list[int] = []
    for (topic, queue_id), some in queues.items():
        first = records.queue_offsets[some[0]]
        without_gap = [records.queue_offsets[number] for number in some] == [*range(first, first + len(some))]
        runs.append((topic, queue_id, len(order), len(order) + len(some), without_gap))
        order += some
    columns = list(zip(records.phy_offsets, records.sizes, map(tags_code_of, records.all_properties()), strict=True))
    pack = QUEUE_UNIT.pack
    return runs, array("q", order), b"".join([pack(*columns[number]) for number in order])
