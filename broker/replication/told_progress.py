"""How far a master is with what waits in its log: delayed messages that it has delivered,
transactions whose producers it has asked.

What it has done about them lies in its log, too, behind them, and that may not have come here yet.
A slave that went on from there as the master would pass over messages that it has, so what it was
told counts when its log has reached what the master had then, on its disk. (A slave of the original
takes it at once. A member of a group is told nothing that is not committed.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...remoting.protocol.bodies.consumer_offsets import DelayOffsetTable
from ..schedule.offset_persistence import DelayOffsetPersistence
from ..state.consumer_offsets import SEPARATOR, ConsumerOffsets
from ..transactions.transactions import TRANSACTION_GROUP


class _Told(NamedTuple):
    delays: DelayOffsetTable | None
    transactions: Mapping[str, Mapping[int, int]]
    log_end: int


def is_progress(group: str) -> bool:
    """Its consumer offsets are no consumer's."""
    return group == TRANSACTION_GROUP


class ToldProgress:
    """What the master told last, until it counts."""

    def __init__(self, delays: DelayOffsetPersistence, offsets: ConsumerOffsets) -> None:
        self._delay_offsets = delays
        self._offsets = offsets
        self._delays: DelayOffsetTable | None = None
        self._transactions: Mapping[str, Mapping[int, int]] = {}
        self._told: _Told | None = None

    @property
    def waits(self) -> bool:
        """There is something that does not count yet."""
        return self._told is not None

    def forget(self) -> None:
        """There is another master from now on, or none."""
        self.heard_in_vain()
        self._told = None

    def heard_delays(self, table: DelayOffsetTable) -> None:
        self._delays = table

    def heard_offsets(self, table: Mapping[str, Mapping[int, int]]) -> None:
        """All that the master has: those that are its own progress are kept."""
        own = (key for key in table if is_progress(key.partition(SEPARATOR)[2]))
        self._transactions = {key: table[key] for key in own}

    def heard_in_vain(self) -> None:
        """It is not known where the log of who told it ended."""
        self._delays, self._transactions = None, {}

    def ended_at(self, log_end: int) -> bool:
        """The log of the master had no more than that when it told what was heard last; whether
        that will count. Not while something waits already: a slave that is always behind would
        never get any."""
        counts = self._told is None
        if counts:
            self._told = _Told(self._delays, self._transactions, log_end)
        self.heard_in_vain()
        return counts

    def is_reached(self, log_end: int) -> bool:
        """There is something that counts when this broker's log has come so far."""
        return self._told is not None and log_end >= self._told.log_end

    def take(self, log_end: int) -> None:
        """This broker's log has come so far."""
        if self._told is None or not self.is_reached(log_end):
            return
        told, self._told = self._told, None
        if told.delays is not None:
            self._delay_offsets.replace(told.delays)
        for key, queues in told.transactions.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in queues.items():
                self._offsets.commit(group, topic, queue_id, offset, limited=False)
