"""The clients for programs without asyncio: same names, same arguments, no ``await``.

::

    from aiorocketmq.sync import Message, Producer

    with Producer("orders", namesrv="localhost:9876") as producer:
        producer.send(Message("Order", b"..."))

All of them work on one event loop in a background thread, so they may be used from several threads
at once. A handler of ``PushConsumer`` is a plain function and runs in a pool of threads. After a
fork nothing of this works in the child: make new clients there; the old ones raise
``ClientStateError``.

One file, though a long one, for one idea: a line for each method of the asyncio clients.
"""

from __future__ import annotations

import concurrent.futures
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, Unpack

from .client.admin import Admin as AsyncAdmin
from .client.admin.core import AdminOptions
from .client.consumer.options import PullConsumerOptions, PushConsumerOptions
from .client.consumer.pull_consumer import PullConsumer as AsyncPullConsumer
from .client.consumer.push_consumer import PushConsumer as AsyncPushConsumer
from .client.consumer.subscription import Sql
from .client.errors import ConfigError, HalfMessageUnsafe
from .client.offsets.start_offset import StartFrom
from .client.producer.options import ProducerOptions
from .client.producer.producer import Producer as AsyncProducer
from .client.producer.queue_choice import QueueSelector
from .client.producer.sending import SendResult, SendStatus
from .client.producer.transaction import Transaction as AsyncTransaction
from .client.producer.transaction import TransactionProducer as AsyncTransactionProducer
from .client.producer.transaction import (
    TransactionProducerOptions,
    TransactionSendResult,
    TransactionState,
    state_of,
)
from .client.usage_errors import number, queue_problem
from .direct_sends import DirectSends
from .loop_thread import Facade, LoopThread, awaited, called
from .remoting.protocol.bodies.heartbeat import MessageModel
from .remoting.protocol.message.message import Message
from .remoting.protocol.message.message_queue import MessageQueue
from .remoting.protocol.record.decode import MessageExt
from .remoting.signature import Credentials
from .sync_program import current_program, run

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
    "run",
]


