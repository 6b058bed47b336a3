"""What consume queues and index want to know of a record (class DispatchRequest)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...remoting.protocol.message.sys_flag import UNQUEUED
from ...remoting.protocol.record import Records


class DispatchRequest(msgspec.Struct, frozen=True, gc=False):
    """One record."""

    topic: str
    queue_id: int
    phy_offset: int
    size: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes

    @property
    def is_queued(self) -> bool:
        """Prepared and rolled back messages are in no queue."""
        return not self.sys_flag & UNQUEUED


def request_of(records: Records, number: int) -> DispatchRequest:
    """One of many; a negative number counts from the end."""
    return DispatchRequest(
        records.topic(number),
        records.queue_ids[number],
        records.phy_offsets[number],
        records.sizes[number],
        records.queue_offsets[number],
        records.sys_flags[number],
        records.store_timestamps[number],
        records.properties(number),
    )


def requests_of(records: Records) -> Iterator[DispatchRequest]:
    """All of them, in order."""
    return map(
        DispatchRequest,
        map(records.names.__getitem__, records.topics),
        records.queue_ids,
        records.phy_offsets,
        records.sizes,
        records.queue_offsets,
        records.sys_flags,
        records.store_timestamps,
        records.all_properties(),
    )
