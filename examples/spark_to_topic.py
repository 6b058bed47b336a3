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
arriving, checkpoint = Path(folder.name) / "arriving", str(Path(folder.name) / "checkpoint")
arriving.mkdir()
(arriving / "sales.csv").write_text("city,amount\nParis,10\nRome,20\nParis,5\n")

# %% Each row becomes a message; those of a city stay in order
sales = spark.readStream.option("header", True).schema("city string, amount int").csv(str(arriving))
query = (
    to_json_body(sales, tags="city", shardingKey="city")
    .writeStream.format("rocketmq")
    .option("rocketmq.namesrv.addr", namesrv)
    .option("topic", "Sales")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# %% What arrived, each row once
sold = (
    spark.read.format("rocketmq")
    .option("rocketmq.namesrv.addr", namesrv)
    .option("subscribe", "Sales")
    .option("subExpression", "Paris")
    .option("dropSparkDuplicates", True)
    .load()
)
for row in sold.orderBy("queueOffset").collect():
    print(row.tags, bytes(row.body).decode())
folder.cleanup()
