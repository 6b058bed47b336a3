"""Files into a topic: ``python examples/spark_to_topic.py``, or cell by cell.

Every row carries an id that is the same again when Spark writes it again (a task that failed, a
micro-batch that is replayed after a crash); who reads the topic can drop the second one.
"""

# %% A Spark session and a cluster: your own, or those of the playground
import tempfile
from pathlib import Path

from aiorocketmq.spark_connector.local import playground
from aiorocketmq.spark_connector.payload import to_json_body

spark, namesrv, _ = playground()

# %% A folder that files arrive in
folder = tempfile.TemporaryDirectory()
arriving, checkpoint = Path(folder.name) / "arriving", Path(folder.name) / "checkpoint"
arriving.mkdir()
(arriving / "sales.csv").write_text("city,amount\nParis,10\nRome,20\nParis,5\n")


# %% Each row becomes a message. Those of a city go to one queue, in the order of their file
def write() -> None:
    sales = spark.readStream.option("header", True).schema("city string, amount int")
    query = (
        to_json_body(sales.csv(str(arriving)), tags="city", shardingKey="city")
        .writeStream.format("rocketmq")
        .option("rocketmq.namesrv.addr", namesrv)
        .option("topic", "Sales")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


write()

# %% As after a crash between the last row and the note that the micro-batch is done: it is replayed
for note in (checkpoint / "commits").iterdir():
    note.unlink()
write()

# %% What arrived, and each row once: that is read in one task, which keeps the ids. For very many
# rows there is drop_spark_duplicates(frame) of aiorocketmq.spark_connector.sink.dedup
paris = (
    spark.read.format("rocketmq")
    .option("rocketmq.namesrv.addr", namesrv)
    .option("subscribe", "Sales")
    .option("subExpression", "Paris")
)
print("messages:", paris.load().count())
sold = paris.option("dropSparkDuplicates", True).load()
for row in sold.orderBy("queueOffset").collect():
    print(row.tags, bytes(row.body).decode())
folder.cleanup()
