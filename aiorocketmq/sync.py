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
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Required, Self, TypeVar, Unpack

from .client.admin import Admin as AsyncAdmin
from .client.consume_hooks import ConsumeHook, FilterHook
from .client.errors import ClientStateError, HalfMessageUnsafe
from .client.instance import ClientInstance
from .client.options import ClientOptions
from .client.owned_queue import CacheLimits
from .client.producer import Producer as AsyncProducer
from .client.producer import ProducerOptions
from .client.pull_consumer import PullConsumer as AsyncPullConsumer
from .client.push_consumer import PushConsumer as AsyncPushConsumer
from .client.queue_choice import QueueSelector
from .client.rebalance import AllocateStrategy
from .client.sending import SendResult, SendStatus
from .client.start_offset import StartFrom
from .client.subscription import Sql
from .client.transaction import Checker, TransactionSendResult, TransactionState
from .client.transaction import Transaction as AsyncTransaction
from .client.transaction import TransactionProducer as AsyncTransactionProducer
from .remoting.event_loop import new_event_loop
from .remoting.protocol.bodies.heartbeat import MessageModel
from .remoting.protocol.message import Message, MessageExt, MessageQueue
from .remoting.signature import Credentials

__all__ = [
    "Admin",
    "Credentials",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SendResult",
    "SendStatus",
    "Sql",
    "StartFrom",
    "Transaction",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionState",
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
        self._check_caller(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _check_caller(self, coroutine: Coroutine[Any, Any, T]) -> None:
        problem = ""
        if self._pid != os.getpid():
            problem = "this client was made before the process forked; make a new one in the child process"
        elif threading.current_thread() is self._thread:
            problem = "a blocking client cannot be used on its own event loop; use the asyncio clients there"
        if problem:
            coroutine.close()
            raise ClientStateError(problem)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the loop and wait for the result; an interrupted wait cancels the coroutine. Raises as ``submit``."""
        self._check_caller(coroutine)
        call = _Call(coroutine)
        self._loop.call_soon_threadsafe(call.begin)
        try:
            call.ended.acquire()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            raise
        return call.result()


class _Call(Generic[T]):
    """A coroutine that a thread waits for. (A ``concurrent.futures.Future`` would do; a bare lock costs less.)"""

    __slots__ = ("_coroutine", "_task", "ended")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self.ended = threading.Lock()
        self.ended.acquire()

    def begin(self) -> None:
        """On the loop."""
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """On the loop, after ``begin``."""
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # somebody may have stopped waiting
        self.ended.release()

    def result(self) -> T:
        """After the end, in any thread."""
        assert self._task is not None
        if self._task.cancelled():
            raise concurrent.futures.CancelledError
        return self._task.result()


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


class Producer(_Facade):
    """Sends messages, see ``aiorocketmq.Producer``."""

    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(lambda: AsyncProducer(group, **options))

    send: Final = _awaited(AsyncProducer.send)
    send_oneway: Final = _awaited(AsyncProducer.send_oneway)
    queues: Final = _awaited(AsyncProducer.queues)
    request: Final = _awaited(AsyncProducer.request)
    reply: Final = _awaited(AsyncProducer.reply)

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


class TransactionProducerOptions(ProducerOptions, total=False):
    """See ``aiorocketmq.TransactionProducer``."""

    checker: Required[Checker]
    check_concurrency: int
    allow_delay: bool


class TransactionProducer(Producer):
    """Sends messages that depend on something local, see ``aiorocketmq.TransactionProducer``."""

    def __init__(self, group: str, **options: Unpack[TransactionProducerOptions]) -> None:
        _Facade.__init__(self, lambda: AsyncTransactionProducer(group, **options))

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> Transaction:
        """``with``: as that of the asyncio client."""
        return Transaction(
            self._loop,
            self._client.transaction(message, queue=queue, selector=selector, sharding_key=sharding_key, timeout=timeout),
        )

    def send_in_transaction(
        self,
        message: Message,
        execute: Callable[[Message], TransactionState],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> TransactionSendResult:
        """As that of the asyncio client; ``execute`` is called in this thread."""
        transaction = self._client.transaction(
            message, queue=queue, selector=selector, sharding_key=sharding_key, timeout=timeout
        )
        try:
            sent = self._loop.run(transaction.begin())
        except HalfMessageUnsafe:
            return TransactionSendResult(transaction.sent, TransactionState.ROLLBACK)
        try:
            state = TransactionState(execute(message))
        except BaseException as error:
            self._loop.run(transaction.end(TransactionState.UNKNOWN, error))
            raise
        self._loop.run(transaction.end(state))
        return TransactionSendResult(sent, state)


class Transaction:
    """One transaction, see ``aiorocketmq.Transaction``."""

    def __init__(self, loop: LoopThread, transaction: AsyncTransaction) -> None:
        self._loop = loop
        self._transaction = transaction
        self.message: Message = transaction.message
        self.rollback: Callable[[], None] = transaction.rollback
        self.leave_unknown: Callable[[], None] = transaction.leave_unknown

    @property
    def state(self) -> TransactionState | None:
        """As that of the asyncio client."""
        return self._transaction.state

    @property
    def sent(self) -> SendResult:
        """As that of the asyncio client."""
        return self._transaction.sent

    @property
    def msg_id(self) -> str:
        """As that of the asyncio client."""
        return self._transaction.msg_id

    def __enter__(self) -> Self:
        self._loop.run(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.run(self._transaction.__aexit__(kind, error, traceback))


class PushConsumerOptions(ClientOptions, total=False):
    """See ``aiorocketmq.PushConsumer``."""

    instance: ClientInstance | None
    start_from: StartFrom
    start_time: datetime | None
    model: MessageModel
    ordered: bool
    concurrency: int
    batch_size: int
    pull_batch: int
    max_reconsume_times: int
    cache: CacheLimits
    suspend: float
    commit_interval: float
    pull_interval: float
    consume_timeout: float
    suspend_queue: float
    drain_timeout: float
    offset_folder: Path | None
    allocate: AllocateStrategy
    trace: bool | str
    hooks: Sequence[ConsumeHook]
    filters: Sequence[FilterHook]


class PushConsumer(_Facade):
    """Calls a plain function for every message, see ``aiorocketmq.PushConsumer``."""

    def __init__(self, group: str, **options: Unpack[PushConsumerOptions]) -> None:
        super().__init__(lambda: AsyncPushConsumer(group, **options))

    subscribe: Final = _called(AsyncPushConsumer.subscribe)
    unsubscribe: Final = _called(AsyncPushConsumer.unsubscribe)
    on_message: Final = _called(AsyncPushConsumer.on_message)
    on_batch: Final = _called(AsyncPushConsumer.on_batch)
    assignment: Final = _called(AsyncPushConsumer.assignment)
    suspend: Final = _called(AsyncPushConsumer.suspend)
    resume: Final = _called(AsyncPushConsumer.resume)
    reply: Final = _awaited(AsyncPushConsumer.reply)

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
    model: MessageModel
    offset_folder: Path | None
    allocate: AllocateStrategy
    trace: bool | str
    filters: Sequence[FilterHook]


class PullConsumer(_Facade):
    """Hands out messages, see ``aiorocketmq.PullConsumer``."""

    def __init__(self, group: str, *topics: str, **options: Unpack[PullConsumerOptions]) -> None:
        super().__init__(lambda: AsyncPullConsumer(group, *topics, **options))

    subscribe: Final = _called(AsyncPullConsumer.subscribe)
    assign: Final = _awaited(AsyncPullConsumer.assign)
    assignment: Final = _called(AsyncPullConsumer.assignment)
    queues: Final = _awaited(AsyncPullConsumer.queues)
    poll: Final = _awaited(AsyncPullConsumer.poll)
    commit: Final = _awaited(AsyncPullConsumer.commit)
    committed: Final = _awaited(AsyncPullConsumer.committed)
    position: Final = _called(AsyncPullConsumer.position)
    seek: Final = _awaited(AsyncPullConsumer.seek)
    seek_to_begin: Final = _awaited(AsyncPullConsumer.seek_to_begin)
    seek_to_end: Final = _awaited(AsyncPullConsumer.seek_to_end)
    offset_for_time: Final = _awaited(AsyncPullConsumer.offset_for_time)
    on_queues_changed: Final = _awaited(AsyncPullConsumer.on_queues_changed)
    pause: Final = _called(AsyncPullConsumer.pause)
    resume: Final = _called(AsyncPullConsumer.resume)

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

    cluster_info: Final = _awaited(AsyncAdmin.cluster_info)
    masters_of: Final = _awaited(AsyncAdmin.masters_of)
    broker_runtime_info: Final = _awaited(AsyncAdmin.broker_runtime_info)
    broker_config: Final = _awaited(AsyncAdmin.broker_config)
    update_broker_config: Final = _awaited(AsyncAdmin.update_broker_config)
    topic_list: Final = _awaited(AsyncAdmin.topic_list)
    topic_route: Final = _awaited(AsyncAdmin.topic_route)
    read_queues: Final = _awaited(AsyncAdmin.read_queues)
    create_topic: Final = _awaited(AsyncAdmin.create_topic)
    delete_topic: Final = _awaited(AsyncAdmin.delete_topic)
    delete_topic_in_broker: Final = _awaited(AsyncAdmin.delete_topic_in_broker)
    delete_topic_in_name_servers: Final = _awaited(AsyncAdmin.delete_topic_in_name_servers)
    topic_stats: Final = _awaited(AsyncAdmin.topic_stats)
    query_topic_consume_by_who: Final = _awaited(AsyncAdmin.query_topic_consume_by_who)
    create_subscription_group: Final = _awaited(AsyncAdmin.create_subscription_group)
    consume_stats: Final = _awaited(AsyncAdmin.consume_stats)
    consumer_connection: Final = _awaited(AsyncAdmin.consumer_connection)
    producer_connection: Final = _awaited(AsyncAdmin.producer_connection)
    consumer_running_info: Final = _awaited(AsyncAdmin.consumer_running_info)
    min_offset: Final = _awaited(AsyncAdmin.min_offset)
    max_offset: Final = _awaited(AsyncAdmin.max_offset)
    search_offset: Final = _awaited(AsyncAdmin.search_offset)
    earliest_store_time: Final = _awaited(AsyncAdmin.earliest_store_time)
    consumer_offset: Final = _awaited(AsyncAdmin.consumer_offset)
    update_consumer_offset: Final = _awaited(AsyncAdmin.update_consumer_offset)
    view_message: Final = _awaited(AsyncAdmin.view_message)
    query_messages: Final = _awaited(AsyncAdmin.query_messages)
    query_by_unique_key: Final = _awaited(AsyncAdmin.query_by_unique_key)
    pull: Final = _awaited(AsyncAdmin.pull)
    get_kv_config: Final = _awaited(AsyncAdmin.get_kv_config)
    kv_list: Final = _awaited(AsyncAdmin.kv_list)
    put_kv_config: Final = _awaited(AsyncAdmin.put_kv_config)
    delete_kv_config: Final = _awaited(AsyncAdmin.delete_kv_config)
    set_order_on_broker: Final = _awaited(AsyncAdmin.set_order_on_broker)
    set_order_on_cluster: Final = _awaited(AsyncAdmin.set_order_on_cluster)
    members: Final = _awaited(AsyncAdmin.members)
    broker_stats: Final = _awaited(AsyncAdmin.broker_stats)
    broker_consume_stats: Final = _awaited(AsyncAdmin.broker_consume_stats)
    producers_of_broker: Final = _awaited(AsyncAdmin.producers_of_broker)
    clean_expired_consume_queues: Final = _awaited(AsyncAdmin.clean_expired_consume_queues)
    delete_expired_commit_logs: Final = _awaited(AsyncAdmin.delete_expired_commit_logs)
    clean_unused_topics: Final = _awaited(AsyncAdmin.clean_unused_topics)
    topics_of_cluster: Final = _awaited(AsyncAdmin.topics_of_cluster)
    clusters_of_topic: Final = _awaited(AsyncAdmin.clusters_of_topic)
    system_topics_of_broker: Final = _awaited(AsyncAdmin.system_topics_of_broker)
    topic_configs: Final = _awaited(AsyncAdmin.topic_configs)
    topic_config_on: Final = _awaited(AsyncAdmin.topic_config_on)
    first_address_of_topic: Final = _awaited(AsyncAdmin.first_address_of_topic)
    order_config: Final = _awaited(AsyncAdmin.order_config)
    set_order_config: Final = _awaited(AsyncAdmin.set_order_config)
    delete_order_config: Final = _awaited(AsyncAdmin.delete_order_config)
    subscription_groups: Final = _awaited(AsyncAdmin.subscription_groups)
    delete_subscription_group: Final = _awaited(AsyncAdmin.delete_subscription_group)
    consume_directly: Final = _awaited(AsyncAdmin.consume_directly)
    consumer_status: Final = _awaited(AsyncAdmin.consumer_status)
    consume_time_span: Final = _awaited(AsyncAdmin.consume_time_span)
    correction_offsets: Final = _awaited(AsyncAdmin.correction_offsets)
    clone_group_offsets: Final = _awaited(AsyncAdmin.clone_group_offsets)
    clone_group_offset_in_broker: Final = _awaited(AsyncAdmin.clone_group_offset_in_broker)
    reset_offsets: Final = _awaited(AsyncAdmin.reset_offsets)
    move_offsets: Final = _awaited(AsyncAdmin.move_offsets)
    query_consume_queue: Final = _awaited(AsyncAdmin.query_consume_queue)
    message_trace: Final = _awaited(AsyncAdmin.message_trace)
    message_tracks: Final = _awaited(AsyncAdmin.message_tracks)
    send_again: Final = _awaited(AsyncAdmin.send_again)
    resume_check_half_message: Final = _awaited(AsyncAdmin.resume_check_half_message)
    name_server_config: Final = _awaited(AsyncAdmin.name_server_config)
    update_name_server_config: Final = _awaited(AsyncAdmin.update_name_server_config)
    wipe_write_perm: Final = _awaited(AsyncAdmin.wipe_write_perm)
    add_write_perm: Final = _awaited(AsyncAdmin.add_write_perm)
    create_account: Final = _awaited(AsyncAdmin.create_account)
    delete_account: Final = _awaited(AsyncAdmin.delete_account)
    acl_version: Final = _awaited(AsyncAdmin.acl_version)
    update_global_white_addresses: Final = _awaited(AsyncAdmin.update_global_white_addresses)
