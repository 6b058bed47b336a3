"""Whose turn it is: one message at a time in each queue.

Who names a queue waits for it in the order of asking. Who does not takes the first one that is
free, so that nobody waits behind a broker that is away while another one has nothing to do.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence

from ...remoting.protocol.message.message_queue import MessageQueue


class _Waiter:
    __slots__ = ("avoid", "future", "number")

    def __init__(self, number: int, avoid: Collection[str]) -> None:
        self.number = number
        self.avoid = avoid
        self.future: asyncio.Future[MessageQueue] = asyncio.get_running_loop().create_future()


class QueueTurns:
    """The queues of one producer that are in use, and who waits for one."""

    def __init__(self, candidates: Callable[[str], Sequence[MessageQueue]]) -> None:
        """``candidates`` are the queues of a topic that can be sent to now, the best one first."""
        self._candidates = candidates
        self._held: set[MessageQueue] = set()
        self._lines: defaultdict[MessageQueue | str, deque[_Waiter]] = defaultdict(deque)
        """For a queue; nobody waits where it is free. For any queue of a topic."""
        self._asked = 0

    def take(
        self, topic: str, bound: MessageQueue | None, avoid: Collection[str] = ()
    ) -> MessageQueue | None:
        """The queue ``bound``, or any one of the topic but those of brokers to ``avoid``. None: it
        has to be waited for. It has to be released."""
        if bound is None and topic in self._lines:
            return None
        for queue in (bound,) if bound is not None else self._candidates(topic):
            if queue not in self._held and queue.broker_name not in avoid:
                self._held.add(queue)
                return queue
        return None

    async def wait(
        self,
        topic: str,
        bound: MessageQueue | None,
        avoid: Collection[str] = (),
        *,
        again: bool = False,
    ) -> MessageQueue:
        """As ``take``, when it is free. Whoever had one and looks for another comes first
        (``again``)."""
        self._asked += 1
        waiter = _Waiter(0 if again else self._asked, avoid)
        wanted = bound or topic
        line = self._lines[wanted]
        if again:
            line.appendleft(waiter)
        else:
            line.append(waiter)
        if bound is None and (line[0] is waiter or line[0].avoid):
            self.serve(topic)  # else those in front have been told that nothing is free
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if not waiter.future.cancelled():  # it came at the same moment
                self.release(waiter.future.result())
            else:
                self._leave(wanted, waiter)
            raise

    def release(self, queue: MessageQueue) -> None:
        """The next one may."""
        self._held.discard(queue)
        first, anybody = self._first(queue, queue), self._first(queue.topic, queue)
        if first is None or (anybody is not None and anybody.number < first.number):
            self.serve(queue.topic)
        if first is not None and queue not in self._held:
            self._give(queue, queue, first)

    def serve(self, topic: str) -> None:
        """Give what is free to those who take any: it may be another queue than a moment ago that
        can be sent to."""
        if topic not in self._lines:
            return
        for queue in self._candidates(topic):
            if queue not in self._held and (waiter := self._first(topic, queue)) is not None:
                self._give(queue, topic, waiter)

    def _first(self, wanted: MessageQueue | str, queue: MessageQueue) -> _Waiter | None:
        """Who waits for it and does not avoid this one. (Who was cancelled a moment ago still
        stands there.)"""
        for waiter in self._lines.get(wanted, ()):
            if not waiter.future.done() and queue.broker_name not in waiter.avoid:
                return waiter
        return None

    def _give(self, queue: MessageQueue, wanted: MessageQueue | str, waiter: _Waiter) -> None:
        self._leave(wanted, waiter)
        self._held.add(queue)
        waiter.future.set_result(queue)

    def _leave(self, wanted: MessageQueue | str, waiter: _Waiter) -> None:
        line = self._lines[wanted]
        line.remove(waiter)  # one of the first, as a rule
        if not line:
            del self._lines[wanted]
