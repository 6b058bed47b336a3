"""Sessions of visitors: ``python examples/spark_sessions.py``, or cell by cell.

Clicks less than five minutes apart are one visit. A visit is given out once, when the watermark
says that no click of it can come any more.
"""

# %% A Spark session and a cluster: your own, or those of the playground
import tempfile

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from aiorocketmq import Message
from aiorocketmq.spark_connector.local import playground
from aiorocketmq.spark_connector.payload import csv_columns
from aiorocketmq.sync import Producer

spark, namesrv, _ = playground()

# %% Clicks: visitor, time, page; the last one lets time go on
CLICKS = """
ann,2026-05-01 10:00:00,home
bob,2026-05-01 10:01:00,home
ann,2026-05-01 10:03:30,books
ann,2026-05-01 10:20:00,home
bob,2026-05-01 10:02:00,lamps
eve,2026-05-01 11:00:00,home
"""
with Producer("web", namesrv=namesrv) as producer:
    for line in CLICKS.strip().splitlines():
        producer.send(Message("Clicks", line.encode()), sharding_key=line.partition(",")[0])

# %% The topic as columns
rows = (
    spark.readStream.format("rocketmq")
    .option("rocketmq.namesrv.addr", namesrv)
    .option("subscribe", "Clicks")
    .option("startingOffsets", "earliest")
    .load()
)
clicks = csv_columns(rows, "visitor string, at timestamp, page string").withWatermark(
    "at", "10 minutes"
)
visits = clicks.groupBy("visitor", F.session_window("at", "5 minutes").alias("visit")).agg(
    F.count("*").alias("clicks")
)


# %% Visits that are over
def show(batch: DataFrame, number: int) -> None:
    for row in batch.orderBy("visit.start").collect():
        minutes = (row.visit.end - row.visit.start).seconds // 60
        print(f"{row.visitor}: {row.clicks} clicks, over after {minutes} minutes")


with tempfile.TemporaryDirectory() as checkpoint:
    visits.writeStream.foreachBatch(show).option("checkpointLocation", checkpoint).trigger(
        availableNow=True
    ).start().awaitTermination()
