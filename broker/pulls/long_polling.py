"""Pulls that wait for messages (class PullRequestHoldService; ``broker-services.md`` §6.3), without
I/O.

A pull that found nothing may be held. It is looked at again when a message arrives in its queue,
and answered at the latest at its deadline; the original looks at deadlines every 5 seconds only,
here they are exact.

``HeldPulls`` keeps the table; whoever owns it (``processors/pull.py``) tells it what arrived and
what time it is, and reads the held pulls again that it is handed. Nothing here is per message: an
arrival at a queue nobody waits for is one failed lookup.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Final, TypeVar

import msgspec

from ...remoting.dispatch import Context
from ...remoting.peer import Peer
from ..filter.records import RecordFilter

MAX_HELD_PULLS: Final = 100_000
"""More are answered at once (pullThreadPoolQueueCapacity of the original)."""
MAX_HELD_BYTES: Final = 256 << 20
"""Of their headers and filters together; then too."""

K = TypeVar("K")
V = TypeVar("V")

QueueKey = tuple[str, int]
Wanted = frozenset[int] | RecordFilter | None
"""What a pull wants: all messages, those with one of these tags codes, or those that a filter
accepts."""


class HeldPull(msgspec.Struct, eq=False):
    """One pull that waits. ``offset`` moves on over entries that the filter did not want."""

    topic: str
    queue_id: int
    offset: int
    deadline: float
    """Seconds of the monotonic clock."""
    connection: Peer
    ctx: Context
    wanted: Wanted
    max_count: int
    gone: bool = False
    scanning: bool = False
    """It is being read in steps."""
    size_bytes: int = 0
    """Of its header, and of its filter when it was the first with it."""


class _Holder(msgspec.Struct, eq=False):
    """A connection that waits."""

    pulls: dict[HeldPull, None] = {}
    size_bytes: int = 0


class HeldPulls:
    """The pulls that wait, by queue and by deadline."""

    def __init__(self) -> None:
        self._by_queue: dict[QueueKey, dict[HeldPull, None]] = {}
        self._queues_of: dict[str, dict[int, None]] = {}
        """Those that somebody waits for, by topic."""
        self._holders: dict[Peer, _Holder] = {}
        self._deadlines: list[tuple[float, int, HeldPull]] = []
        self._numbers = itertools.count()
        self._held = 0
        self._bytes = 0
        self._users: dict[int, int] = {}
        """How many wait with a filter, by its ``id``: they share it."""

    def __len__(self) -> int:
        return self._held

    def is_full_for(self, connection: Peer) -> bool:
        """One may have as much as is left: however many greedy ones there are, they come to the
        same share, and leave as much to all others together. (The dynamic threshold of A. Choudhury
        and E. Hahne, for buffers that the ports of a switch share.)"""
        pulls, size_bytes = MAX_HELD_PULLS - self._held, MAX_HELD_BYTES - self._bytes
        holder = self._holders.get(connection)
        if holder is None:
            return pulls <= 0 or size_bytes <= 0
        return len(holder.pulls) >= pulls or holder.size_bytes >= size_bytes

    @property
    def is_crowded(self) -> bool:
        """More than half is taken."""
        return 2 * self._held > MAX_HELD_PULLS or 2 * self._bytes > MAX_HELD_BYTES

    @property
    def next_deadline(self) -> float | None:
        """When ``expired`` has to be asked next."""
        while self._deadlines and self._deadlines[0][2].gone:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def waits_for(self, topic: str, queue_id: int) -> bool:
        """Somebody waits for that queue."""
        return (topic, queue_id) in self._by_queue

    def hold(self, held: HeldPull) -> None:
        self._by_queue.setdefault((held.topic, held.queue_id), {})[held] = None
        self._queues_of.setdefault(held.topic, {})[held.queue_id] = None
        heapq.heappush(self._deadlines, (held.deadline, next(self._numbers), held))
        held.size_bytes = len(held.ctx.raw_header) + self._use(held.wanted, 1)
        holder = self._holders.get(held.connection)
        if holder is None:
            holder = self._holders[held.connection] = _Holder()
        holder.pulls[held] = None
        holder.size_bytes += held.size_bytes
        self._held += 1
        self._bytes += held.size_bytes

    def release(self, held: HeldPull) -> None:
        """The pull is answered, or nobody wants the answer any more."""
        if held.gone:
            return
        held.gone = True
        self._held -= 1
        self._bytes -= len(held.ctx.raw_header) + self._use(held.wanted, -1)
        _discard(self._by_queue, (held.topic, held.queue_id), held)
        if not self.waits_for(held.topic, held.queue_id):
            _discard(self._queues_of, held.topic, held.queue_id)
        holder = self._holders[held.connection]
        del holder.pulls[held]
        holder.size_bytes -= held.size_bytes
        if not holder.pulls:
            del self._holders[held.connection]
        if len(self._deadlines) > 64 and len(self._deadlines) > 2 * self._held:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].gone]
            heapq.heapify(self._deadlines)

    def want(self, held: HeldPull, wanted: Wanted) -> None:
        """It wants this from now on."""
        if wanted is not held.wanted:
            self._bytes += self._use(wanted, 1) - self._use(held.wanted, -1)
            held.wanted = wanted

    def _use(self, wanted: Wanted, change: int) -> int:
        """One more or less that waits with a filter: the bytes of the filter when it is the first
        or the last one."""
        if wanted is None or isinstance(wanted, frozenset):
            return 0
        before = self._users.get(id(wanted), 0)
        if (users := before + change) > 0:
            self._users[id(wanted)] = users
        else:
            del self._users[id(wanted)]
        return 0 if before and users else wanted.size_bytes

    def waiting(self, topic: str, queue_id: int) -> list[HeldPull]:
        """Those that wait for a queue, in the order in which they came."""
        return list(self._by_queue.get((topic, queue_id), ()))

    def expired(self, now: float, most: int) -> list[HeldPull]:
        """Those whose deadline has come, the first of many. They stay held until ``release``."""
        due: list[HeldPull] = []
        while len(due) < most and self._deadlines and self._deadlines[0][0] <= now:
            held = heapq.heappop(self._deadlines)[2]
            if not held.gone:
                due.append(held)
        return due

    def take_topic(self, topic: str) -> list[HeldPull]:
        """Those that wait for any queue of a topic. Nothing comes for them any more, but they count
        until ``release``."""
        return [
            held
            for queue_id in self._queues_of.pop(topic, ())
            for held in self._by_queue.pop((topic, queue_id))
        ]

    def of_connection(self, connection: Peer) -> list[HeldPull]:
        """Those that came over a connection."""
        holder = self._holders.get(connection)
        return [] if holder is None else list(holder.pulls)


def _discard(table: dict[K, dict[V, None]], key: K, value: V) -> None:
    values = table.get(key)
    if values is not None:
        values.pop(value, None)
        if not values:
            del table[key]
