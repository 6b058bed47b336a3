"""Topics that are deleted by an entry of the log, at each member when the entry is committed. Who
reads the entries (``broker/replication/table_log.py``) tells.

A deletion is about what lies in front of it: a queue goes if its last message does. One that has a
message behind it has begun anew since, for a topic of the same name. So it does not matter when a
member comes to it, nor whether it does so again after a start.

A queue goes in a turn of the loop: a loaded disk takes milliseconds for the files of each, and a
topic may have thousands. All of them are gone when a stop is an orderly one; after any other the
start is told of all deletions that the log has.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages, without_figures
from ...remoting.slices import Steps, at_once, slices
from ..model.errors import StoreFileError
from ..put.queue_numbers import QueueNumbers
from ..queues.consume_queues import ConsumeQueues
from ..replica.replica_log import BegunAnew

log: Final = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
"""As for what else a disk does not take just now."""
_AT_ONCE: Final = 128
"""Queues whose ends are looked at in one turn: each may be a read of 20 bytes."""


class Deletions:
    """Of one store. One thread calls it."""

    def __init__(
        self,
        queues: ConsumeQueues,
        numbers: QueueNumbers,
        on_begun_anew: Sequence[BegunAnew],
        clock: Clock,
    ) -> None:
        self._queues: Final = queues
        self._numbers: Final = numbers
        self._on_begun_anew: Final = on_begun_anew
        self._clock: Final = clock
        self._outages: Final = Outages(clock)
        self._due: Final[deque[tuple[str, int]]] = deque()
        """Topics, and where their deletions lie."""
        self._wanted: Final = asyncio.Event()
        self.are_stuck: bool = False
        """The disk does not let them be done."""

    @property
    def are_due(self) -> bool:
        """Until they are done nobody may lead: it would count on from what has to go."""
        return bool(self._due)

    def put(self, topic: str) -> None:
        """A leader has put one."""
        self._numbers.begin_anew(topic)

    def committed(self, topic: str, phy_offset: int) -> None:
        """One that lies there is committed: its queues go, soon."""
        self._numbers.deleted(topic)
        self._due.append((topic, phy_offset))
        self._wanted.set()

    def of(self, topic: str) -> Steps[bool]:
        """Do what is due of one topic; False when that was nothing."""
        due = [place for each, place in self._due if each == topic]
        for place in due:
            yield from self._delete(topic, place)
        return bool(due)

    def finish(self) -> None:
        """Do all of it in this turn. Raises StoreFileError."""
        at_once(self._all())

    def close(self) -> bool:
        """The same at a stop; False, and told, where it fails: the next start does it then."""
        try:
            self.finish()
        except StoreFileError as error:
            log.error("queues of a deleted topic stay until the next start: %s", error)
            return False
        return True

    def forget(self) -> None:
        """The log begins anew, and the queues with it."""
        self._due.clear()

    def _all(self) -> Steps[None]:
        while self._due:
            topic, place = due = self._due[0]
            yield from self._delete(topic, place)
            if self._due and self._due[0] is due:
                self._due.popleft()

    def _delete(self, topic: str, place: int) -> Steps[None]:
        gone = []
        for some in slices(self._queues.of_topic(topic), _AT_ONCE):
            gone += [queue.queue_id for queue in some if queue.known_end() <= place]
            yield
        if gone:
            log.info("queues of a deleted topic go topic=%s queues=%d", topic, len(gone))
            for each in self._on_begun_anew:
                each(topic, gone)
            yield from self._queues.delete_topic(topic, place)

    async def run(self) -> None:
        """Service. What is due when it is cancelled is left to ``close``."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                for _ in self._all():
                    await asyncio.sleep(0)
            except StoreFileError as error:
                cause, text = without_figures(str(error)), "queues of a deleted topic stay: %s"
                self._outages.fails(log, (cause,), text, error, level=logging.ERROR)
                self.are_stuck = True
                await self._clock.sleep(_RETRY_SECONDS)
                self._wanted.set()
            else:
                self.are_stuck = False
                self._outages.all_work()
