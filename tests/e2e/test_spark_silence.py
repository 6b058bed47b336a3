"""What a read lacks is said: brokers that are down, topics that are others by now; and how far a
query is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException

from aiorocketmq import Admin, BrokerError, Message, Producer
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.lag import Lag, lag_listener

from .cluster import PATIENCE_S, Cluster, create_topic
from .test_spark_source import Sink, drain, load, load_stream, make, send, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def send_to(cluster: Cluster, topic: str, broker_name: str, begin: int, end: int) -> None:
    """Their numbers, to queue 0 of a broker."""

    async def do() -> None:
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            queue = MessageQueue(topic, broker_name, 0)
            for number in range(begin, end):
                await producer.send(Message(topic, b"%d" % number), queue=queue)

    asyncio.run(do())


def test_a_broker_that_is_down_does_not_leave_in_silence(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    for name in ("broker-a", "broker-b"):
        cluster.start_broker(name)
    asyncio.run(create_topic(cluster.namesrv, topic, 1))
    send_to(cluster, topic, "broker-a", 0, 10)
    send_to(cluster, topic, "broker-b", 100, 110)
    both = {"expectedBrokers": "broker-a,broker-b"}
    assert load(spark, cluster, topic, **both).count() == 20
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    stream = load_stream(spark, cluster, topic, startingOffsets="earliest")
    drain(stream, sink, checkpoint)
    send_to(cluster, topic, "broker-a", 10, 15)
    send_to(cluster, topic, "broker-b", 110, 115)
    cluster.kill_broker("broker-b")
    wait_until(
        lambda: load(spark, cluster, topic).count() == 15,
        "the name server knows of nothing that is missing",
    )
    for option in (both, {"expectedQueues": 2}):
        with pytest.raises(
            PySparkException,
            match=r"IncompleteReadError: the topic .* (not on broker-b|on broker-a, and not 2)",
        ):
            load(spark, cluster, topic, **option).count()
        assert load(spark, cluster, topic, failOnDataLoss=False, **option).count() == 15
    with pytest.raises(PySparkException, match=r"availableNow ends without 1 queues of broker-b"):
        drain(stream, sink, checkpoint)
    assert sink.numbers == [*range(15), *range(100, 110)], "what is there is read first"
    cluster.start_broker("broker-b")
    drain(stream, sink, checkpoint)
    assert sink.numbers == [*range(15), *range(100, 115)]

    async def order() -> None:
        async with Admin(namesrv=cluster.namesrv) as admin:
            await admin.set_order_on_cluster(topic, "DefaultCluster", 1)

    asyncio.run(order())
    assert load(spark, cluster, topic).count() == 30
    cluster.kill_broker("broker-b")
    with pytest.raises(PySparkException, match="on broker-b, as the order configuration tells"):
        load(spark, cluster, topic).count()


def test_a_topic_that_is_another_one_by_now_does_not_go_on_in_silence(
    spark: SparkSession, shared: Cluster, topic: str, tmp_path: Path
) -> None:
    make(shared, topic, 20)
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    drain(load_stream(spark, shared, topic, startingOffsets="earliest"), sink, checkpoint)

    async def make_anew() -> None:
        async with Admin(namesrv=shared.namesrv) as admin:
            await admin.delete_topic(topic, "DefaultCluster")
        await create_topic(shared.namesrv, topic, 2)

    asyncio.run(make_anew())
    send(shared, topic, 1000, 1031)
    stream = load_stream(spark, shared, topic)
    with pytest.raises(PySparkException, match=r"made anew, or .*was read up to 10: 10 mes"):
        drain(stream, sink, checkpoint)
    assert sink.numbers == [*range(20)]
    drain(load_stream(spark, shared, topic, failOnDataLoss=False), sink, checkpoint)
    assert sink.numbers == [*range(20), *range(1000, 1031)], "all of it"
    send(shared, topic, 1031, 1034)
    drain(stream, sink, checkpoint)
    assert sink.numbers == [*range(20), *range(1000, 1034)]


def test_how_far_a_query_is_can_be_seen_by_its_group(
    spark: SparkSession, shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    make(shared, topic, 20)
    options = {"consumerGroup": group, "commitOffsetsToGroup": True, "startingOffsets": "earliest"}
    stream = load_stream(spark, shared, topic, maxOffsetsPerTrigger=10, **options)
    seen: list[Lag] = []
    listener = lag_listener(seen.append)
    spark.streams.addListener(listener)
    drain(stream, Sink(), tmp_path / "checkpoint")
    wait_until(lambda: len(seen) >= 2, "Spark tells of its batches")
    spark.streams.removeListener(listener)
    assert [(lag.topics, lag.total, lag.most) for lag in seen[:2]] == [
        ((topic,), 10, 5),
        ((topic,), 0, 0),
    ]
    send(shared, topic, 20, 27)
    shown = subprocess.run(
        [
            sys.executable, "-m", "aiorocketmq.tools.mqadmin", "consumerProgress",
            "-n", shared.namesrv, "-g", group,
        ],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert topic[:20] in shown.stdout
    assert "Diff Total: 7" in shown.stdout

    async def members() -> object:
        async with Admin(namesrv=shared.namesrv) as admin:
            return await admin.consumer_connection(group)

    with pytest.raises(BrokerError, match="CONSUMER_NOT_ONLINE"):
        asyncio.run(members())
