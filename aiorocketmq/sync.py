"""The clients for programs without asyncio: same names, same arguments, no ``await``.

::

    from aiorocketmq.sync import Message, Producer

    with Producer("orders", namesrv="localhost:9876") as producer:
        producer.send(Message("Order", b"..."))

All of them work on one event loop in a background thread, so they may be used from several threads at once. A handler of
``PushConsumer`` is a plain function and runs in a pool of threads. After a fork nothing of this works in the child: make new
clients there; the old ones raise ``ClientStateError``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from .client.admin import Admin as AsyncAdmin
from .client.errors import ClientStateError
from .client.instance import ClientInstance
from .client.options import ClientOptions
from .client.owned_queue import CacheLimits
from .client.producer import Producer as AsyncProducer
from .client.pull_consumer import PullConsumer as AsyncPullConsumer
from .client.push_consumer import PushConsumer as AsyncPushConsumer
from .client.queue_choice import QueueSelector
from .client.rebalance import AllocateStrategy
from .client.sending import SendResult, SendStatus
from .client.start_offset import StartFrom
from .remoting.event_loop import new_event_loop
from .remoting.protocol.message import Message, MessageExt, MessageQueue
from .remoting.signature import Credentials

__all__ = [
    "Admin",
    "Credentials",
    "Message",
    "MessageExt",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SendResult",
    "SendStatus",
    "StartFrom",
]

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_AROUND_S = 0.2
"""How long a wait lasts before the main thread may notice Ctrl-C (Windows cannot interrupt one)."""


class LoopThread:
    """An event loop in a daemon thread of this process."""

    _shared: LoopThread | None = None
    _guard = threading.Lock()

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiorocketmq", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> LoopThread:
        """The one of this process, started on first use."""
        with cls._guard:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    @classmethod
    def forget(cls) -> None:
        """In a forked child: the thread is not there, and the lock may be held by one that is not there either."""
        cls._shared = None
        cls._guard = threading.Lock()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run on the loop; the result comes through the future.

        Raises ``ClientStateError`` in a forked process and in the loop's own thread, where waiting would never end.
        """
        problem = ""
        if self._pid != os.getpid():
            problem = "this client was made before the process forked; make a new one in the child process"
        elif threading.current_thread() is self._thread:
            problem = "a blocking client cannot be used on its own event loop; use the asyncio clients there"
        if problem:
            coroutine.close()
            raise ClientStateError(problem)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the loop and wait for the result; an interrupted wait cancels the coroutine. Raises as ``submit``."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LoopThread.forget)


