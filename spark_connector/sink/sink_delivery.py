"""Bringing chunks to brokers: many under way at once, retried, each one acknowledged (spark.md
§5.6).

``Deliverer`` lives on the event loop; ``Outbox`` is the side of a task's thread, which encodes rows
meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from ...client.cluster.instance import ClientInstance
from ...client.errors import MessageError, NoRouteError
from ...client.namespaces import with_namespace
from ...client.producer.delivery import Delivery, DeliverySettings
from ...client.producer.sending import Outgoing, SendStatus
from ...remoting.errors import BrokerError, RemotingError, RocketMQError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.frames.frame import FrameError
from ...remoting.protocol.message.compression import compress_body
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from .chunks import Chunk
from .sink_options import SinkOptions
from .waiting import Patience

__all__ = [
    "Deliverer",
    "NotSafe",
    "Outbox",
    "TooLongError",
    "Totals",
    "new_deliverer",
    "told_what_to_do",
]

log: Final = logging.getLogger(__name__)

_BATCH_PROPERTIES: Final = "WAIT\x01true"
_COMPRESS_LEVEL: Final = 5
_ATTEMPTS: Final = 3
"""Brokers asked one after the other, before there is a pause."""


class NotSafe(RocketMQError):
    """A broker stored rows, but not as safely as it was told to (its slave or its disk did not
    follow in time)."""

    def __init__(self, topic: str, status: SendStatus) -> None:
        super().__init__(
            f"a broker took rows for {topic} with {status.name}: stored, but not as safely as it "
            "is configured; "
            "requireSendOk=false takes that as success"
        )


class TooLongError(MessageError):
    """What no broker of the topic takes, however often it is sent."""


@contextmanager
def told_what_to_do(chunk: Chunk) -> Iterator[None]:
    """A broker says neither which message was too long nor how long it was."""
    try:
        yield
    except (BrokerError, FrameError) as error:
        if isinstance(error, BrokerError) and error.code != ResponseCode.MESSAGE_ILLEGAL:
            raise
        what = "a row" if chunk.rows == 1 else f"a frame of {chunk.rows} rows"
        raise TooLongError(
            f"{what} for the topic {chunk.topic}, {len(chunk.body)} bytes, was refused: "
            f"{str(error).rstrip('.')}. "
            "Where that is too long: raise maxMessageSize of the brokers, let long bodies be "
            "compressed (option compressThreshold), or leave them out (length(body))"
        ) from None


class Totals(NamedTuple):
    """What a task has written."""

    rows: int = 0
    frames: int = 0


class Deliverer:
    """Sends chunks for one producer group through a running ``ClientInstance``."""

    def __init__(self, instance: ClientInstance, options: SinkOptions) -> None:
        self._instance = instance
        self._options = options
        group = with_namespace(options.group, instance.namespace)
        self._delivery = Delivery(
            instance,
            group,
            DeliverySettings(attempts=_ATTEMPTS, retry_not_ok=options.require_send_ok, waits=False),
        )
        self.patience: Patience = Patience(
            instance, options.delivery_timeout_s, options.retries, _repeated(options)
        )
        self._in_order: dict[MessageQueue, asyncio.Lock] = {}
        self._broken: dict[MessageQueue, BaseException] = {}

    async def queues(
        self, topic: str, brokers: frozenset[str] = frozenset()
    ) -> tuple[MessageQueue, ...]:
        """Where rows of this topic can go, ``brokers`` included. Raises as ``deliver`` does."""
        own = with_namespace(topic, self._instance.namespace)

        async def found(_left_s: float) -> tuple[MessageQueue, ...]:
            await self._look_again(own)
            queues = await self._delivery.publish_queues(own)
            if missing := brokers - {queue.broker_name for queue in queues}:
                there = ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in queues)
                names = " and ".join(sorted(missing))
                raise NoRouteError(f"{topic} has no queue on {names} at present; it has {there}")
            return queues

        whom = f"the broker {' and '.join(sorted(brokers))}" if brokers else _any_broker(own)
        return await self.patience.until_done(own, whom, found)

    async def _look_again(self, topic: str) -> None:
        """What this process knows of a topic may be from a task half a minute ago: keys would go to
        queues of a broker that is away since, and to others than in the next process."""
        if self._instance.routes.cached(topic) is None:
            return
        try:
            await self._instance.routes.refresh(topic)
        except (RemotingError, BrokerError) as error:
            log.info("the route of %s stays as it was: %s", topic, error)

    async def deliver(self, chunk: Chunk) -> None:
        """Return when a broker has acknowledged it. What is bound to a queue goes there one after
        the other, and nothing does behind a chunk that failed: that is sent again, behind it.

        Raises ``DeliveryTimeoutError``, or when ``retries`` are used up what failed last,
        ``BrokerError`` for a refusal that would be the same again, ``NotSafe``, ``TooLongError``,
        and what the chunk before it did. Rows of a failed chunk may be stored all the same.
        """
        if chunk.queue is None:
            return await self._deliver(chunk)
        async with self._in_order.setdefault(chunk.queue, asyncio.Lock()):
            if (before := self._broken.get(chunk.queue)) is not None:
                raise before
            try:
                await self._deliver(chunk)
            except BaseException as error:  # also where it was cancelled
                self._broken[chunk.queue] = error
                raise

    async def _deliver(self, chunk: Chunk) -> None:
        outgoing = await self.outgoing(chunk)
        with told_what_to_do(chunk):
            await self._send(outgoing, chunk.queue)

    async def _send(self, outgoing: Outgoing, queue: MessageQueue | None) -> None:
        timeout_s = self._options.send_timeout_s
        whom = _any_broker(outgoing.topic) if queue is None else f"the broker {queue.broker_name}"
        result = await self.patience.until_done(
            outgoing.topic,
            whom,
            lambda left_s: self._delivery.deliver(outgoing, queue, min(timeout_s, left_s)),
        )
        if self._options.require_send_ok and result.status is not SendStatus.SEND_OK:
            raise NotSafe(outgoing.topic, result.status)

    async def outgoing(self, chunk: Chunk) -> Outgoing:
        """A chunk as a producer sends it."""
        topic = with_namespace(chunk.topic, self._instance.namespace)
        if chunk.properties is None:
            return Outgoing(
                topic, RequestCode.SEND_BATCH_MESSAGE, chunk.body, _BATCH_PROPERTIES, ""
            )
        if chunk.compress:
            kind = MessageSysFlag.COMPRESSION_ZLIB
            # In a thread, and not copied before: that would hold the loop up for long bodies.
            body = await asyncio.to_thread(compress_body, chunk.body, kind, _COMPRESS_LEVEL)
            sys_flag = MessageSysFlag.COMPRESSED | kind
        else:
            body, sys_flag = bytes(chunk.body), 0
        code = RequestCode.SEND_MESSAGE_V2
        return Outgoing(topic, code, body, chunk.properties, "", chunk.flag, sys_flag)


def _repeated(options: SinkOptions) -> str:
    if options.exactly_once:
        return "what a query, or a write with a writeId, has stored it does not store again"
    if options.dedup:
        return "rows that are there twice then have the same SPARK_DEDUP_ID"
    return "rows may be there twice then"


def _any_broker(topic: str) -> str:
    return f"a broker of {topic}"


_known_groups: Final[WeakKeyDictionary[ClientInstance, set[str]]] = WeakKeyDictionary()


async def new_deliverer(instance: ClientInstance, options: SinkOptions) -> Deliverer:
    """For one task. Heartbeats tell brokers of the group from the first task of this process on."""
    known, group = (
        _known_groups.setdefault(instance, set()),
        with_namespace(options.group, instance.namespace),
    )
    if group not in known:
        instance.register_producer(group)
        known.add(group)
    return Deliverer(instance, options)


_CANCELLED: Final = RocketMQError(
    "sending was cancelled before a broker had acknowledged all rows: the process ends, or closed "
    "its client"
)
"""A task that gave up itself does not hear of it."""


class HasRows(Protocol):
    """What an outbox counts."""

    @property
    def rows(self) -> int: ...


C = TypeVar("C", bound=HasRows)


class Outbox(Generic[C]):
    """The chunks of one task on their way. ``put`` waits while ``most`` are under way, ``finish``
    until none is."""

    def __init__(
        self,
        submit: Callable[[Coroutine[Any, Any, None]], Future[None]],
        deliver: Callable[[C], Coroutine[Any, Any, None]],
        most: int,
    ) -> None:
        """``submit`` runs a coroutine on the loop."""
        self._submit = submit
        self._deliver = deliver
        self._slots = threading.BoundedSemaphore(most)
        self._most = most
        self._under_way: set[Future[None]] = set()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self.totals: Totals = Totals()

    def put(self, chunk: C) -> None:
        """Raises what failed of the chunks before."""
        self._slots.acquire()
        if self._failure is not None:
            self._slots.release()
            raise self._failure
        future = self._submit(self._deliver(chunk))
        with self._lock:
            self._under_way.add(future)
        future.add_done_callback(self._done)
        self.totals = Totals(self.totals.rows + chunk.rows, self.totals.frames + 1)

    def finish(self) -> Totals:
        """Wait until everything is acknowledged. Raises the first failure."""
        for _ in range(self._most):
            self._slots.acquire()
        if self._failure is not None:
            raise self._failure
        return self.totals

    def give_up(self) -> None:
        """Cancel what is under way."""
        with self._lock:
            left = list(self._under_way)
        for future in left:
            future.cancel()

    def _done(self, future: Future[None]) -> None:
        with self._lock:
            self._under_way.discard(future)
        error = _CANCELLED if future.cancelled() else future.exception()
        if error is not None and self._failure is None:
            self._failure = error
        self._slots.release()
