"""A queue that is ours at present: pulled here, consumed by whoever takes the work (client.md §4.5
to §4.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ...remoting.protocol.bodies.running_info import ProcessQueueInfo
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.topic_names import is_retry_topic
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.services import TaskSet
from ..errors import ConfigError
from ..namespaces import without_namespace
from ..usage_errors import positive
from .consume_stats import TopicStats
from .process_queue import ProcessQueue
from .pulling import Pulled, PullRequest, QueuePuller
from .queue_locks import QueueLocks


class CacheLimits(NamedTuple):
    """What may be held of one queue before pulling pauses; a pull that is under way may go over
    it."""

    messages: int = 1000
    size_bytes: int = 100 << 20
    span: int = 2000
    """Distance between the first and the last offset: one message that takes long must not leave
    thousands behind it. Of no matter to ordered consumers."""
    total_messages: int | None = None
    """Of all queues of the consumer together: each gets its share, in place of ``messages``."""
    total_size_bytes: int | None = None

    def share(self, queues: int) -> CacheLimits:
        """The limits of each of so many queues."""
        count, size = self.total_messages, self.total_size_bytes
        return self._replace(
            messages=self.messages if count is None else max(1, count // max(1, queues)),
            size_bytes=self.size_bytes if size is None else max(1, size // max(1, queues)),
        )


def checked_limits(limits: CacheLimits) -> CacheLimits:
    """The limits if they can work. Raises ``ConfigError``."""
    if not isinstance(limits, CacheLimits):
        raise ConfigError(
            f"cache is a CacheLimits, such as CacheLimits(messages=100), not {limits!r}"
        )
    for name, value in limits._asdict().items():
        if value is not None:
            positive(f"cache.{name}", value)
    return limits


Work: TypeAlias = "tuple[OwnedQueue, ProcessQueue, list[MessageExt]]"
"""Messages for a handler. The process queue tells whether they are still ours when it is done."""


def restore_topics(messages: list[MessageExt], *, retried: bool, namespace: str | None) -> None:
    """The handler sees the topic that a retried message was sent to, not the retry topic, and no
    namespace."""
    if retried:
        for message in messages:
            message.topic = message.properties.get(PropertyName.RETRY_TOPIC, message.topic)
    if namespace is not None:
        for message in messages:
            message.topic = without_namespace(message.topic, namespace)


class OwnedQueue:
    """One queue of a push consumer."""

    def __init__(
        self,
        request: PullRequest,
        limits: CacheLimits,
        submit: Callable[[OwnedQueue, list[MessageExt]], None],
        gate: asyncio.Event,
        stats: TopicStats | None = None,
    ) -> None:
        """``submit`` is given what was pulled; nothing is pulled while ``gate`` is not set."""
        member, queue = request.member, request.queue
        self.stats: TopicStats = stats or TopicStats()
        self.queue = queue
        self.process_queue: ProcessQueue = ProcessQueue()
        self._offsets = member.offsets
        self._clock = member.instance.clock
        self.limits: CacheLimits = limits
        self.tries_to_leave: int = 0
        self._submit = submit
        self._gate = gate
        self._room = asyncio.Event()
        self._room.set()
        self._waits_for_room = False
        self._puller = QueuePuller(request, self, self.stats)
        self._task: asyncio.Task[None] | None = None
        self._is_retry = is_retry_topic(queue.topic)
        self._namespace = member.instance.namespace
        self.prepares: bool = self._is_retry or self._namespace is not None
        """There is something to do before a handler sees a message."""

    # --- life
    # ----------------------------------------------------------------------------------------------

    def start(self, tasks: TaskSet) -> None:
        self._task = tasks.spawn(
            self._puller.run(), name=f"pull {self.queue.topic}/{self.queue.queue_id}"
        )

    def drop(self) -> None:
        """It is somebody else's now: pull no more, results of handlers that still run count no
        more."""
        self.process_queue.dropped = True
        self.process_queue.clear()
        if self._task is not None:
            self._task.cancel()

    def restart_at(self, offset: int, tasks: TaskSet) -> None:
        """Forget what was pulled and go on at ``offset``."""
        if self._task is not None:
            self._task.cancel()
        self.restart(offset)
        self._puller.is_gone, self._puller.next_offset = False, offset
        self.start(tasks)

    # --- being pulled (PullTarget)
    # ----------------------------------------------------------------------------------

    async def room(self) -> None:
        await self._room.wait()
        await self._gate.wait()

    def put(self, pulled: Pulled) -> None:
        process_queue = self.process_queue
        process_queue.max_offset = pulled.max_offset
        new = process_queue.put(pulled.messages)
        if new:
            self._submit(self, new)
        elif not len(process_queue):
            self._offsets.update(self.queue, pulled.next_offset)
        if self._is_full():
            self._waits_for_room = True
            self._room.clear()

    def restart(self, offset: int) -> None:
        self.process_queue.dropped = True
        self.process_queue = ProcessQueue()
        self._waits_for_room = False
        self._room.set()
        self._offsets.update(self.queue, offset, only_forwards=False)

    @property
    def consumed(self) -> int | None:
        return self._offsets.get(self.queue)

    def _is_full(self) -> bool:
        held, limits = self.process_queue, self.limits
        return (
            len(held) > limits.messages
            or held.size_bytes > limits.size_bytes
            or held.span > limits.span
        )

    # --- being consumed
    # ---------------------------------------------------------------------------------------------

    def prepare(self, messages: list[MessageExt]) -> None:
        """As ``restore_topics``."""
        restore_topics(messages, retried=self._is_retry, namespace=self._namespace)

    def finish(self, process_queue: ProcessQueue, messages: list[MessageExt]) -> None:
        """These are consumed or given back: the offset may move on. Nothing happens when they are
        not ours any more."""
        if process_queue.dropped:
            return
        offset = process_queue.remove(messages)
        self._offsets.update(self.queue, offset)
        if self._waits_for_room and not self._is_full():
            self._waits_for_room = False
            self._room.set()

    def _last_consume_ms(self) -> int:
        clock, begun = self._clock, self.process_queue.last_begun
        return clock.time_ms() - round((clock.monotonic() - begun) * 1000) if begun else 0

    @property
    def pulling(self) -> QueuePuller:
        return self._puller

    def info(self, locks: QueueLocks | None = None) -> ProcessQueueInfo:
        """For ``mqadmin consumerStatus``. A queue that is not ordered counts as locked, as in the
        original."""
        held = self.process_queue
        return ProcessQueueInfo(
            commit_offset=self._offsets.get(self.queue) or 0,
            cached_msg_min_offset=held.first_offset or 0,
            cached_msg_max_offset=held.last_offset or 0,
            cached_msg_count=len(held),
            cached_msg_size_mib=held.size_bytes >> 20,
            locked=locks is None or locks.holds(self.queue),
            try_unlock_times=self.tries_to_leave,
            last_lock_timestamp=locks.locked_at_ms(self.queue) if locks is not None else 0,
            dropped=held.dropped,
            last_pull_timestamp=self._puller.last_pull_ms,
            last_consume_timestamp=self._last_consume_ms(),
        )
