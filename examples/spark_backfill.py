"""Back-fill from files: ``python examples/spark_backfill.py``, or cell by cell.

``rocketmq-store`` reads a store directory, of this broker or of the original's, or a copy of one:
no broker is asked or slowed down. What is still being written is better read through ``rocketmq``;
both give the same columns.
"""

# %% A Spark session and a cluster: your own, or those of the playground
from aiorocketmq import Message
from aiorocketmq.spark_connector.local import playground
from aiorocketmq.spark_connector.payload import json_columns
from aiorocketmq.sync import Producer

spark, namesrv, store = playground()

# %% Something to find
with Producer("meters", namesrv=namesrv) as producer:
    for number in range(20):
        producer.send(
            Message("Readings", b'{"meter": %d, "kwh": %d}' % (number % 4, number), tags="raw")
        )

# %% All messages of a topic, straight from the commit log
readings = spark.read.format("rocketmq-store").option("topic", "Readings").load(str(store))
totals = json_columns(readings, "meter int, kwh int").groupBy("meter").sum("kwh").orderBy("meter")
for meter, kwh in totals.collect():
    print(f"meter {meter}: {kwh} kWh")

# %% Forensics: which file of the store has how much of what
everything = spark.read.format("rocketmq-store").load(str(store))
counts = everything.groupBy("topic").count().where("topic = 'Readings'")
print(f"messages in the files: {counts.first()['count']}")
