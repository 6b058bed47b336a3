"""Word count over a topic: ``python examples/spark_word_count.py``, or cell by cell.

The query counts what is there and ends (``availableNow``); leave the trigger out and it goes on for
ever.
"""

# %% A Spark session and a cluster: your own, or those of the playground
import re
import tempfile

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from aiorocketmq import Message
from aiorocketmq.spark_connector.local import playground
from aiorocketmq.sync import Producer

spark, namesrv, _ = playground()

# %% Something to count
TEXT = "the quick brown fox jumps over the lazy dog and the dog does not mind"
with Producer("writers", namesrv=namesrv) as producer:
    for line in re.findall(r"(?:\w+ ?){3}", TEXT):
        producer.send(Message("Lines", line.encode()))

# %% The topic as a stream of rows
lines = (
    spark.readStream.format("rocketmq")
    .option("rocketmq.namesrv.addr", namesrv)
    .option("subscribe", "Lines")
    .option("startingOffsets", "earliest")
    .load()
)
words = lines.select(F.explode(F.split(F.trim(F.col("body").cast("string")), " ")).alias("word"))
counts = words.groupBy("word").count()


# %% Every micro-batch gives all counts anew
def show(batch: DataFrame, number: int) -> None:
    for row in batch.orderBy(F.desc("count"), "word").limit(3).collect():
        print(f"{row['word']}: {row['count']}")


with tempfile.TemporaryDirectory() as checkpoint:
    query = (
        counts.writeStream.foreachBatch(show)
        .outputMode("complete")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
