"""The driver that ``soak_spark`` kills: ``python -m benchmarks.soak_spark_driver WHAT NAMESRV
FOLDER``.

``run``: two queries over the topic, one into Parquet files, one into another topic, until it is
killed; ``drain``: the same until everything is taken; ``count``: prints as JSON what is in the
files and in the other topic.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aiorocketmq.spark_connector.local import local_session
from aiorocketmq.spark_connector.sink.dedup import drop_spark_duplicates

from .soak_spark import COPY, TOPIC


def run(spark: SparkSession, namesrv: str, folder: Path, *, drain: bool) -> None:
    """Both queries; returns when they have ended. Each has a checkpoint in the folder that the next
    life goes on from."""
    rows = (
        spark.readStream.format("rocketmq")
        .options(
            **{"rocketmq.namesrv.addr": namesrv, "subscribe": TOPIC, "startingOffsets": "earliest"}
        )
        .options(columns="queueId,queueOffset,body", maxOffsetsPerTrigger=100_000 if drain else 500)
        .load()
    )
    files = rows.writeStream.format("parquet").option("path", str(folder / "files"))
    copies = rows.select("body").writeStream.format("rocketmq")
    copies = copies.option("rocketmq.namesrv.addr", namesrv).option("topic", COPY)
    queries = []
    for name, writer in (("to files", files), ("to topic", copies)):
        writer = writer.option("checkpointLocation", str(folder / "checkpoints" / name)).queryName(
            name
        )
        queries.append((writer.trigger(availableNow=True) if drain else writer).start())
    for query in queries:
        query.awaitTermination()


def count(spark: SparkSession, namesrv: str, folder: Path) -> dict[str, int]:
    """Rows, and different ones of them."""
    copied = (
        spark.read.format("rocketmq")
        .option("rocketmq.namesrv.addr", namesrv)
        .option("subscribe", COPY)
    )
    everything = copied.option("includeProperties", True).load()
    found = {"written": spark.read.parquet(str(folder / "files")), "copied": everything}
    found["copied_once"] = drop_spark_duplicates(everything)
    return {
        f"{name}_{what}": value
        for name, frame in found.items()
        for what, value in zip(("rows", "different", "sum"), _counts(frame), strict=True)
    }


def _counts(frame: DataFrame) -> tuple[int, int, int]:
    number = F.col("body").cast("string").cast("long").alias("number")
    row = (
        frame.select(number)
        .agg(F.count("*"), F.countDistinct("number"), F.coalesce(F.sum("number"), F.lit(0)))
        .first()
    )
    assert row is not None
    return row[0], row[1], row[2]


def main(what: str, namesrv: str, folder: str) -> None:
    with local_session("soak") as spark:
        if what == "count":
            sys.stdout.write(json.dumps(count(spark, namesrv, Path(folder))) + "\n")
        else:
            run(spark, namesrv, Path(folder), drain=what == "drain")


if __name__ == "__main__":
    main(*sys.argv[1:])
