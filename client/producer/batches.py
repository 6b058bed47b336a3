"""Lists of messages as one frame: cutting long lists, accumulating single ones.

A batch is one frame, one append to the commit log and one answer, and its messages lie next to each
other in one queue. It has a limit: ``max_message_size`` of the producer and ``maxMessageSize`` of
the broker, 4 MiB unless changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

import msgspec

from ...remoting.clock import Clock
from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.topic_names import is_retry_topic
from ...remoting.protocol.record.batch import BatchItem
from ...remoting.protocol.record.layout import BATCH_ITEM_OVERHEAD
from ...remoting.services import TaskSet
from ..errors import ConfigError, MessageError
from .sending import Outgoing, SendResult, batch_of, item_of

__all__ = ["Accumulate", "Accumulator", "split"]

DEFAULT_MAX_BYTES = 4 << 20
_LONGEST_ID = "0" * 56


def split(
    messages: Iterable[Message], max_bytes: int = DEFAULT_MAX_BYTES
) -> Iterator[list[Message]]:
    """Cut a list of messages into lists, in order, that fit one batch frame each::

        for part in split(messages):
            await producer.send(part)

    ``max_bytes`` is the producer's ``max_message_size``. Raises ``MessageError`` for a message that
    does not fit alone.
    """
    part: list[Message] = []
    taken = 0
    for message in messages:
        item = item_of(message, _LONGEST_ID, max_bytes)
        size = BATCH_ITEM_OVERHEAD + len(item.body) + len(item.properties)
        if size > max_bytes:
            raise MessageError(
                f"a message takes {size} bytes in a batch, the limit is {max_bytes}: send it alone"
            )
        if part and taken + size > max_bytes:
            yield part
            part, taken = [], 0
        part.append(message)
        taken += size
    if part:
        yield part


class Accumulate(msgspec.Struct, frozen=True):
    """Gather what is sent one by one into batches: a batch leaves when it has ``max_bytes``, or
    after ``linger`` seconds.

    Only plain messages are gathered: for any queue, without a delay, too short to be compressed.
    With ``linger=0`` what is sent in one turn of the event loop.
    """

    max_bytes: int = 32 << 10
    linger: float = 0.005

    def __post_init__(self) -> None:
        if not 0 < self.max_bytes <= DEFAULT_MAX_BYTES or not 0 <= self.linger <= 60:
            raise ConfigError(
                f"max_bytes is 1 to {DEFAULT_MAX_BYTES}, linger 0 to 60 s, not {self}"
            )


class _Batch:
    """Messages of one topic that wait for each other."""

    __slots__ = ("futures", "ids", "items", "messages", "size_bytes", "topic", "wait_store_ok")

    def __init__(self, topic: str, wait_store_ok: bool) -> None:
        self.topic = topic
        self.wait_store_ok = wait_store_ok
        self.messages: list[Message] = []
        self.items: list[BatchItem] = []
        self.ids: list[str] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.size_bytes = 0


class Accumulator:
    """Gathers messages by topic. ``deliver`` takes the batches."""

    def __init__(
        self,
        settings: Accumulate,
        deliver: Callable[[Outgoing], Awaitable[SendResult]],
        clock: Clock,
        tasks: TaskSet,
        max_size_bytes: int,
    ) -> None:
        self._settings = settings
        self._max_bytes = min(settings.max_bytes, max_size_bytes)
        self._deliver = deliver
        self._clock = clock
        self._tasks = tasks
        self._open: dict[tuple[str, bool], _Batch] = {}
        self._under_way: set[asyncio.Task[SendResult]] = set()

    def takes(self, message: Message) -> bool:
        """Whether a message may share a frame with others."""
        return (
            message.delay_level <= 0
            and not is_retry_topic(message.topic)
            and 4 * len(message.body) <= self._max_bytes
        )

    def add(
        self, message: Message, msg_id: str, *, given: Message | None = None
    ) -> asyncio.Future[SendResult]:
        """The future gets the message's own result. ``given`` is what hooks are told of. Raises
        ``MessageError``."""
        item = item_of(message, msg_id, self._max_bytes)
        size = BATCH_ITEM_OVERHEAD + len(item.body) + len(item.properties)
        key = (message.topic, message.wait_store_ok)
        batch = self._open.get(key)
        if batch is not None and batch.size_bytes + size > self._max_bytes:
            self._flush(key)
            batch = None
        if batch is None:
            batch = self._open[key] = _Batch(*key)
            self._tasks.spawn(self._linger(key, batch), name="linger")
        future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        batch.messages.append(given or message)
        batch.items.append(item)
        batch.ids.append(msg_id)
        batch.futures.append(future)
        batch.size_bytes += size
        return future

    async def close(self) -> None:
        """Send what has been gathered, and wait until it has an answer."""
        for key in list(self._open):
            self._flush(key)
        try:
            while self._under_way:
                await asyncio.wait(self._under_way)
        finally:
            for task in self._under_way:
                task.cancel()

    async def _linger(self, key: tuple[str, bool], batch: _Batch) -> None:
        await (
            self._clock.sleep(self._settings.linger) if self._settings.linger else asyncio.sleep(0)
        )
        if self._open.get(key) is batch:
            self._flush(key)

    def _flush(self, key: tuple[str, bool]) -> None:
        batch = self._open.pop(key)
        task = asyncio.get_running_loop().create_task(self._send(batch), name="batch")
        self._under_way.add(task)
        task.add_done_callback(partial(self._answered, batch))

    async def _send(self, batch: _Batch) -> SendResult:
        outgoing = batch_of(batch.topic, batch.wait_store_ok, batch.items, batch.ids)
        outgoing.messages = batch.messages
        return await self._deliver(outgoing)

    def _answered(self, batch: _Batch, task: asyncio.Task[SendResult]) -> None:
        self._under_way.discard(task)
        waiting = [future for future in batch.futures if not future.done()]
        if task.cancelled():
            for future in waiting:
                future.cancel()
        elif (error := task.exception()) is not None:
            for future in waiting:
                future.set_exception(error)
        else:
            for future, result in zip(
                batch.futures, each_of(task.result(), batch.ids), strict=True
            ):
                if not future.done():
                    future.set_result(result)


def each_of(result: SendResult, msg_ids: list[str]) -> Iterator[SendResult]:
    """The results of the messages of a batch."""
    offset_ids = result.offset_msg_id.split(",")
    if len(offset_ids) != len(msg_ids):  # a broker that tells only one
        offset_ids = [""] * len(msg_ids)
    known = result.queue_offset >= 0
    for index, (msg_id, offset_id) in enumerate(zip(msg_ids, offset_ids, strict=True)):
        queue_offset = result.queue_offset + index if known else -1
        yield result._replace(msg_id=msg_id, offset_msg_id=offset_id, queue_offset=queue_offset)
