"""A program that uses the whole of the public API. It is never run: mypy --strict reads it as a
user's program, and ``test_whole_api.py`` sees that nothing is left out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_type

import aiorocketmq
from aiorocketmq import (
    Accumulate,
    Admin,
    Attempt,
    BrokerError,
    CacheLimits,
    ClientInstance,
    ClientStateError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    ConsumeContext,
    ConsumeHook,
    ConsumeOutcome,
    ConsumerNotOnline,
    Credentials,
    DeserializationError,
    ExpressionRefused,
    HalfMessageUnsafe,
    IdempotenceNotSupported,
    JsonSerializer,
    LocalCluster,
    Message,
    MessageError,
    MessageExt,
    MessageModel,
    MessageQueue,
    MsgpackSerializer,
    NoPermission,
    NoRouteError,
    Producer,
    PullConsumer,
    PushConsumer,
    RemotingError,
    ReplyTimeout,
    RequestTimeout,
    RetryLater,
    RocketMQError,
    SendContext,
    SendFailed,
    SendHook,
    SendResult,
    SendStatus,
    SendTimedOut,
    SequenceError,
    SequenceFenced,
    SequenceGap,
    SequencesFull,
    SequenceUnknown,
    SerializationError,
    Serializer,
    Sql,
    StartFrom,
    SuspendQueue,
    SystemBusy,
    TopicNotExist,
    Transaction,
    TransactionProducer,
    TransactionSendResult,
    TransactionState,
    run,
    split,
    sync,
)
from aiorocketmq.client.consumer.rebalance import averagely, by_circle, consistent_hash
from aiorocketmq.client.openmessaging import (
    BytesMessage,
    KeyValue,
    MessageContext,
    MessagingAccessPoint,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig


@dataclass
class Order:
    number: int


ORDERS: Serializer[Order] = JsonSerializer(Order)
PACKED = MsgpackSerializer(list[Order])
assert_type(PACKED, MsgpackSerializer[list[Order]])
VALUE = PACKED.message("Order", [Order(1)], tags="new", keys=["1"], properties={"own": "1"})
MESSAGE = Message(
    "Order", b"a book", tags="new", keys=["4711"], delay_level=3, flag=1, properties={"own": "1"}
)
NAMESRV: Sequence[str] = ("a:9876", "b:9876")


class Looks:
    """A hook of all kinds."""

    def before_send(self, context: SendContext) -> None:
        assert_type(context.queue, MessageQueue)

    def after_send(self, context: SendContext) -> None:
        assert_type(context.result, SendResult | None)

    def before_consume(self, context: ConsumeContext) -> None:
        assert_type(context.seconds, float)

    def after_consume(self, context: ConsumeContext) -> None:
        assert_type(context.outcome, ConsumeOutcome | None)


send_hook: SendHook = Looks()
consume_hook: ConsumeHook = Looks()


def refuse(context: SendContext) -> None:
    if context.body_size > 1000:
        raise ValueError("too big")


def choose(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    return queues[len(message.body) % len(queues)]


async def produce(tls: ssl.SSLContext) -> None:
    producer = Producer(
        "shop", namesrv=NAMESRV, address_server=None, credentials=Credentials("key", "secret"),
        tls=tls,
        client_ip="10.0.0.1", instance_name="me", unit_name="unit", namespace="north",
        access_channel="CLOUD",
        vip_channel=True, request_timeout=3.0, heartbeat_interval=30.0, route_interval=30.0,
        send_timeout=3.0, retries=2,
        retry_other_broker_on_not_ok=True,
        compress_over=4096, compress_level=5, compression="zstd", max_message_size=1 << 20,
        topic_queue_nums=4,
        template_topic="TBW102", retry_codes=[2], latency_fault=True, trace="Trace",
        hooks=[send_hook], checks=[refuse],
        accumulate=Accumulate(max_bytes=1000, linger=0.01),
    )  # fmt: skip
    async with producer:
        result = await producer.send(MESSAGE, timeout=1.0)
        assert_type(result, SendResult)
        assert_type(result.status, SendStatus)
        assert_type(result.queue, MessageQueue)
        print(
            result.msg_id,
            result.offset_msg_id,
            result.queue_offset,
            result.transaction_id,
            result.region_id,
            result.trace_on,
        )
        for part in split([MESSAGE, MESSAGE], 1000):
            await producer.send(part, queue=result.queue)
        await producer.send(MESSAGE, selector=choose)
        await producer.send(MESSAGE, sharding_key=4711)
        assert_type(producer.send_soon(MESSAGE), asyncio.Task[SendResult])
        await producer.send_oneway(MESSAGE)
        assert_type(await producer.request(MESSAGE, timeout=3.0), MessageExt)
        assert_type(await producer.queues("Order"), tuple[MessageQueue, ...])


async def produce_once() -> None:
    async with Producer("shop", namesrv=NAMESRV, idempotent=True) as producer:
        assert_type((await producer.send(MESSAGE)).repeated, bool)


async def answer(producer: Producer, consumer: PushConsumer, message: MessageExt) -> None:
    assert_type(
        await producer.reply(message, b"yes", properties={"a": "b"}, timeout=3.0), SendResult
    )
    assert_type(await consumer.reply(message, b"yes"), SendResult)
    assert_type(message.body, bytes)
    assert_type(message.keys, tuple[str, ...])
    assert_type(message.properties, dict[str, str])
    print(
        message.topic,
        message.tags,
        message.msg_id,
        message.queue,
        message.queue_offset,
        message.reconsume_times,
    )
    print(
        message.born_timestamp,
        message.store_timestamp,
        message.born_host,
        message.store_host,
        message.user_properties,
    )


async def transact() -> None:
    async def check(message: MessageExt) -> TransactionState:
        return TransactionState.COMMIT if message.keys else TransactionState.UNKNOWN

    async def sell(message: Message) -> TransactionState:
        return TransactionState.ROLLBACK if message.delay_level else TransactionState.COMMIT

    async with TransactionProducer(
        "till", checker=check, check_concurrency=4, allow_delay=True, instance=None
    ) as producer:
        async with producer.transaction(MESSAGE, sharding_key="s") as transaction:
            assert_type(transaction, Transaction)
            print(transaction.msg_id, transaction.sent.queue, transaction.state)
            transaction.rollback()
            transaction.leave_unknown()
        by_hand = producer.transaction(MESSAGE)
        await by_hand.begin()
        await by_hand.end(TransactionState.COMMIT)
        result = await producer.send_in_transaction(MESSAGE, sell)
        assert_type(result, TransactionSendResult)
        assert_type(result.state, TransactionState)
        assert_type(result.sent, SendResult)


async def consume() -> None:
    consumer = PushConsumer(
        "billing", namesrv="a:9876", start_from=StartFrom.TIMESTAMP, start_time=datetime.now(UTC),
        model=MessageModel.CLUSTERING, ordered=True, concurrency=4, batch_size=8, pull_batch=32,
        max_reconsume_times=3,
        cache=CacheLimits(messages=100, size_bytes=1 << 20, span=100, total_messages=1000),
        suspend=15.0,
        commit_interval=5.0, pull_interval=0.1, post_subscription=True, consume_timeout=60.0,
        suspend_queue=1.0,
        stop_timeout=3.0, offset_folder=Path("offsets"), allocate=averagely, trace=True,
        hooks=[consume_hook],
        filters=[lambda messages: messages[:1]],
    )  # fmt: skip
    consumer.subscribe("Order", "new || changed")
    consumer.subscribe("Parcel", Sql("weight > 3"))
    consumer.unsubscribe("Parcel")

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        if message.body:
            raise RetryLater(3)
        raise SuspendQueue(0.1)

    assert_type(await handle(MessageExt.__new__(MessageExt)), None)

    @consumer.on_batch
    def handle_all(messages: list[MessageExt]) -> None:
        print(len(messages))

    handle_all([])

    @consumer.on_value(ORDERS)
    async def handle_value(order: Order, message: MessageExt) -> None:
        assert_type(order, Order)
        assert_type(ORDERS.value(message), Order)
        assert_type(JsonSerializer().value(message), Any)

    ORDERS.handler(handle_value)
    async with consumer:
        consumer.suspend()
        consumer.resume()
        assert_type(consumer.assignment(), frozenset[MessageQueue])
        assert_type(consumer.damaged_messages, int)
    await consumer.run()


async def ask() -> None:
    consumer = PullConsumer(
        "audit", "Order", "Parcel", namesrv="a:9876", auto_commit=False, commit_interval=5.0,
        start_from=StartFrom.FIRST,
        start_time=None, pull_batch=32, max_cached=100, max_cached_bytes=1 << 20,
        max_cached_total=1000, suspend=20.0,
        model=MessageModel.BROADCASTING, offset_folder=None, allocate=by_circle, trace=False,
        filters=(),
    )  # fmt: skip
    consumer.subscribe("Other", "*")
    await consumer.start()
    queues = await consumer.queues("Order")
    await consumer.on_queues_changed("Order", lambda queues: print(len(queues)))
    await consumer.assign(queues)
    assert_type(consumer.assignment(), frozenset[MessageQueue])
    assert_type(consumer.damaged_messages, int)
    consumer.hold()
    consumer.mark_done()
    assert_type(consumer.in_hand, bool)
    messages = assert_type(await consumer.poll(5.0, 32), list[MessageExt])
    consumer.take_back(messages)
    async for message in consumer:
        assert_type(message, MessageExt)
    await consumer.commit()
    await consumer.commit({queues[0]: 5})
    assert_type(await consumer.committed(queues[0]), int | None)
    assert_type(consumer.position(queues[0]), int)
    await consumer.seek(queues[0], await consumer.offset_for_time(queues[0], datetime.now(UTC)))
    await consumer.seek_to_begin()
    await consumer.seek_to_end(*queues)
    consumer.pause(*queues)
    consumer.resume(*queues)
    await consumer.stop()


async def share() -> None:
    async with (
        ClientInstance(namesrv="a:9876") as instance,
        Producer("a", instance=instance),
        PullConsumer("b", instance=instance, allocate=consistent_hash),
        LocalCluster() as cluster,
    ):
        await cluster.create_topic("Order", queue_nums=4)
        print(
            cluster.namesrv_address,
            cluster.broker_address,
            cluster.data_dir,
            instance.client_id,
            instance.running,
        )


async def look_after(admin: Admin) -> list[Callable[..., Awaitable[object]]]:
    async with admin:
        await admin.create_topic_on(
            "a:10911", TopicConfig(topic_name="Order", read_queue_nums=4, write_queue_nums=4)
        )
        print(admin.name_server_addresses)
    return [
        admin.acl_version,
        admin.add_write_perm,
        admin.broker_config,
        admin.broker_consume_stats,
        admin.broker_runtime_info,
        admin.broker_stats,
        admin.clean_expired_consume_queues,
        admin.clean_unused_topics,
        admin.clone_group_offset_in_broker,
        admin.clone_group_offsets,
        admin.cluster_info,
        admin.clusters_of_topic,
        admin.consume_directly,
        admin.consume_stats,
        admin.consume_time_span,
        admin.consumer_connection,
        admin.consumer_offset,
        admin.consumer_running_info,
        admin.consumer_status,
        admin.correction_offsets,
        admin.create_account,
        admin.create_subscription_group,
        admin.create_topic,
        admin.create_topic_on,
        admin.delete_account,
        admin.delete_expired_commit_logs,
        admin.delete_kv_config,
        admin.delete_order_config,
        admin.delete_subscription_group,
        admin.delete_topic,
        admin.delete_topic_in_broker,
        admin.delete_topic_in_name_servers,
        admin.earliest_store_time,
        admin.first_address_of_topic,
        admin.get_kv_config,
        admin.kv_list,
        admin.lost_brokers,
        admin.masters_of,
        admin.max_offset,
        admin.members,
        admin.message_trace,
        admin.message_tracks,
        admin.min_offset,
        admin.move_offsets,
        admin.name_server_config,
        admin.order_config,
        admin.producer_connection,
        admin.producers_of_broker,
        admin.pull,
        admin.put_kv_config,
        admin.query_by_unique_key,
        admin.query_consume_queue,
        admin.query_messages,
        admin.query_topic_consume_by_who,
        admin.raft_member,
        admin.read_queues,
        admin.reset_offsets,
        admin.resume_check_half_message,
        admin.search_offset,
        admin.send_again,
        admin.set_order_config,
        admin.set_order_on_broker,
        admin.set_order_on_cluster,
        admin.subscription_groups,
        admin.system_topics_of_broker,
        admin.topic_config_on,
        admin.topic_configs,
        admin.topic_config,
        admin.topic_list,
        admin.topic_route,
        admin.topic_stats,
        admin.topics_of_cluster,
        admin.transfer_leader,
        admin.update_broker_config,
        admin.update_consumer_offset,
        admin.update_global_white_addresses,
        admin.update_name_server_config,
        admin.view_message,
        admin.wipe_write_perm,
    ]


def handle_errors(error: RocketMQError) -> str:
    match error:
        case SequenceUnknown() | SequenceGap() | SequenceFenced() | SequencesFull():
            assert_type(error.in_doubt, bool)
            return "again" if not error.in_doubt else "look into the queue"
        case SequenceError() | IdempotenceNotSupported():
            return error.advice
        case SendTimedOut() | SendFailed():
            assert_type(error.attempts, tuple[Attempt, ...])
            return ", ".join(
                f"{attempt.broker_name} {attempt.address} {attempt.seconds}"
                for attempt in error.attempts
            )
        case HalfMessageUnsafe():
            return error.status
        case (
            SystemBusy()
            | TopicNotExist()
            | NoPermission()
            | ConsumerNotOnline()
            | ExpressionRefused()
            | BrokerError()
        ):
            return f"{error.code} {error.remark} {error.address}"
        case (
            ConnectError()
            | ConnectionLostError()
            | RequestTimeout()
            | RemotingError()
            | NoRouteError()
            | ReplyTimeout()
        ):
            return "the network"
        case ClientStateError() | ConfigError() | MessageError():
            return "the program"
        case DeserializationError():
            assert_type(error.message, MessageExt)
            return error.msg_id
        case SerializationError():
            return error.topic
        case _:
            return aiorocketmq.__version__


async def open_messaging() -> None:
    async def listen(message: BytesMessage, context: MessageContext) -> None:
        print(message.headers["Topic"], message.body)
        context.ack()

    async with MessagingAccessPoint("openmessaging:rocketmq://a:9876,b:9876/space") as point:
        producer = await point.started(point.create_producer())
        message = producer.create_bytes_message_to_topic("Order", b"a book")
        await producer.send(message)
        await producer.send_async(message)
        await producer.send_oneway(message)
        sequence = await point.started(point.create_sequence_producer())
        sequence.gather(message)
        await sequence.commit()
        sequence.rollback()
        puller = await point.started(
            point.create_pull_consumer("Order", {"rmq.consumer.group": "g"})
        )
        polled = await puller.poll()
        if polled is not None:
            await puller.ack(polled.headers["MessageId"])
        pusher = point.create_push_consumer({"rmq.consumer.group": "h"})
        pusher.attach_queue("Order", listen)
        await point.started(pusher)
        print(KeyValue({"a": "1"}).get_int("a"))


def without_asyncio() -> None:
    with sync.Producer("shop", namesrv="a:9876", send_timeout=1.0) as producer:
        assert_type(producer.send(MESSAGE, sharding_key="k", timeout=1.0), SendResult)
        assert_type(producer.send_soon(MESSAGE).result(), SendResult)
        producer.send_oneway(MESSAGE)
        assert_type(producer.queues("Order"), tuple[MessageQueue, ...])
        message = producer.request(MESSAGE, timeout=3.0)
        producer.reply(message, b"yes")
    with sync.TransactionProducer("till", checker=lambda message: TransactionState.COMMIT) as till:
        with till.transaction(MESSAGE) as transaction:
            print(transaction.sent, transaction.state, transaction.msg_id)
            transaction.rollback()
            transaction.leave_unknown()
        assert_type(
            till.send_in_transaction(MESSAGE, lambda message: TransactionState.COMMIT),
            TransactionSendResult,
        )
    pusher = sync.PushConsumer("billing", namesrv="a:9876")
    pusher.subscribe("Order", "*")
    pusher.on_message(lambda message: print(message.body))
    pusher.on_batch(lambda messages: print(len(messages)))
    pusher.on_value(ORDERS)(lambda order, message: print(order.number, message.keys))
    pusher.unsubscribe("Order")
    with pusher:
        pusher.suspend()
        pusher.resume()
        print(pusher.assignment())
        pusher.reply(message, b"yes")
    pusher.run()
    with sync.PullConsumer("audit", "Order", namesrv="a:9876") as puller:
        for received in puller:
            assert_type(received, MessageExt)
        assert_type(puller.poll(), list[MessageExt])
        queues = puller.queues("Order")
        puller.subscribe("Other")
        puller.assign(queues)
        puller.on_queues_changed("Order", lambda queues: print(len(queues)))
        print(puller.assignment(), puller.committed(queues[0]), puller.position(queues[0]))
        puller.commit()
        puller.seek(queues[0], puller.offset_for_time(queues[0], datetime.now(UTC)))
        puller.seek_to_begin()
        puller.seek_to_end()
        puller.pause(queues[0])
        puller.resume(queues[0])
    assert_type(sync.run(lambda: 1, stop_timeout=10.0), int | None)


async def one() -> int:
    return 1


def programs() -> None:
    assert_type(run(one(), stop_timeout=10.0), int | None)


def look_after_without_asyncio() -> list[Callable[..., object]]:
    admin = sync.Admin(namesrv="a:9876")
    admin.start()
    admin.stop()
    return [
        admin.acl_version,
        admin.add_write_perm,
        admin.broker_config,
        admin.broker_consume_stats,
        admin.broker_runtime_info,
        admin.broker_stats,
        admin.clean_expired_consume_queues,
        admin.clean_unused_topics,
        admin.clone_group_offset_in_broker,
        admin.clone_group_offsets,
        admin.cluster_info,
        admin.clusters_of_topic,
        admin.consume_directly,
        admin.consume_stats,
        admin.consume_time_span,
        admin.consumer_connection,
        admin.consumer_offset,
        admin.consumer_running_info,
        admin.consumer_status,
        admin.correction_offsets,
        admin.create_account,
        admin.create_subscription_group,
        admin.create_topic,
        admin.create_topic_on,
        admin.delete_account,
        admin.delete_expired_commit_logs,
        admin.delete_kv_config,
        admin.delete_order_config,
        admin.delete_subscription_group,
        admin.delete_topic,
        admin.delete_topic_in_broker,
        admin.delete_topic_in_name_servers,
        admin.earliest_store_time,
        admin.first_address_of_topic,
        admin.get_kv_config,
        admin.kv_list,
        admin.lost_brokers,
        admin.masters_of,
        admin.max_offset,
        admin.members,
        admin.message_trace,
        admin.message_tracks,
        admin.min_offset,
        admin.move_offsets,
        admin.name_server_config,
        admin.order_config,
        admin.producer_connection,
        admin.producers_of_broker,
        admin.pull,
        admin.put_kv_config,
        admin.query_by_unique_key,
        admin.query_consume_queue,
        admin.query_messages,
        admin.query_topic_consume_by_who,
        admin.raft_member,
        admin.read_queues,
        admin.reset_offsets,
        admin.resume_check_half_message,
        admin.search_offset,
        admin.send_again,
        admin.set_order_config,
        admin.set_order_on_broker,
        admin.set_order_on_cluster,
        admin.subscription_groups,
        admin.system_topics_of_broker,
        admin.topic_config_on,
        admin.topic_configs,
        admin.topic_config,
        admin.topic_list,
        admin.topic_route,
        admin.topic_stats,
        admin.topics_of_cluster,
        admin.transfer_leader,
        admin.update_broker_config,
        admin.update_consumer_offset,
        admin.update_global_white_addresses,
        admin.update_name_server_config,
        admin.view_message,
        admin.wipe_write_perm,
    ]
