"""Which brokers to keep away from for a while (client.md §3.5; classes MQFaultStrategy,
LatencyFaultToleranceImpl). Pure.

A broker that was slow is left out for a time that grows with its latency, one that failed for ten
minutes. When all are left out, the better half of them takes turns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ...remoting.protocol.message.message_queue import MessageQueue

LATENCY_MS: Final = (50, 100, 550, 1000, 2000, 3000, 15000)
"""From how many ms on ..."""
NOT_AVAILABLE_MS: Final = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
"""... for how many ms a broker is left out."""
FAILED_MS: Final = 30_000
"""The latency that a failure counts as."""


class Fault(NamedTuple):
    """What is known of a broker. Times are ms of a monotonic clock."""

    broker_name: str
    latency_ms: float
    available_at_ms: float


class FaultLatency:
    """The table, and the choice of queues by it."""

    def __init__(
        self, start: int = 0, shuffle: Callable[[list[Fault]], None] | None = None
    ) -> None:
        """``shuffle`` puts brokers into a random order; without one it is that of their first
        attempts."""
        self._faults: dict[str, Fault] = {}
        self._next = start
        self._next_of_better = start
        self._shuffle = shuffle

    def update(
        self, broker_name: str, latency_ms: float, now_ms: float, *, failed: bool = False
    ) -> None:
        """An attempt has ended."""
        out_for = not_available_ms(FAILED_MS if failed else latency_ms)
        self._faults[broker_name] = Fault(broker_name, latency_ms, now_ms + out_for)

    def is_available(self, broker_name: str, now_ms: float) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or now_ms >= fault.available_at_ms

    def choose(self, queues: Sequence[MessageQueue], now_ms: float) -> MessageQueue:
        """The next queue of an available broker; without one, a queue of the better ones.
        ``queues`` must not be empty."""
        start, count = self._next, len(queues)
        self._next = start + 1
        for step in range(count):
            queue = queues[(start + step) % count]
            if self.is_available(queue.broker_name, now_ms):
                return queue
        broker_name = self._one_of_the_better(now_ms)
        offered = [queue for queue in queues if queue.broker_name == broker_name]
        if offered:
            return offered[start % len(offered)]
        self._faults.pop(broker_name, None)
        return queues[start % count]

    def _one_of_the_better(self, now_ms: float) -> str:
        faults = list(self._faults.values())
        if self._shuffle is not None:
            self._shuffle(faults)
        faults.sort(
            key=lambda fault: (
                now_ms < fault.available_at_ms,
                fault.latency_ms,
                fault.available_at_ms,
            )
        )
        better = faults[: max(1, len(faults) // 2)]
        self._next_of_better += 1
        return better[self._next_of_better % len(better)].broker_name


def not_available_ms(latency_ms: float) -> int:
    """For how long a broker is left out that took so long.

    >>> [not_available_ms(latency) for latency in (0, 549, 550, 3000, 30000)]
    [0, 0, 30000, 180000, 600000]
    """
    index = bisect_right(LATENCY_MS, latency_ms) - 1
    return NOT_AVAILABLE_MS[index] if index >= 0 else 0
