"""A queue that is ours at present: pulled here, consumed by whoever takes the work (client.md §4.5 to §4.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ..remoting.protocol.bodies.heartbeat import SubscriptionData
from ..remoting.protocol.bodies.running_info import ProcessQueueInfo
from ..remoting.protocol.message import MessageExt, MessageQueue
from ..remoting.protocol.topic_names import is_retry_topic
from ..remoting.services import TaskSet
from .group_member import GroupMember
from .process_queue import ProcessQueue
from .pulling import Pulled, PullSettings, QueuePuller


class CacheLimits(NamedTuple):
    """What may be held of one queue before pulling pauses; a pull that is under way may go over it."""

    messages: int = 1000
    size_bytes: int = 100 << 20
    span: int = 2000
    """Distance between the first and the last offset: one message that takes long must not leave thousands behind it."""


class Work(NamedTuple):
    """Messages for a handler. ``process_queue`` tells whether they are still ours when it is done."""

    owned: OwnedQueue
    process_queue: ProcessQueue
    messages: list[MessageExt]


class OwnedQueue:
    """One queue of a push consumer."""

    def __init__(
        self,
        member: GroupMember,
        queue: MessageQueue,
        subscription: SubscriptionData,
        settings: PullSettings,
        limits: CacheLimits,
        offset: int,
        submit: Callable[[OwnedQueue, list[MessageExt]], None],
    ) -> None:
        self.queue = queue
        self.process_queue = ProcessQueue()
        self._offsets = member.offsets
        self._clock = member.instance.clock
        self._limits = limits
        self._submit = submit
        self._room = asyncio.Event()
        self._room.set()
        self._puller = QueuePuller(member, queue, subscription, settings, self, offset)
        self._task: asyncio.Task[None] | None = None
        self._is_retry = is_retry_topic(queue.topic)
        self._last_consume_ms = 0

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self, tasks: TaskSet) -> None:
        self._task = tasks.spawn(self._puller.run(), name=f"pull {self.queue.topic}/{self.queue.queue_id}")

    def drop(self) -> None:
        """It is somebody else's now: pull no more, results of handlers that still run count no more."""
        self.process_queue.dropped = True
        self.process_queue.clear()
        if self._task is not None:
            self._task.cancel()

    def restart_at(self, offset: int, tasks: TaskSet) -> None:
        """Forget what was pulled and go on at ``offset``."""
        if self._task is not None:
            self._task.cancel()
        self.restart(offset)
        self._puller.next_offset = offset
        self.start(tasks)

    # --- being pulled (PullTarget) ----------------------------------------------------------------------------------

    async def room(self) -> None:
        await self._room.wait()

    def put(self, pulled: Pulled) -> None:
        process_queue = self.process_queue
        process_queue.max_offset = pulled.max_offset
        new = process_queue.put(pulled.messages)
        if new:
            self._submit(self, new)
        elif not len(process_queue):
            self._offsets.update(self.queue, pulled.next_offset)
        if self._is_full():
            self._room.clear()

    def restart(self, offset: int) -> None:
        self.process_queue.dropped = True
        self.process_queue = ProcessQueue()
        self._room.set()
        self._offsets.update(self.queue, offset, only_forwards=False)

    def _is_full(self) -> bool:
        held, limits = self.process_queue, self._limits
        return len(held) > limits.messages or held.size_bytes > limits.size_bytes or held.span > limits.span

    # --- being consumed ---------------------------------------------------------------------------------------------

    def prepare(self, messages: list[MessageExt]) -> None:
        """The handler sees the topic that a retried message was sent to, not the retry topic."""
        if self._is_retry:
            for message in messages:
                message.topic = message.properties.get("RETRY_TOPIC", message.topic)

    def finish(self, process_queue: ProcessQueue, messages: list[MessageExt]) -> None:
        """These are consumed or given back: the offset may move on. Nothing happens when they are not ours any more."""
        if process_queue.dropped:
            return
        offset = process_queue.remove(messages)
        self._last_consume_ms = self._clock.time_ms()
        self._offsets.update(self.queue, offset)
        if not self._room.is_set() and not self._is_full():
            self._room.set()

    def info(self) -> ProcessQueueInfo:
        """For ``mqadmin consumerStatus``."""
        held = self.process_queue
        return ProcessQueueInfo(
            commit_offset=self._offsets.get(self.queue) or 0,
            cached_msg_min_offset=held.first_offset or 0,
            cached_msg_max_offset=held.last_offset or 0,
            cached_msg_count=len(held),
            cached_msg_size_mib=held.size_bytes >> 20,
            dropped=held.dropped,
            last_pull_timestamp=self._puller.last_pull_ms,
            last_consume_timestamp=self._last_consume_ms,
        )
