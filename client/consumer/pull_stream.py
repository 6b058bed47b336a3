"""One queue of a pull consumer: what was pulled ahead, what was handed out, what is done."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from ...remoting.protocol.bodies.heartbeat import SubscriptionData
from ...remoting.protocol.bodies.running_info import ProcessQueueInfo
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet
from ..namespaces import without_namespace
from ..producer.trace import ConsumeTracer
from ..producer.trace_records import ConsumeOutcome
from .pulling import Pulled, PullRequest, QueuePuller


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
        room_for_all: Callable[[], Awaitable[None]] | None = None,
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
        self.paused = False
        self._buffer: deque[MessageExt] = deque()
        self._size_bytes = 0
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._room = asyncio.Event()
        self._room.set()
        self._announce = announce
        self._room_for_all = room_for_all
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
        self.epoch += 1
        self._buffer.clear()
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
        if self._room_for_all is not None:
            await self._room_for_all()

    def put(self, pulled: Pulled) -> None:
        buffer = self._buffer
        if pulled.messages:
            if self._namespace is not None:
                for message in pulled.messages:
                    message.topic = without_namespace(message.topic, self._namespace)
            if self._tracer is not None:
                self._tracer.after(self._tracer.before(pulled.messages), ConsumeOutcome.SUCCESS)
            buffer.extend(pulled.messages)
            self._size_bytes += sum(len(m.stored_body) for m in pulled.messages)
            if len(buffer) >= self._max_messages or self._size_bytes >= self._max_bytes:
                self._room.clear()
            self._announce(self)
        elif not buffer:  # nothing but messages of other tags: they are behind us
            if self.done == self.delivered:
                self.done = pulled.next_offset
            self.delivered = pulled.next_offset

    def restart(self, offset: int) -> None:
        self.epoch += 1
        self._buffer.clear()
        self._size_bytes = 0
        self.delivered = self.done = offset
        self._room.set()

    @property
    def consumed(self) -> int:
        return self.done

    # --- being consumed
    # ---------------------------------------------------------------------------------------------

    def pop(self) -> MessageExt | None:
        """Hand out the next message."""
        if not self._buffer:
            return None
        message = self._buffer.popleft()
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
        buffer.clear()
        self._size_bytes = 0
        if messages:
            self.delivered = messages[-1].queue_offset + 1
        self._room.set()
        return messages

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
