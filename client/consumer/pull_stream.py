"""One queue of a pull consumer: what was pulled ahead, what was handed out, what is done. And how
much all of them hold together."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from ...remoting.clock import Clock, Timer
from ...remoting.protocol.bodies.heartbeat import SubscriptionData
from ...remoting.protocol.bodies.running_info import ProcessQueueInfo
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet
from ..namespaces import without_namespace
from ..producer.trace import ConsumeTracer
from ..producer.trace_records import ConsumeOutcome
from .pulling import Pulled, PullRequest, QueuePuller

_HELD_AFTER_S: Final = 0.25
"""A pull that is not answered by then is held by a broker that has nothing: it does not count."""


class SharedRoom:
    """What the streams of one consumer may hold together. Those that have to wait have their turns
    one after the other, as far as what is being pulled fits in."""

    def __init__(self, most: int, batch_size: int, clock: Clock) -> None:
        """``batch_size``: what a pull brings at most."""
        self.held: int = 0
        """Messages that wait to be handed out, without those of paused streams."""
        self._most = most
        self._batch_size = batch_size
        self._clock = clock
        self._asked: OrderedDict[PullStream, float] = OrderedDict()
        """Whose pull is under way, and since when."""
        self._waiting: OrderedDict[PullStream, asyncio.Future[None]] = OrderedDict()
        self._timer: Timer | None = None

    async def wait(self, stream: PullStream) -> None:
        """Return when the stream may pull, which it is expected to do at once."""
        self.answered(stream)
        if not self._waiting and self._is_free():
            self._asked[stream] = self._clock.monotonic()
            return
        self._waiting[stream] = turn = asyncio.get_running_loop().create_future()
        self.look()
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.pop(stream, None)
            self.answered(stream)
            raise

    def answered(self, stream: PullStream) -> None:
        """What its pull has brought counts as held from now on."""
        if self._asked.pop(stream, None) is not None:
            self.look()

    def look(self) -> None:
        """Who waits may pull, as far as there is space."""
        while self._waiting and self._is_free():
            stream, turn = self._waiting.popitem(last=False)
            if not turn.done():
                self._asked[stream] = self._clock.monotonic()
                turn.set_result(None)
        if self._waiting and self._asked and self._timer is None:
            self._timer = self._clock.call_later(_HELD_AFTER_S, self._look_later)

    def _look_later(self) -> None:
        self._timer = None
        self.look()

    def _is_free(self) -> bool:
        then = self._clock.monotonic() - _HELD_AFTER_S
        while self._asked and next(iter(self._asked.values())) <= then:
            self._asked.popitem(last=False)
        return self.held + len(self._asked) * self._batch_size <= self._most


class PullStream:
    """Messages of one queue in order.

    Invariant: ``done <= delivered``, and nothing that waits in the buffer has an offset below
    ``delivered``.
    """

    def __init__(
        self,
        request: PullRequest,
        *,
        max_messages: int,
        max_bytes: int,
        announce: Callable[[PullStream], None],
        shared: SharedRoom,
        tracer: ConsumeTracer | None = None,
    ) -> None:
        self.queue = request.queue
        self.subscription: SubscriptionData = request.subscription
        self.delivered: int = request.offset
        """Offset behind the last message that was handed out."""
        self.done: int = request.offset
        """Offset behind the last message that counts as consumed."""
        self.epoch: int = 0
        """Grows whenever the stream is moved or taken away: what was handed out before is
        history."""
        self.paused: bool = False
        """Nothing of it is handed out, and what waits counts for nobody else; see ``pause``."""
        self._buffer: deque[MessageExt] = deque()
        self._size_bytes = 0
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._room = asyncio.Event()
        self._room.set()
        self._announce = announce
        self._shared = shared
        self._tracer = tracer
        self._namespace = request.member.instance.namespace
        self._puller = QueuePuller(request, self)
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._buffer)

    # --- life
    # ----------------------------------------------------------------------------------------------

    def start(self, tasks: TaskSet) -> None:
        self._task = tasks.spawn(
            self._puller.run(), name=f"pull {self.queue.topic}/{self.queue.queue_id}"
        )

    def drop(self) -> None:
        """It is somebody else's now."""
        self._forget()
        if self._task is not None:
            self._task.cancel()

    def restart_at(self, offset: int, tasks: TaskSet) -> None:
        """Forget what was pulled and go on at ``offset``."""
        if self._task is not None:
            self._task.cancel()
        self.restart(offset)
        self._puller.is_gone, self._puller.next_offset = False, offset
        self.start(tasks)

    @property
    def pulling(self) -> QueuePuller:
        return self._puller

    # --- being pulled (PullTarget)
    # ----------------------------------------------------------------------------------

    async def room(self) -> None:
        await self._room.wait()
        await self._shared.wait(self)

    def put(self, pulled: Pulled) -> None:
        buffer = self._buffer
        if pulled.messages:
            if self._namespace is not None:
                for message in pulled.messages:
                    message.topic = without_namespace(message.topic, self._namespace)
            if self._tracer is not None:
                self._tracer.after(self._tracer.before(pulled.messages), ConsumeOutcome.SUCCESS)
            buffer.extend(pulled.messages)
            self._has_more(pulled.messages)
        elif not buffer:  # nothing but messages of other tags: they are behind us
            if self.done == self.delivered:
                self.done = pulled.next_offset
            self.delivered = pulled.next_offset
        self._shared.answered(self)

    def restart(self, offset: int) -> None:
        self._forget()
        self.delivered = self.done = offset
        self._room.set()

    def _has_more(self, messages: list[MessageExt]) -> None:
        """The buffer has."""
        self._holds(len(messages))
        self._size_bytes += sum(len(m.stored_body) for m in messages)
        if len(self._buffer) >= self._max_messages or self._size_bytes >= self._max_bytes:
            self._room.clear()
        self._announce(self)

    def _forget(self) -> None:
        """What was pulled."""
        self.epoch += 1
        self._holds(-len(self._buffer))
        self._buffer.clear()
        self._size_bytes = 0
        self._shared.answered(self)
        self._shared.look()

    def _holds(self, more: int) -> None:
        if not self.paused:
            self._shared.held += more

    @property
    def consumed(self) -> int:
        return self.done

    def pause(self, paused: bool) -> None:
        """Or go on."""
        self._holds(-len(self._buffer))
        self.paused = paused
        self._holds(len(self._buffer))
        self._shared.look()

    # --- being consumed
    # ---------------------------------------------------------------------------------------------

    def pop(self) -> MessageExt | None:
        """Hand out the next message."""
        if not self._buffer:
            return None
        message = self._buffer.popleft()
        if not self.paused:
            self._shared.held -= 1
        self._size_bytes -= len(message.stored_body)
        self.delivered = message.queue_offset + 1
        if len(self._buffer) * 2 <= self._max_messages and self._size_bytes * 2 <= self._max_bytes:
            self._room.set()
        return message

    def take(self, count: int) -> list[MessageExt]:
        """Hand out up to so many messages, at least one if there is one."""
        buffer = self._buffer
        if len(buffer) > count:
            return [message for _ in range(count) if (message := self.pop()) is not None]
        messages = list(buffer)
        self._holds(-len(messages))
        buffer.clear()
        self._size_bytes = 0
        if messages:
            self.delivered = messages[-1].queue_offset + 1
        self._room.set()
        return messages

    def take_back(self, messages: list[MessageExt]) -> None:
        """They were the last to be handed out, and nobody was given them. Nothing happens where
        they count as done, or the stream was moved."""
        if self.done <= messages[0].queue_offset < self.delivered:
            self._buffer.extendleft(reversed(messages))
            self.delivered = self.done
            self._has_more(messages)

    def info(self) -> ProcessQueueInfo:
        """For ``mqadmin consumerStatus``."""
        buffer = self._buffer
        return ProcessQueueInfo(
            commit_offset=self.done,
            cached_msg_min_offset=buffer[0].queue_offset if buffer else 0,
            cached_msg_max_offset=buffer[-1].queue_offset if buffer else 0,
            cached_msg_count=len(buffer),
            cached_msg_size_mib=self._size_bytes >> 20,
            last_pull_timestamp=self._puller.last_pull_ms,
        )
