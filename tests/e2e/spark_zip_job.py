"""A program for ``spark-submit --py-files``: ``<name server> <topic>``. What it found is printed as
JSON, in a line that begins with ``found``."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import aiorocketmq
from aiorocketmq.spark_connector import register


def main(namesrv: str, topic: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    where = {"nameServer": namesrv, "topic": topic}
    numbers = spark.range(20).selectExpr("cast(id as string) body")
    numbers.write.format("rocketmq").mode("append").options(**where).save()
    stream = spark.readStream.format("rocketmq").options(startingOffsets="earliest", **where)
    query = (
        stream.load()
        .writeStream.format("memory")
        .queryName("copied")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    rows = spark.table("copied").collect()
    found = {
        "package": aiorocketmq.__file__,
        "numbers": sorted(int(bytes(row.body)) for row in rows),
    }
    print("found", json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
