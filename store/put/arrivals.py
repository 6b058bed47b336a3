"""Telling that messages have arrived: what held pulls wait for.

Costs one attribute test per message of a queue that nobody watches. Of a watched queue only the
newest offset per tags code is kept, however many messages come between two calls of ``notify``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queues import ConsumeQueues, topic_problem
from ..read.readable import Readable
from .queue_numbers import QueueNumber

Noted = dict[tuple[ConsumeQueue | QueueNumber, int], tuple[int, int]]
ArrivalListener = Callable[[str, int, int, int, int], None]
"""``(topic, queue_id, max_offset, tags_code, store_timestamp)``"""


class Arrivals:
    """What has arrived in watched queues since the last ``notify``."""

    def __init__(self, queues: ConsumeQueues) -> None:
        self.listeners: Final[list[ArrivalListener]] = []
        """Called by ``notify``."""
        self.pending: Callable[[], None] = lambda: None
        """Called when the first arrival since the last ``notify`` is noted."""
        self.readable: Readable | None = None
        """None: what has arrived may be read at once."""
        self._queues: Final = queues
        self._noted: Noted = {}

    def watch(self, topic: str, queue_id: int, watched: bool = True) -> None:
        """Note the arrivals of a queue, or not any more. A queue that does not exist yet can be
        watched. What it has that may not be read yet, arrives when it may."""
        if watched and topic_problem(topic, queue_id) is None:
            made = self._queues.get_or_create(topic, queue_id)
            made.watched = True
            if self.readable is not None and self.readable.hides(made):
                self.note(made, 0, 0)
        elif (queue := self._queues.get(topic, queue_id)) is not None:
            queue.watched = False

    def note(self, queue: ConsumeQueue | QueueNumber, tags_code: int, store_timestamp: int) -> None:
        """A message was put into a watched queue."""
        if not self._noted:
            self.pending()
        self._noted[queue, tags_code] = (queue.max_offset, store_timestamp)

    def notify(self) -> None:
        """Tell the listeners, once per queue and tags code; as soon as what has arrived may be
        read."""
        if not self._noted:
            return
        noted, self._noted = self._noted, {}
        if self.readable is None:
            self._tell(noted)
        else:
            self.readable.when(partial(self._tell, noted))

    def _tell(self, noted: Noted) -> None:
        for (queue, tags_code), (max_offset, store_timestamp) in noted.items():
            for listener in self.listeners:
                listener(queue.topic, queue.queue_id, max_offset, tags_code, store_timestamp)
