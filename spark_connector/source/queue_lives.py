"""Queues that are not those that were read: their topic was deleted and made anew, or they have
lost their end, where a slave that was behind took over.

Other messages soon have the offsets that were read; whoever goes on behind those leaves them out.
So of each queue the checkpoint has when a message that was read was stored (``Life``): a process
that starts looks whether it still was then, and goes on with the first message that is newer. Older
messages expire, so that is noted anew every ten minutes, with a batch that reads something.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from ...remoting.errors import BrokerError, RemotingError
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.system_clock import BlockingClock
from ..access.offsets import Offsets
from ..access.options import SourceOptions
from .data_loss import lose, told
from .positions import OffsetAccess
from .stream_position import Life, StreamPosition

__all__ = ["LivesAccess", "QueueLives"]

log: Final = logging.getLogger(__name__)

NOTED_EVERY_S: Final = 600.0


class LivesAccess(OffsetAccess, Protocol):
    """What has to be asked (``BrokerAccess``)."""

    def store_times(
        self, offsets: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | None]: ...


class QueueLives:
    """Of one running query."""

    def __init__(self, options: SourceOptions, access: LivesAccess, clock: BlockingClock) -> None:
        self._options = options
        self._access = access
        self._clock = clock
        self._compared = False
        self._noted_at: dict[MessageQueue, float] = {}

    def made_anew(self, start: StreamPosition, present: Iterable[MessageQueue]) -> Offsets:
        """Queues whose names others had that were read, and where these begin. Looked for once,
        at the first trigger of this process."""
        if self._compared:
            return {}
        here = set(present)
        known = {
            queue: life
            for queue, life in start.lives.items()
            if life.stored_ms >= 0 and queue in here and queue in start.offsets
        }
        try:
            there = self._access.store_times({queue: life.seen for queue, life in known.items()})
            changed = {
                queue: life for queue, life in known.items() if there[queue] != life.stored_ms
            }
            oldest = self._access.earliest(changed)
            newer = self._access.offsets_for_times(
                {queue: life.stored_ms + 1 for queue, life in changed.items()}
            )
        except (RemotingError, BrokerError) as error:
            log.warning("whether a topic was made anew is asked with the next batch: %s", error)
            return {}
        self._compared = True
        anew: Offsets = {}
        for queue, life in changed.items():
            begin = newer[queue]
            if begin is None and there[queue] is not None:  # a clock was set back
                begin = oldest[queue]
            if begin is not None and oldest[queue] <= life.seen:  # else it is too old to be kept
                anew[queue] = min(begin, start.offsets[queue])
        return anew

    def tell(self, start: StreamPosition, anew: Offsets, latest: Offsets) -> None:
        """Raises ``DataLossError``, or says how many messages are read again from which offset."""
        for queue, begin in anew.items():
            read = start.offsets[queue]
            count = max(0, min(read, latest.get(queue, begin)) - begin)
            lose(
                self._options,
                f"{told(queue)} was made anew, or lost its end, since it was read up to {read}: "
                f"{count} messages lie where others were read",
                f"it is read from {begin} on",
            )

    def after(
        self,
        start: StreamPosition,
        begin: Offsets,
        end: Offsets,
        moved: Collection[MessageQueue],
        anew: Collection[MessageQueue],
    ) -> dict[MessageQueue, Life]:
        """A batch from ``begin`` to ``end``. ``moved``: the queues that it reads."""
        noted = self._note({queue: end[queue] - 1 for queue in moved if end.get(queue, 0) > 0})
        lives: dict[MessageQueue, Life] = {}
        for queue in end:
            life = start.lives.get(queue)
            if queue in anew:
                life = Life(start.lives[queue].number + 1, begin[queue], 0, -1)
            elif queue not in start.offsets:
                life = Life(0, begin[queue], 0, -1)
            if queue in noted:
                number, first = (0, begin[queue]) if life is None else life[:2]
                life = Life(number, first, *noted[queue])
            if life is not None:
                lives[queue] = life
        return lives

    def _note(self, last: Offsets) -> dict[MessageQueue, tuple[int, int]]:
        """Offset and store time (ms) of the last messages that are read, where it is time."""
        now = self._clock.now()
        due = {
            queue: offset
            for queue, offset in last.items()
            if now - self._noted_at.get(queue, float("-inf")) >= NOTED_EVERY_S
        }
        try:
            times = self._access.store_times(due) if due else {}
        except (RemotingError, BrokerError) as error:
            log.warning("when messages were stored is asked with the next batch: %s", error)
            return {}
        found = {queue: (due[queue], ms) for queue, ms in times.items() if ms is not None}
        self._noted_at.update(dict.fromkeys(found, now))
        return found
