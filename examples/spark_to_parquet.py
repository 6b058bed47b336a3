"""A topic into Parquet files, as a job that runs every night: ``python
examples/spark_to_parquet.py``, or cell by cell.

``availableNow`` takes everything that came since the last run and ends. The checkpoint knows how
far that was: nothing is lost or written twice, whenever the job is killed.
"""

# %% A Spark session and a cluster: your own, or those of the playground
import tempfile
from pathlib import Path

from aiorocketmq import Message
from aiorocketmq.spark_connector.local import playground
from aiorocketmq.sync import Producer

spark, namesrv, _ = playground()
folder = tempfile.TemporaryDirectory()
files, checkpoint = (str(Path(folder.name) / name) for name in ("events", "checkpoint"))


# %% What happens during a day
def a_day(first: int) -> None:
    with Producer("app", namesrv=namesrv) as producer:
        for number in range(first, first + 10):
            producer.send(Message("Events", b"event %d" % number, keys=[str(number)]))


# %% The job
def job() -> None:
    rows = (
        spark.readStream.format("rocketmq")
        .option("rocketmq.namesrv.addr", namesrv)
        .option("subscribe", "Events")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)  # keeps micro-batches, and so files, at a size
        .load()
    )
    query = (
        rows.writeStream.format("parquet")
        .option("path", files)
        .option("checkpointLocation", checkpoint)
    )
    query.trigger(availableNow=True).start().awaitTermination()


# %% Two nights
for night in (1, 2):
    a_day(10 * night)
    job()
    events = spark.read.parquet(files)
    print(
        f"night {night}: {events.count()} events, {events.select('keys').distinct().count()} "
        "different"
    )

# %%
folder.cleanup()