class Producer(Facade):
    """Sends messages, see ``aiorocketmq.Producer``."""

    _client: AsyncProducer

    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        self._begin(lambda: AsyncProducer(group, **options))

    def _begin(self, make: Callable[[], AsyncProducer]) -> None:
        Facade.__init__(self, make)
        self._direct = DirectSends(self._client.instance)

    def stop(self) -> None:
        """As that of the asyncio client."""
        try:
            super().stop()
        finally:
            self._direct.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, traceback)
        finally:
            self._direct.close()

    def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """As that of the asyncio client. Most messages are sent by the calling thread itself, see
        ``direct_sends.py``; it also calls the ``selector`` when the topic's queues are known."""
        self._loop.check_caller()
        client, fast_path = self._client, self._client.fast_path
        if fast_path is not None and isinstance(message, Message):
            if selector is not None and queue is None and sharding_key is None:
                queues = fast_path.queues(message.topic)
                if queues is not None:
                    queue, selector = selector(queues, message), None
                    if (why := queue_problem(queue, by_selector=True)) is not None:
                        raise ConfigError(why)
            if selector is None:
                seconds = client.send_timeout if timeout is None else number("timeout", timeout)
                sent = self._direct.send(fast_path, message, sharding_key, queue, seconds)
                if isinstance(sent, SendResult):
                    return sent
                if sent is not None:
                    msg_id, target, failed = sent
                    bound = None if sharding_key is None and queue is None else target
                    return self._loop.run(
                        client.send_again(message, msg_id, bound, timeout, failed)
                    )
        return self._loop.run(
            client.send(
                message, queue=queue, selector=selector, sharding_key=sharding_key, timeout=timeout
            )
        )

    send_oneway: Final = awaited(AsyncProducer.send_oneway)
    queues: Final = awaited(AsyncProducer.queues)
    request: Final = awaited(AsyncProducer.request)
    reply: Final = awaited(AsyncProducer.reply)

    def send_soon(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | int | None = None,
        timeout: float | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """``send`` in the background: the result comes through the future, and ``stop`` waits for
        it."""

        async def on_loop() -> SendResult:
            return await self._client.send_soon(
                message, queue=queue, selector=selector, sharding_key=sharding_key, timeout=timeout
            )

        with current_program().uninterrupted():
            return self._loop.submit(on_loop())


class TransactionProducer(Producer):
    """Sends messages that depend on something local, see ``aiorocketmq.TransactionProducer``."""

    _client: AsyncTransactionProducer

    def __init__(self, group: str, **options: Unpack[TransactionProducerOptions]) -> None:
        self._begin(lambda: AsyncTransactionProducer(group, **options))

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
            self._client.transaction(
                message, queue=queue, selector=selector, sharding_key=sharding_key, timeout=timeout
            ),
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
        state: TransactionState | None = None
        try:
            state = state_of(execute(message))
        finally:
            if state is None:
                self._loop.run(transaction.end(TransactionState.UNKNOWN, sys.exception()))
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
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.run(self._transaction.__aexit__(kind, error, traceback))


class PushConsumer(Facade):
    """Calls a plain function for every message, see ``aiorocketmq.PushConsumer``."""

    def __init__(self, group: str, **options: Unpack[PushConsumerOptions]) -> None:
        super().__init__(lambda: AsyncPushConsumer(group, **options))

    subscribe: Final = called(AsyncPushConsumer.subscribe)
    unsubscribe: Final = called(AsyncPushConsumer.unsubscribe)
    on_message: Final = called(AsyncPushConsumer.on_message)
    on_batch: Final = called(AsyncPushConsumer.on_batch)
    on_value: Final = called(AsyncPushConsumer.on_value)
    assignment: Final = called(AsyncPushConsumer.assignment)
    suspend: Final = called(AsyncPushConsumer.suspend)
    resume: Final = called(AsyncPushConsumer.resume)
    reply: Final = awaited(AsyncPushConsumer.reply)

    def run(self) -> None:
        """Start, consume until SIGTERM or Ctrl-C comes (or the wait is interrupted otherwise),
        stop."""
        self._loop.run_until_signal(self._client.run())


class PullConsumer(Facade):
    """Hands out messages, see ``aiorocketmq.PullConsumer``."""

    def __init__(self, group: str, *topics: str, **options: Unpack[PullConsumerOptions]) -> None:
        super().__init__(lambda: AsyncPullConsumer(group, *topics, **options))

    subscribe: Final = called(AsyncPullConsumer.subscribe)
    unsubscribe: Final = called(AsyncPullConsumer.unsubscribe)
    assign: Final = awaited(AsyncPullConsumer.assign)
    assignment: Final = called(AsyncPullConsumer.assignment)
    queues: Final = awaited(AsyncPullConsumer.queues)
    committed: Final = awaited(AsyncPullConsumer.committed)
    position: Final = called(AsyncPullConsumer.position)
    _mark_done: Final = called(AsyncPullConsumer.mark_done)
    seek: Final = awaited(AsyncPullConsumer.seek)
    seek_to_begin: Final = awaited(AsyncPullConsumer.seek_to_begin)
    seek_to_end: Final = awaited(AsyncPullConsumer.seek_to_end)
    offset_for_time: Final = awaited(AsyncPullConsumer.offset_for_time)
    on_queues_changed: Final = awaited(AsyncPullConsumer.on_queues_changed)
    pause: Final = called(AsyncPullConsumer.pause)
    resume: Final = called(AsyncPullConsumer.resume)

    def poll(self, timeout: float = 5.0, max_messages: int = 32) -> list[MessageExt]:
        """As that of the asyncio client."""
        return self._fetch(lambda: self._client.poll(timeout, max_messages))

    def __iter__(self) -> Iterator[MessageExt]:
        """Messages without end. One counts as done when the next one is asked for."""
        messages: AsyncIterator[MessageExt] = aiter(self._client)
        while found := self._fetch(lambda: _next(messages)):
            yield found[0]

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """As that of the asyncio client."""
        self._loop.run(self._client.commit(offsets))
        if offsets is None:
            current_program().let_go(self)

    def _fetch(self, ask: Callable[[], Coroutine[Any, Any, list[MessageExt]]]) -> list[MessageExt]:
        self._ask()
        messages = self._loop.run(ask(), self._client.take_back)
        if messages:
            current_program().take(self)
        return messages

    def _ask(self) -> None:
        """What was handed out is handled. If the program is to end it ends here."""
        program = current_program()
        if program.told:
            self._mark_done()
        program.let_go(self)
        program.interrupt()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        current_program().let_go(self)
        if kind is None:
            current_program().interrupt()

    def stop(self) -> None:
        """As that of the asyncio client."""
        super().stop()
        current_program().let_go(self)


async def _next(messages: AsyncIterator[MessageExt]) -> list[MessageExt]:
    """Without one at the end."""
    message = await anext(messages, None)
    return [] if message is None else [message]


class Admin(Facade):
    """Looks after a cluster, see ``aiorocketmq.Admin``."""

    def __init__(self, **options: Unpack[AdminOptions]) -> None:
        super().__init__(lambda: AsyncAdmin(**options))

    cluster_info: Final = awaited(AsyncAdmin.cluster_info)
    masters_of: Final = awaited(AsyncAdmin.masters_of)
    broker_runtime_info: Final = awaited(AsyncAdmin.broker_runtime_info)
    broker_config: Final = awaited(AsyncAdmin.broker_config)
    update_broker_config: Final = awaited(AsyncAdmin.update_broker_config)
    topic_list: Final = awaited(AsyncAdmin.topic_list)
    topic_route: Final = awaited(AsyncAdmin.topic_route)
    read_queues: Final = awaited(AsyncAdmin.read_queues)
    create_topic: Final = awaited(AsyncAdmin.create_topic)
    create_topic_on: Final = awaited(AsyncAdmin.create_topic_on)
    delete_topic: Final = awaited(AsyncAdmin.delete_topic)
    delete_topic_in_broker: Final = awaited(AsyncAdmin.delete_topic_in_broker)
    delete_topic_in_name_servers: Final = awaited(AsyncAdmin.delete_topic_in_name_servers)
    topic_stats: Final = awaited(AsyncAdmin.topic_stats)
    query_topic_consume_by_who: Final = awaited(AsyncAdmin.query_topic_consume_by_who)
    create_subscription_group: Final = awaited(AsyncAdmin.create_subscription_group)
    consume_stats: Final = awaited(AsyncAdmin.consume_stats)
    consumer_connection: Final = awaited(AsyncAdmin.consumer_connection)
    producer_connection: Final = awaited(AsyncAdmin.producer_connection)
    consumer_running_info: Final = awaited(AsyncAdmin.consumer_running_info)
    min_offset: Final = awaited(AsyncAdmin.min_offset)
    max_offset: Final = awaited(AsyncAdmin.max_offset)
    search_offset: Final = awaited(AsyncAdmin.search_offset)
    earliest_store_time: Final = awaited(AsyncAdmin.earliest_store_time)
    consumer_offset: Final = awaited(AsyncAdmin.consumer_offset)
    update_consumer_offset: Final = awaited(AsyncAdmin.update_consumer_offset)
    view_message: Final = awaited(AsyncAdmin.view_message)
    query_messages: Final = awaited(AsyncAdmin.query_messages)
    query_by_unique_key: Final = awaited(AsyncAdmin.query_by_unique_key)
    pull: Final = awaited(AsyncAdmin.pull)
    get_kv_config: Final = awaited(AsyncAdmin.get_kv_config)
    kv_list: Final = awaited(AsyncAdmin.kv_list)
    put_kv_config: Final = awaited(AsyncAdmin.put_kv_config)
    delete_kv_config: Final = awaited(AsyncAdmin.delete_kv_config)
    set_order_on_broker: Final = awaited(AsyncAdmin.set_order_on_broker)
    set_order_on_cluster: Final = awaited(AsyncAdmin.set_order_on_cluster)
    lost_brokers: Final = awaited(AsyncAdmin.lost_brokers)
    members: Final = awaited(AsyncAdmin.members)
    broker_stats: Final = awaited(AsyncAdmin.broker_stats)
    broker_consume_stats: Final = awaited(AsyncAdmin.broker_consume_stats)
    producers_of_broker: Final = awaited(AsyncAdmin.producers_of_broker)
    clean_expired_consume_queues: Final = awaited(AsyncAdmin.clean_expired_consume_queues)
    delete_expired_commit_logs: Final = awaited(AsyncAdmin.delete_expired_commit_logs)
    clean_unused_topics: Final = awaited(AsyncAdmin.clean_unused_topics)
    topics_of_cluster: Final = awaited(AsyncAdmin.topics_of_cluster)
    clusters_of_topic: Final = awaited(AsyncAdmin.clusters_of_topic)
    system_topics_of_broker: Final = awaited(AsyncAdmin.system_topics_of_broker)
    topic_configs: Final = awaited(AsyncAdmin.topic_configs)
    topic_config: Final = awaited(AsyncAdmin.topic_config)
    topic_config_on: Final = awaited(AsyncAdmin.topic_config_on)
    first_address_of_topic: Final = awaited(AsyncAdmin.first_address_of_topic)
    order_config: Final = awaited(AsyncAdmin.order_config)
    set_order_config: Final = awaited(AsyncAdmin.set_order_config)
    delete_order_config: Final = awaited(AsyncAdmin.delete_order_config)
    subscription_groups: Final = awaited(AsyncAdmin.subscription_groups)
    delete_subscription_group: Final = awaited(AsyncAdmin.delete_subscription_group)
    consume_directly: Final = awaited(AsyncAdmin.consume_directly)
    consumer_status: Final = awaited(AsyncAdmin.consumer_status)
    consume_time_span: Final = awaited(AsyncAdmin.consume_time_span)
    correction_offsets: Final = awaited(AsyncAdmin.correction_offsets)
    clone_group_offsets: Final = awaited(AsyncAdmin.clone_group_offsets)
    clone_group_offset_in_broker: Final = awaited(AsyncAdmin.clone_group_offset_in_broker)
    reset_offsets: Final = awaited(AsyncAdmin.reset_offsets)
    move_offsets: Final = awaited(AsyncAdmin.move_offsets)
    query_consume_queue: Final = awaited(AsyncAdmin.query_consume_queue)
    message_trace: Final = awaited(AsyncAdmin.message_trace)
    message_tracks: Final = awaited(AsyncAdmin.message_tracks)
    send_again: Final = awaited(AsyncAdmin.send_again)
    resume_check_half_message: Final = awaited(AsyncAdmin.resume_check_half_message)
    name_server_config: Final = awaited(AsyncAdmin.name_server_config)
    update_name_server_config: Final = awaited(AsyncAdmin.update_name_server_config)
    wipe_write_perm: Final = awaited(AsyncAdmin.wipe_write_perm)
    add_write_perm: Final = awaited(AsyncAdmin.add_write_perm)
    create_account: Final = awaited(AsyncAdmin.create_account)
    delete_account: Final = awaited(AsyncAdmin.delete_account)
    acl_version: Final = awaited(AsyncAdmin.acl_version)
    update_global_white_addresses: Final = awaited(AsyncAdmin.update_global_white_addresses)
    raft_member: Final = awaited(AsyncAdmin.raft_member)
    transfer_leader: Final = awaited(AsyncAdmin.transfer_leader)