def _awaited(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The same method of the blocking client: runs the coroutine and waits for it."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._client, *args, **kwargs))  # type: ignore[no-any-return]

    return call


def _called(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The same for a method that is no coroutine: clients belong to their loop's thread, so it is called there."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def on_loop() -> T:
            return method(self._client, *args, **kwargs)

        return self._loop.run(on_loop())  # type: ignore[no-any-return]

    return call


class _Facade:
    """What the clients have in common: a loop, an asyncio client made there, ``with``."""

    _client: Any

    def __init__(self, make: Callable[[], Any]) -> None:
        async def on_loop() -> Any:
            return make()

        self._loop = LoopThread.shared()
        self._client = self._loop.run(on_loop())

    def start(self) -> None:
        """As that of the asyncio client."""
        self._loop.run(self._client.start())

    def stop(self) -> None:
        """As that of the asyncio client."""
        self._loop.run(self._client.stop())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.run(self._client.__aexit__(kind, error, traceback))


class ProducerOptions(ClientOptions, total=False):
    """See ``aiorocketmq.Producer``."""

    instance: ClientInstance | None
    send_timeout: float
    retries: int
    retry_other_broker_on_not_ok: bool
    compress_over: int
    compress_level: int
    max_message_size: int
    topic_queue_nums: int
    template_topic: str


class Producer(_Facade):
    """Sends messages, see ``aiorocketmq.Producer``."""

    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(lambda: AsyncProducer(group, **options))

    send = _awaited(AsyncProducer.send)
    send_oneway = _awaited(AsyncProducer.send_oneway)
    queues = _awaited(AsyncProducer.queues)

    def send_soon(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """``send`` in the background: the result comes through the future, and ``stop`` waits for it."""

        async def on_loop() -> SendResult:
            return await self._client.send_soon(  # type: ignore[no-any-return]
                message, queue=queue, selector=selector, sharding_key=sharding_key, timeout=timeout
            )

        return self._loop.submit(on_loop())


class PushConsumerOptions(ClientOptions, total=False):
    """See ``aiorocketmq.PushConsumer``."""

    instance: ClientInstance | None
    start_from: StartFrom
    start_time: datetime | None
    concurrency: int
    batch_size: int
    pull_batch: int
    max_reconsume_times: int
    cache: CacheLimits
    suspend: float
    commit_interval: float
    drain_timeout: float
    allocate: AllocateStrategy


class PushConsumer(_Facade):
    """Calls a plain function for every message, see ``aiorocketmq.PushConsumer``."""

    def __init__(self, group: str, **options: Unpack[PushConsumerOptions]) -> None:
        super().__init__(lambda: AsyncPushConsumer(group, **options))

    subscribe = _called(AsyncPushConsumer.subscribe)
    unsubscribe = _called(AsyncPushConsumer.unsubscribe)
    on_message = _called(AsyncPushConsumer.on_message)
    on_batch = _called(AsyncPushConsumer.on_batch)
    assignment = _called(AsyncPushConsumer.assignment)

    def run(self) -> None:
        """Start, consume until interrupted (Ctrl-C), stop."""
        with self:
            while True:
                threading.Event().wait(_LOOK_AROUND_S)


class PullConsumerOptions(ClientOptions, total=False):
    """See ``aiorocketmq.PullConsumer``."""

    instance: ClientInstance | None
    auto_commit: bool
    commit_interval: float
    start_from: StartFrom
    start_time: datetime | None
    pull_batch: int
    max_cached: int
    max_cached_bytes: int
    suspend: float
    allocate: AllocateStrategy


class PullConsumer(_Facade):
    """Hands out messages, see ``aiorocketmq.PullConsumer``."""

    def __init__(self, group: str, *topics: str, **options: Unpack[PullConsumerOptions]) -> None:
        super().__init__(lambda: AsyncPullConsumer(group, *topics, **options))

    subscribe = _called(AsyncPullConsumer.subscribe)
    assign = _awaited(AsyncPullConsumer.assign)
    assignment = _called(AsyncPullConsumer.assignment)
    queues = _awaited(AsyncPullConsumer.queues)
    poll = _awaited(AsyncPullConsumer.poll)
    commit = _awaited(AsyncPullConsumer.commit)
    committed = _awaited(AsyncPullConsumer.committed)
    position = _called(AsyncPullConsumer.position)
    seek = _awaited(AsyncPullConsumer.seek)
    seek_to_begin = _awaited(AsyncPullConsumer.seek_to_begin)
    seek_to_end = _awaited(AsyncPullConsumer.seek_to_end)
    offset_for_time = _awaited(AsyncPullConsumer.offset_for_time)
    pause = _called(AsyncPullConsumer.pause)
    resume = _called(AsyncPullConsumer.resume)

    def __iter__(self) -> Iterator[MessageExt]:
        """Messages without end. One counts as done when the next one is asked for."""
        messages: AsyncIterator[MessageExt] = aiter(self._client)
        while (message := self._loop.run(_next(messages))) is not None:
            yield message


async def _next(messages: AsyncIterator[MessageExt]) -> MessageExt | None:
    return await anext(messages, None)


class AdminOptions(ClientOptions, total=False):
    """See ``aiorocketmq.Admin``."""

    instance: ClientInstance | None


class Admin(_Facade):
    """Looks after a cluster, see ``aiorocketmq.Admin``."""

    def __init__(self, **options: Unpack[AdminOptions]) -> None:
        super().__init__(lambda: AsyncAdmin(**options))

    cluster_info = _awaited(AsyncAdmin.cluster_info)
    masters_of = _awaited(AsyncAdmin.masters_of)
    broker_runtime_info = _awaited(AsyncAdmin.broker_runtime_info)
    broker_config = _awaited(AsyncAdmin.broker_config)
    update_broker_config = _awaited(AsyncAdmin.update_broker_config)
    topic_list = _awaited(AsyncAdmin.topic_list)
    topic_route = _awaited(AsyncAdmin.topic_route)
    read_queues = _awaited(AsyncAdmin.read_queues)
    create_topic = _awaited(AsyncAdmin.create_topic)
    delete_topic = _awaited(AsyncAdmin.delete_topic)
    delete_topic_in_broker = _awaited(AsyncAdmin.delete_topic_in_broker)
    delete_topic_in_name_servers = _awaited(AsyncAdmin.delete_topic_in_name_servers)
    topic_stats = _awaited(AsyncAdmin.topic_stats)
    query_topic_consume_by_who = _awaited(AsyncAdmin.query_topic_consume_by_who)
    create_subscription_group = _awaited(AsyncAdmin.create_subscription_group)
    consume_stats = _awaited(AsyncAdmin.consume_stats)
    consumer_connection = _awaited(AsyncAdmin.consumer_connection)
    producer_connection = _awaited(AsyncAdmin.producer_connection)
    consumer_running_info = _awaited(AsyncAdmin.consumer_running_info)
    min_offset = _awaited(AsyncAdmin.min_offset)
    max_offset = _awaited(AsyncAdmin.max_offset)
    search_offset = _awaited(AsyncAdmin.search_offset)
    earliest_store_time = _awaited(AsyncAdmin.earliest_store_time)
    consumer_offset = _awaited(AsyncAdmin.consumer_offset)
    update_consumer_offset = _awaited(AsyncAdmin.update_consumer_offset)
    view_message = _awaited(AsyncAdmin.view_message)
    query_messages = _awaited(AsyncAdmin.query_messages)
    query_by_unique_key = _awaited(AsyncAdmin.query_by_unique_key)
    pull = _awaited(AsyncAdmin.pull)
    get_kv_config = _awaited(AsyncAdmin.get_kv_config)
    kv_list = _awaited(AsyncAdmin.kv_list)
    put_kv_config = _awaited(AsyncAdmin.put_kv_config)
    delete_kv_config = _awaited(AsyncAdmin.delete_kv_config)
    set_order_on_broker = _awaited(AsyncAdmin.set_order_on_broker)
    set_order_on_cluster = _awaited(AsyncAdmin.set_order_on_cluster)
