"""The streaming job: ``python -m examples.pipeline.job NAMESRV PREFIX FOLDER``.

::

    Orders   --+-- good rows --+-- join -- revenue per window --+-- topic Revenue
    Payments --+               |                                +-- FOLDER/revenue/batch=<n>
               +-- the others ----------------------------------+-- topic DeadRows

It goes on until SIGTERM, or SIGKILL: all that it knows is in FOLDER/checkpoints, and the next one
begins where this one was. With a session of your own (a cluster, ``spark-submit``) only ``main``
is another one.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener

from aiorocketmq.spark_connector.local import local_session
from aiorocketmq.spark_connector.payload import json_columns, to_json_body

from .topics import LATENESS, ORDER, PAID_WITHIN, PAYMENT, WINDOW, Topics

TRIGGER = "500 milliseconds"
MOST_ROWS = 1000
"""Of a topic in one micro-batch, so that a backlog is worked off in steps."""

# --- rows, of a stream or of a batch
# --------------------------------------------------------------------------------------------------


def problem(schema: Mapping[str, str]) -> Column:
    """Why a message is no row of the schema; null for one that is."""
    text = F.col("body").cast("string")
    row = F.from_json(text, _ddl(schema))
    fields = [
        F.when(
            row[name].isNull(),
            F.when(F.get_json_object(text, f"$.{name}").isNull(), f"{name} is missing").otherwise(
                f"{name} is no {kind}"
            ),
        )
        for name, kind in schema.items()
    ]
    return F.coalesce(
        F.when(~F.is_valid_utf8(text), "is not UTF-8"),
        F.when(F.try_parse_json(text).isNull(), "is not JSON"),
        *fields,
    )


def good_rows(messages: DataFrame, schema: Mapping[str, str]) -> DataFrame:
    """The fields of all messages that have them."""
    good = messages.where(problem(schema).isNull())
    return json_columns(good, _ddl(schema)).withWatermark("at", _sql(LATENESS))


def dead_rows(messages: DataFrame, topics: Topics) -> DataFrame:
    """The other messages of both topics, as messages: body and keys as they were, so that they can
    be sent again when they are mended; the reason as a property, with where they came from."""
    reason = F.when(F.col("topic") == topics.orders, problem(ORDER)).otherwise(problem(PAYMENT))
    origin = F.concat_ws("/", "topic", "brokerName", "queueId", "queueOffset")
    dead = messages.withColumn("reason", reason).where("reason is not null")
    properties = F.create_map(F.lit("reason"), F.col("reason"), F.lit("origin"), origin)
    return dead.select("body", "keys", properties.alias("properties"))


def revenue(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """What was ordered and paid in time, by window of the order's time and category."""
    in_time = F.expr(
        f"o.number = p.number and p.at between o.at and o.at + interval {_sql(PAID_WITHIN)}"
    )
    paid = orders.alias("o").join(payments.alias("p"), in_time).select("o.at", "category", "cents")
    totals = paid.groupBy(F.window("at", _sql(WINDOW)).alias("window"), "category").agg(
        F.count("*").alias("orders"), F.sum("cents").alias("cents")
    )
    begin = F.date_format("window.start", "yyyy-MM-dd'T'HH:mm'Z'")
    return totals.select(
        F.concat_ws("/", begin, "category").alias("id"), begin.alias("begin"),
        "category", "orders", "cents",
    )  # fmt: skip


def _ddl(schema: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in schema.items())


def _sql(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} seconds"


# --- streams
# --------------------------------------------------------------------------------------------------


def stream(spark: SparkSession, namesrv: str, *topics: str) -> DataFrame:
    """The messages of topics, from their beginning."""
    reader = spark.readStream.format("rocketmq").option("rocketmq.namesrv.addr", namesrv)
    reader = reader.option("subscribe", ",".join(topics)).option("startingOffsets", "earliest")
    return reader.option("maxOffsetsPerTrigger", MOST_ROWS).load()


def start(spark: SparkSession, namesrv: str, topics: Topics, folder: Path) -> list[StreamingQuery]:
    """Both queries, each from its checkpoint where there is one."""

    def write(totals: DataFrame, batch: int) -> None:
        """Topic and files from one computation. Spark may call it again with the same batch, after
        a crash in here: files are overwritten then, and messages that are there stay as they are.
        """
        totals = totals.persist()
        if not totals.isEmpty():
            rows = to_json_body(totals, keys="id", tags="category").write.format("rocketmq")
            rows = rows.option("rocketmq.namesrv.addr", namesrv).option("topic", topics.revenue)
            rows = rows.option("guarantee", "exactly_once").option("batchId", batch)
            rows = rows.option("writeId", "revenue")
            rows = rows.option("stagingLocation", str(folder / "staging"))
            rows.mode("append").save()
            totals.write.mode("overwrite").parquet(str(folder / "revenue" / f"batch={batch}"))
        totals.unpersist()

    orders = good_rows(stream(spark, namesrv, topics.orders), ORDER)
    payments = good_rows(stream(spark, namesrv, topics.payments), PAYMENT)
    results = revenue(orders, payments).writeStream.foreachBatch(write)
    dead = dead_rows(stream(spark, namesrv, topics.orders, topics.payments), topics)
    dead_letters = dead.writeStream.format("rocketmq").option("rocketmq.namesrv.addr", namesrv)
    dead_letters = dead_letters.option("guarantee", "exactly_once")
    return [
        writer.option("checkpointLocation", str(folder / "checkpoints" / name))
        .queryName(name)
        .trigger(processingTime=TRIGGER)
        .start()
        for name, writer in [
            ("revenue", results),
            ("dead rows", dead_letters.option("topic", topics.dead)),
        ]
    ]


class ProgressFile(StreamingQueryListener):
    """Writes what Spark tells of each micro-batch as a line of JSON, for the report."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._file.write(b"\n")  # a kill may have left half a line

    def onQueryStarted(self, event: Any) -> None: ...
    def onQueryIdle(self, event: Any) -> None: ...
    def onQueryTerminated(self, event: Any) -> None: ...
    def onQueryProgress(self, event: Any) -> None:
        self._file.write(event.progress.json.encode() + b"\n")


def main(namesrv: str, prefix: str, folder: str) -> None:
    """Until SIGTERM, or until a query fails."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    # Windows, and the ids that are made of them, are in the session's time zone.
    with local_session("pipeline", settings={"spark.sql.session.timeZone": "UTC"}) as spark:
        spark.streams.addListener(ProgressFile(Path(folder) / "progress.jsonl"))
        queries = start(spark, namesrv, Topics.named(prefix), Path(folder))
        while not stopped.is_set():
            spark.streams.awaitAnyTermination(0.2)  # raises what a query has failed with
        for query in queries:
            query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
