"""What tests of writing from Spark have in common: frames to write, and what a topic has then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiorocketmq import MessageExt, PullConsumer
from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.access.connection_options import ConnectionOptions
from aiorocketmq.spark_connector.sink.dedup import SPARK_DEDUP_ID

from .cluster import PATIENCE_S, SUSPEND, Cluster, create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 4
ROWS = 2000


def write(frame: DataFrame, cluster: Cluster, topic: str | None = None, **options: object) -> None:
    writer = frame.write.format("rocketmq").mode("append").option("nameServer", cluster.namesrv)
    if topic is not None:
        writer = writer.option("topic", topic)
    writer.options(**{name: str(value) for name, value in options.items()}).save()


def load(spark: SparkSession, cluster: Cluster, topic: str, **options: object) -> DataFrame:
    reader = (
        spark.read.format("rocketmq")
        .option("nameServer", cluster.namesrv)
        .option("subscribe", topic)
    )
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def stored(cluster: Cluster, topic: str) -> int:
    """How many messages a topic has."""
    access = BrokerAccess(ConnectionOptions((cluster.namesrv,)))
    return sum(access.latest(access.queues([topic])[topic]).values())


def messages(cluster: Cluster, topic: str, count: int | None = None) -> list[MessageExt]:
    """Everything that a topic has, by queue and offset; ``count``: what has to be there at last."""

    async def read(total: int) -> list[MessageExt]:
        found: list[MessageExt] = []
        async with PullConsumer(f"g-{topic}", namesrv=cluster.namesrv, suspend=SUSPEND) as consumer:
            await consumer.assign(await consumer.queues(topic))
            await consumer.seek_to_begin(*consumer.assignment())
            async with asyncio.timeout(PATIENCE_S):
                while len(found) < total:
                    found += await consumer.poll(max_messages=1024)
        return sorted(
            found, key=lambda message: (message.broker_name, message.queue_id, message.queue_offset)
        )

    if count is not None:
        wait_until(lambda: stored(cluster, topic) >= count)
    return asyncio.run(read(stored(cluster, topic)))


def wait_until(condition: Any, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.02)


def numbers(spark: SparkSession, count: int = ROWS, partitions: int = 2) -> DataFrame:
    from pyspark.sql import functions

    return spark.range(0, count, 1, partitions).select(
        functions.col("id").cast("string").alias("body")
    )


def ids_of(found: Sequence[MessageExt]) -> list[str]:
    return [message.properties[SPARK_DEDUP_ID] for message in found]


def stopping_half_way(spark: SparkSession, folder: Path, *, fail_once: bool) -> DataFrame:
    """Numbers. The second half of partition 0 comes when the file ``go`` is there, with
    ``fail_once`` at the second try."""
    from pyspark.sql import functions

    reached, go = folder / "reached", folder / "go"

    def halves(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number == 10 and context.partitionId() == 0:
                reached.touch()
                (folder / f"attempt {context.attemptNumber()}").touch()
                while not go.exists():
                    time.sleep(0.01)
                if fail_once and context.attemptNumber() == 0:
                    raise RuntimeError("this task was told to fail")
            yield batch

    padded = numbers(spark).select(
        functions.rpad("body", 500, " ").alias("body")
    )  # what is short stays in buffers
    return padded.mapInArrow(halves, "body string")


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Rows travel by fifties."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "50")
    yield
    spark.conf.set(name, str(before))


@pytest.fixture
def with_queues(shared: Cluster, topic: str) -> str:
    """A topic that is there, with four queues."""
    asyncio.run(create_topic(shared.namesrv, topic, QUEUES))
    return topic
