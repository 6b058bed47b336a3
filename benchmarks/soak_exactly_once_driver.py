"""The driver that ``soak_exactly_once`` kills: ``python -m benchmarks.soak_exactly_once_driver WHAT
NAMESRV FOLDER``.

``run``: the query, until it is killed; ``drain``: until everything is taken; ``count``: prints as
JSON what both topics have. Two executors in processes of their own; tasks fail now and then, take
their time, and have speculative copies.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from aiorocketmq.spark_connector.local import local_session

from .soak_exactly_once import ONCE, SENT

SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.task.maxFailures": "20",
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def unreliable(batches: Iterator[Any]) -> Iterator[Any]:
    """Some tasks are slow, some fail in their middle."""
    import random
    import time

    for batch in batches:
        if random.random() < 0.1:
            time.sleep(random.uniform(0, 0.5))
        yield batch
        if random.random() < 0.05:
            raise RuntimeError("this task was told to fail")


def run(spark: SparkSession, namesrv: str, folder: Path, *, drain: bool) -> None:
    """The query; returns when it has ended."""
    rows = (
        spark.readStream.format("rocketmq")
        .options(**{"rocketmq.namesrv.addr": namesrv, "subscribe": SENT})
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=100_000 if drain else 1000)
        .load()
    )
    shuffled = (
        rows.select("body")
        .repartition(3)
        .mapInArrow(unreliable, "body binary")
        .withColumn("tags", (F.rand() * 1e9).cast("int").cast("string"))
    )
    writer = (
        shuffled.writeStream.format("rocketmq")
        .options(**{"rocketmq.namesrv.addr": namesrv, "topic": ONCE, "batchBytes": "1k"})
        .option("guarantee", "exactly_once")
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    (writer.trigger(availableNow=True) if drain else writer).start().awaitTermination()


def count(spark: SparkSession, namesrv: str) -> dict[str, int]:
    """Rows, different ones of them, and their sum."""
    found = {}
    for name, topic in (("in", SENT), ("out", ONCE)):
        read = spark.read.format("rocketmq").option("rocketmq.namesrv.addr", namesrv)
        number = F.col("body").cast("string").cast("long").alias("number")
        row = (
            read.option("subscribe", topic)
            .load()
            .select(number)
            .agg(F.count("*"), F.countDistinct("number"), F.coalesce(F.sum("number"), F.lit(0)))
            .first()
        )
        assert row is not None
        found[f"{name}_rows"], found[f"{name}_different"], found[f"{name}_sum"] = row
    return found


def main(what: str, namesrv: str, folder: str) -> None:
    master = "local[2]" if what == "count" else "local-cluster[2,1,1024]"
    with local_session("soak", master=master, settings=SETTINGS) as spark:
        if what == "count":
            sys.stdout.write(json.dumps(count(spark, namesrv)) + "\n")
        else:
            run(spark, namesrv, Path(folder), drain=what == "drain")


if __name__ == "__main__":
    main(*sys.argv[1:])
