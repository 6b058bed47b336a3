"""SQL92 expressions from consumers to a real broker and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from aiorocketmq import (
    Admin,
    ConfigError,
    ExpressionRefused,
    LocalCluster,
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    Sql,
    StartFrom,
)

from .cluster import SUSPEND, Cluster, asynchronous, create_topic, total_of, until


@pytest.fixture(scope="module")
def filtering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that filters by properties and keeps bit maps."""
    with Cluster(tmp_path_factory.mktemp("sql")) as cluster:
        cluster.start_broker(
            enablePropertyFilter="true", enableCalcFilterBitMap="true", enableConsumeQueueExt="true"
        )
        yield cluster


async def send_numbers(namesrv: str, topic: str, count: int) -> None:
    async with Producer("p", namesrv=namesrv) as producer:
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number, properties={"a": str(number - 3)}))


@asynchronous
async def test_push_and_pull_consumers_get_what_matches(
    filtering: Cluster, topic: str, group: str
) -> None:
    namesrv = filtering.namesrv
    await create_topic(namesrv, topic, 4)
    pushed: list[int] = []
    push = PushConsumer(
        f"{group}-push", namesrv=namesrv, start_from=StartFrom.FIRST, suspend=SUSPEND
    )
    push.subscribe(topic, Sql("a between 0 and 3"))

    @push.on_message
    def take(message: MessageExt) -> None:
        pushed.append(int(message.properties["a"]))

    pull = PullConsumer(
        f"{group}-pull", namesrv=namesrv, start_from=StartFrom.FIRST, suspend=SUSPEND
    )
    pull.subscribe(topic, Sql("NOT (a between 0 and 3)"))
    async with push, pull:
        await send_numbers(namesrv, topic, 12)
        pulled = [int(message.properties["a"]) for message in await total_of(pull, 8)]
        await until(lambda: len(pushed) >= 4, "the handler got its messages")
        assert sorted(pushed) == [0, 1, 2, 3]
        assert sorted(pulled) == [-3, -2, -1, 4, 5, 6, 7, 8]
        push.subscribe(topic, Sql("a = 100"))
        async with Producer("p", namesrv=namesrv) as producer:
            await until(
                lambda: matched_after_change(producer, topic, pushed),
                "the new expression is in effect",
            )


async def matched_after_change(producer: Producer, topic: str, pushed: list[int]) -> bool:
    """Whoever is not yet told of the new expression misses some: they are sent until one comes."""
    await producer.send(Message(topic, b"x", properties={"a": "100"}))
    await asyncio.sleep(0.05)
    return 100 in pushed


@asynchronous
async def test_a_bad_expression_is_told_where_it_is_given(
    filtering: Cluster, topic: str, group: str
) -> None:
    """Also to a consumer that runs, which goes on with what it had."""
    await create_topic(filtering.namesrv, topic, 1)
    async with PullConsumer(group, namesrv=filtering.namesrv) as consumer:
        consumer.subscribe(topic, Sql("a = 10"))
        with pytest.raises(
            ConfigError, match="'a = 010' is none: position 6: 10 follows a complete expression"
        ):
            consumer.subscribe(topic, Sql("a = 010"))
        async with Producer("p", namesrv=filtering.namesrv) as producer:
            await producer.send(Message(topic, b"ten", properties={"a": "10"}))
        assert [message.body for message in await consumer.poll(30)] == [b"ten"]


@asynchronous
async def test_a_broker_that_does_not_filter_says_so(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    consumer = PushConsumer(group, namesrv=shared.namesrv)
    consumer.subscribe(topic, Sql("a = 1"))
    consumer.on_message(lambda _message: None)
    with pytest.raises(
        ExpressionRefused, match="does not support consumer to filter message by SQL92"
    ):
        await consumer.start()


@asynchronous
async def test_a_running_consumer_gives_up_what_no_broker_filters_by(
    shared: Cluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once, and asks no broker any more; the others of its topics go on."""
    other = f"{topic}-2"
    await create_topic(shared.namesrv, topic, 1)
    await create_topic(shared.namesrv, other, 1)
    async with PullConsumer(
        group, namesrv=shared.namesrv, start_from=StartFrom.FIRST, suspend=SUSPEND
    ) as consumer:
        consumer.subscribe(topic)
        await until(lambda: len(consumer.assignment()) == 1, "its queue")
        consumer.subscribe(other, Sql("a = 1"))
        with pytest.raises(ExpressionRefused, match="enablePropertyFilter"):
            await total_of(consumer, 1)
        async with Producer("p", namesrv=shared.namesrv) as producer:
            await producer.send(Message(topic, b"goes on"))
        assert [message.body for message in await total_of(consumer, 1)] == [b"goes on"]
        assert {queue.topic for queue in consumer.assignment()} == {topic}
    assert caplog.text.count("subscription given up") == 1
    assert caplog.text.count("pull failed") <= 1


@asynchronous
async def test_filters_and_bit_maps_survive_a_restart(
    filtering: Cluster, topic: str, group: str
) -> None:
    namesrv = filtering.namesrv
    await create_topic(namesrv, topic, 1)

    def consumer() -> PullConsumer:
        made = PullConsumer(group, namesrv=namesrv, start_from=StartFrom.FIRST, suspend=SUSPEND)
        made.subscribe(topic, Sql("a > 3"))
        return made

    async with consumer():
        await send_numbers(namesrv, topic, 4)
    await asyncio.to_thread(filtering.stop_broker, "broker-a")
    await asyncio.to_thread(
        filtering.start_broker,
        enablePropertyFilter="true",
        enableCalcFilterBitMap="true",
        enableConsumeQueueExt="true",
    )
    await send_numbers(namesrv, topic, 9)
    async with consumer() as again:
        assert [int(message.properties["a"]) for message in await total_of(again, 2)] == [4, 5]


@asynchronous
async def test_a_local_cluster_filters() -> None:
    async with LocalCluster() as cluster:
        await send_numbers(cluster.namesrv_address, "T", 10)
        consumer = PullConsumer(
            "g", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST, suspend=SUSPEND
        )
        consumer.subscribe("T", Sql("a between 0 and 3"))
        async with consumer, Admin(namesrv=cluster.namesrv_address) as admin:
            assert sorted(int(m.properties["a"]) for m in await total_of(consumer, 4)) == [
                0,
                1,
                2,
                3,
            ]
            connection = await admin.consumer_connection("g", address=cluster.broker_address)
            assert connection.subscription_table["T"].expression_type == "SQL92"
