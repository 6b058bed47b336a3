"""Telling a queue from another one of the same name.

A topic that is deleted and made anew counts from 0 again. Once it has as many messages as were read
of the old one, offsets alone look as if nothing had happened, and what lies before them would never
be read. The same goes for the end of a queue that was lost, where a slave that was behind took
over: other messages have those offsets by now. So a checkpoint keeps, with the offset, when the
message before it was stored (``checkpoint.Mark``): another one with that number was stored at
another time, and what was not read yet begins with the first message that is newer. Where that
message is too old to be kept, a time shortly before that was found is kept instead: in the same
queue nothing with its number can have been stored since. (That its number is there again says
nothing: a slave that takes over may keep more than its master did.)

Looked at before a batch that reads of the queue, and every ``newQueuePollInterval``: it costs a
pull.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.system_clock import BlockingClock
from ..access.checkpoint import Mark
from ..access.offsets import Offsets
from ..access.stored_times import Stored
from .each_broker import ask_each_broker

__all__ = ["MarkAccess", "Marks", "Remade"]

log: Final = logging.getLogger(__name__)


_CLOCKS_DIFFER_MS: Final = 30 * 60_000
"""By less than that the clocks of driver and brokers may differ, one way or the other: of what is
gone nobody tells when it was stored, nor does a broker tell its time. What brokers keep for an hour
or longer was stored before it was found to be gone by more than this, and what has its number in a
topic that was made anew since was not."""


class MarkAccess(Protocol):
    """What has to be asked (``BrokerAccess``). Everything raises ``RemotingError``,
    ``BrokerError``."""

    def stored_at(
        self, offsets: Mapping[MessageQueue, int]
    ) -> Mapping[MessageQueue, Stored | None]: ...
    def are_gone(self, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, bool]: ...
    def offsets_for_times(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> Mapping[MessageQueue, int | None]: ...
    def earliest(self, queues: Iterable[MessageQueue]) -> Offsets: ...


class Remade(NamedTuple):
    """A queue is not the one that was read."""

    begin: int
    """Where that begins which was not read."""
    why: str


class Marks:
    """Of one running query."""

    def __init__(
        self,
        access: MarkAccess,
        clock: BlockingClock,
        time_ms: Callable[[], int],
        interval_s: float,
    ) -> None:
        self._access = access
        self._clock = clock
        self._time_ms = time_ms
        self._interval_s = interval_s
        self._looked_at: dict[MessageQueue, float] = {}
        self._not_found: set[MessageQueue] = set()
        """Whose messages were not there when they were looked for the last time."""

    def compare(
        self,
        marks: Mapping[MessageQueue, Mark],
        queues: Iterable[MessageQueue],
        short: Collection[MessageQueue],
    ) -> tuple[dict[MessageQueue, Remade], dict[str, str]]:
        """Those of ``queues`` that are not what they were; and brokers that do not say it, with the
        reason: nothing is to be read of them yet. ``short``: queues that end before what was
        read."""

        def compared(its: list[MessageQueue]) -> dict[MessageQueue, Remade | None]:
            return self._compare({queue: marks[queue] for queue in its}, short)

        found, failed = ask_each_broker((queue for queue in queues if queue in marks), compared)
        self._looked_at |= dict.fromkeys(found, self._clock.now())
        return {queue: each for queue, each in found.items() if each is not None}, failed

    def _compare(
        self, marks: Mapping[MessageQueue, Mark], short: Collection[MessageQueue]
    ) -> dict[MessageQueue, Remade | None]:
        # Of a pull before the oldest message a broker keeps an OFFSET_MOVED_EVENT.
        oldest = self._access.earliest(
            queue for queue, mark in marks.items() if mark.is_gone or queue in self._not_found
        )
        there: dict[MessageQueue, Stored | None] = {
            queue: None for queue in oldest if oldest[queue] > marks[queue].queue_offset
        }
        there |= self._access.stored_at(
            {queue: mark.queue_offset for queue, mark in marks.items() if queue not in there}
        )
        for queue in marks:
            (self._not_found.add if there[queue] is None else self._not_found.discard)(queue)
        others = [queue for queue, mark in marks.items() if _is_other(mark, there[queue])]
        gone = [queue for queue in marks if queue in short and there[queue] is None]
        since = self._access.offsets_for_times(
            {queue: marks[queue].unread_ms for queue in (*others, *gone)}
        )
        begins = {queue: offset for queue, offset in since.items() if offset is not None}
        # Where all of it is older than what was read, a clock was set back.
        begins |= self._access.earliest(
            queue for queue in others if queue not in begins or begins[queue] > marks[queue][0]
        )
        return {
            queue: Remade(begins[queue], _why(mark, there[queue])) if queue in begins else None
            for queue, mark in marks.items()
        }

    def forget_others(self, queues: Collection[MessageQueue]) -> None:
        """These are the ones that the query reads."""
        self._looked_at = {q: at for q, at in self._looked_at.items() if q in queues}
        self._not_found &= set(queues)

    def is_due(self, queue: MessageQueue) -> bool:
        """It was not looked at for long."""
        looked_at = self._looked_at.get(queue)
        return looked_at is None or self._clock.now() - looked_at >= self._interval_s

    def gone(self, begins: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        """Marks before the oldest messages that are kept, which have just been asked for."""
        time_ms = self._time_ms() - _CLOCKS_DIFFER_MS
        return {
            queue: Mark(offset - 1, time_ms, is_gone=True)
            for queue, offset in begins.items()
            if offset > 0
        }

    def renewed(self, ends: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        """Marks before these offsets, where a broker tells. What was not compared right before may
        be another queue. Of an offset that was never reached there is none."""
        before = {queue: offset - 1 for queue, offset in ends.items() if offset > 0}
        time_ms = self._time_ms() - _CLOCKS_DIFFER_MS

        def marked(its: list[MessageQueue]) -> dict[MessageQueue, Mark]:
            there = self._access.stored_at({queue: before[queue] for queue in its})
            marks = {
                queue: Mark(*each)
                for queue, each in there.items()
                if each is not None and each.queue_offset == before[queue]
            }
            gone = self._access.are_gone({q: before[q] for q in its if q not in marks})
            return marks | {
                queue: Mark(before[queue], time_ms, is_gone=True) for queue in gone if gone[queue]
            }

        found, failed = ask_each_broker(before, marked)
        for name, why in failed.items():
            log.warning("what was read on the broker %s was not marked: %s", name, why)
        self._looked_at |= dict.fromkeys(
            (queue for queue in before if queue.broker_name not in failed), self._clock.now()
        )
        return found


def _is_other(mark: Mark, there: Stored | None) -> bool:
    """None there: it was deleted as too old, or a slave is behind, or the queue is short."""
    if there is None or there.queue_offset != mark.queue_offset:
        return False
    return there.time_ms >= mark.time_ms if mark.is_gone else there.time_ms != mark.time_ms


def _why(mark: Mark, there: Stored | None) -> str:
    was = (
        f"was stored before {mark.time_ms} and is not kept"
        if mark.is_gone
        else f"was stored at {mark.time_ms} when it was read"
    )
    now = "there is none" if there is None else f"it is one that was stored at {there.time_ms}"
    return f"its message {mark.queue_offset} {was}, now {now}"
