"""Two topics joined as streams: ``python examples/spark_join.py``, or cell by cell.

Orders wait for their payments for ten minutes of event time; the watermarks let Spark forget the
ones before.
"""

# %% A Spark session and a cluster: your own, or those of the playground
import json
import tempfile

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from aiorocketmq import Message
from aiorocketmq.spark_connector.local import playground
from aiorocketmq.spark_connector.payload import json_columns
from aiorocketmq.sync import Producer

spark, namesrv, _ = playground()

# %% Orders, and payments for some of them
ORDERS = [
    (1, "2026-05-01 10:00:00", "book"),
    (2, "2026-05-01 10:01:00", "lamp"),
    (3, "2026-05-01 10:02:00", "desk"),
]
PAYMENTS = [
    (2, "2026-05-01 10:03:00", 25.0),
    (3, "2026-05-01 10:30:00", 99.0),
    (1, "2026-05-01 10:05:00", 12.5),
]
with Producer("shop", namesrv=namesrv) as producer:
    for number, at, item in ORDERS:
        producer.send(
            Message("Orders", json.dumps({"number": number, "at": at, "item": item}).encode())
        )
    for number, at, amount in PAYMENTS:
        producer.send(
            Message("Payments", json.dumps({"number": number, "at": at, "amount": amount}).encode())
        )


# %% Each topic as columns
def stream(topic: str, schema: str) -> DataFrame:
    rows = (
        spark.readStream.format("rocketmq")
        .option("rocketmq.namesrv.addr", namesrv)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    return json_columns(rows, schema).withWatermark("at", "15 minutes")


orders = stream("Orders", "number int, at timestamp, item string").alias("o")
payments = stream("Payments", "number int, at timestamp, amount double").alias("p")

# %% A payment belongs to its order when it came within ten minutes
in_time = F.expr("o.number = p.number and p.at between o.at and o.at + interval 10 minutes")
paid = orders.join(payments, in_time).select("o.number", "item", "amount")


# %% Run until everything that is there is joined
def show(batch: DataFrame, number: int) -> None:
    for row in batch.orderBy("number").collect():
        print(f"order {row.number}: {row.item} paid with {row.amount}")


with tempfile.TemporaryDirectory() as checkpoint:
    paid.writeStream.foreachBatch(show).option("checkpointLocation", checkpoint).trigger(
        availableNow=True
    ).start().awaitTermination()
