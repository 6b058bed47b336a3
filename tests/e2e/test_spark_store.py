"""Reading the store of a broker with real Spark: while it runs, when it was killed, by file and by
queue."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType, LongType, StructType

from aiorocketmq import Message, Producer

from .cluster import Cluster, create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BY = pytest.mark.parametrize("by", ["file", "queue"])


def store(spark: SparkSession, root: Path, **options: object) -> DataFrame:
    reader = spark.read.format("rocketmq-store").options(
        **{name: str(value) for name, value in options.items()}
    )
    return reader.load(str(root))


async def send(namesrv: str, topic: str, count: int) -> None:
    """Messages of every kind: text that is not ASCII, bodies that are compressed, properties."""
    letters = random.Random(7)
    async with Producer(f"p-{topic}", namesrv=namesrv) as producer:
        for number in range(count):
            body = (f"Grüße {number} " * (600 if number % 10 == 0 else 1)).encode()
            tags = letters.choice(["a", "b", None])
            own = {"farbe": "größer", "number": str(number)} if number % 3 else {}
            await producer.send(
                Message(topic, body, tags=tags, keys=[f"k{number}"], properties=own)
            )


def sorted_rows(frame: DataFrame) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: (row["queueId"], row["queueOffset"]))


@BY
def test_properties_are_columns(by: str, spark: SparkSession, shared: Cluster, topic: str) -> None:
    asyncio.run(create_topic(shared.namesrv, topic, 3))
    asyncio.run(send(shared.namesrv, topic, 12))
    own = {"propertyColumns": "number:bigint,farbe:string", "columns": "queueId,queueOffset,keys"}
    found = store(spark, shared.store_of("broker-a"), topic=topic, partitionBy=by, **own)
    assert sorted((row["keys"], row["number"], row["farbe"]) for row in found.collect()) == sorted(
        (f"k{n}", n if n % 3 else None, "größer" if n % 3 else None) for n in range(12)
    )


@BY
def test_a_store_gives_what_the_broker_gives(
    by: str, spark: SparkSession, shared: Cluster, topic: str
) -> None:
    asyncio.run(create_topic(shared.namesrv, topic, 3))
    asyncio.run(send(shared.namesrv, topic, 120))
    every = (
        "topic,brokerName,queueId,queueOffset,msgId,offsetMsgId,keys,tags,properties,body,"
        "bornTimestamp,storeTimestamp,bornHost,storeHost,flag,sysFlag,reconsumeTimes"
    )
    source = (
        spark.read.format("rocketmq")
        .option("nameServer", shared.namesrv)
        .option("subscribe", topic)
    )
    expected = sorted_rows(source.option("columns", every).load())
    assert len(expected) == 120
    options = {"partitionBy": by, "topic": topic, "columns": every, "brokerName": "broker-a"}
    assert sorted_rows(store(spark, shared.store_of("broker-a"), **options)) == expected


@BY
def test_the_store_of_a_broker_that_was_killed(
    by: str, spark: SparkSession, cluster: Cluster, topic: str
) -> None:
    cluster.start_broker()
    asyncio.run(send(cluster.namesrv, topic, 50))
    cluster.kill_broker("broker-a")
    root = cluster.store_of("broker-a")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    frame = store(spark, root, partitionBy=by, topicPattern=f"{topic}.*")
    assert sorted(row.keys for row in frame.select("keys").collect()) == sorted(
        f"k{number}" for number in range(50)
    )
    assert (
        frame.where("tags = 'a'").count()
        + frame.where("tags = 'b'").count()
        + frame.where("tags is null").count()
        == 50
    )
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_schema_of_ones_own_and_a_store_with_nothing_in_it(
    spark: SparkSession, shared: Cluster, topic: str, tmp_path: Path
) -> None:
    asyncio.run(send(shared.namesrv, topic, 5))
    schema = StructType().add("body", BinaryType()).add("queueOffset", LongType())
    frame = (
        spark.read.format("rocketmq-store")
        .schema(schema)
        .option("topic", topic)
        .load(str(shared.store_of("broker-a")))
    )
    assert frame.columns == ["body", "queueOffset"]
    assert frame.count() == 5
    os.makedirs(tmp_path / "commitlog")
    assert store(spark, tmp_path).count() == 0


def test_what_is_wrong_is_told_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="is no store"):
        store(spark, tmp_path)
    os.makedirs(tmp_path / "commitlog")
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(b"x" * 1000)
    (tmp_path / "commitlog" / f"{2000:020d}").write_bytes(bytes(1000))
    with pytest.raises(PySparkException, match="1000 to 2000 are in no file"):
        store(spark, tmp_path).count()
