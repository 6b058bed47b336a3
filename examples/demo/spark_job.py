"""``python -m examples.demo.spark_job NAMESRV TOPIC RESULTS FOLDER``: counts the rows of a topic,
by tag, into another one.

A structured streaming query like any other: it takes all that is in the topic, keeps how far it is
in FOLDER and ends.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from aiorocketmq.spark_connector.local import local_session
from aiorocketmq.spark_connector.payload import to_json_body


def count_rows(namesrv: str, topic: str, results: str, folder: str) -> None:
    """Rows and bytes of each tag of the topic, as one JSON message per tag."""

    def write(totals: DataFrame, number: int) -> None:
        rows = to_json_body(totals, keys="tag").write.format("rocketmq").mode("append")
        rows = rows.option("rocketmq.namesrv.addr", namesrv).option("topic", results)
        rows.option("dedupPrefix", f"totals-{number}").option("dedupKeyColumns", "keys").save()

    with local_session("demo") as spark:
        rows = (
            spark.readStream.format("rocketmq")
            .option("rocketmq.namesrv.addr", namesrv)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("columns", "tags,body")
            .load()
        )
        totals = rows.groupBy(F.col("tags").alias("tag")).agg(
            F.count("*").alias("rows"), F.sum(F.length("body")).alias("bytes")
        )
        query = totals.writeStream.outputMode("complete").foreachBatch(write)
        query.option("checkpointLocation", folder).trigger(
            availableNow=True
        ).start().awaitTermination()


if __name__ == "__main__":
    count_rows(*sys.argv[1:])
