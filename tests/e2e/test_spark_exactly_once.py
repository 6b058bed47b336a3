"""``guarantee=exactly_once``: rows are in their topic once, whatever is tried again and whatever
the plan makes of them the second time."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException
from pyspark.sql import functions

from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.spark_connector.session.spark_version import OLDEST_FOR_STREAM_WRITES
from aiorocketmq.spark_connector.sink.dedup import SPARK_DEDUP_ID

from .cluster import Cluster
from .spark_session import needs_spark
from .spark_writes import (
    QUEUES,
    ROWS,
    messages,
    numbers,
    stopping_half_way,
    stored,
    wait_until,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

GUARANTEE = {"guarantee": "exactly_once"}


def numbers_in(cluster: Cluster, topic: str) -> Counter[int]:
    return Counter(int(message.body) for message in messages(cluster, topic))


def test_a_write_stages_its_rows_and_every_row_comes_once(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    staging = tmp_path / "staging"
    write(
        numbers(spark), shared, with_queues,
        **GUARANTEE, stagingLocation=staging, writeId="w1", batchBytes=1024,
    )  # fmt: skip
    found = messages(shared, with_queues)
    assert Counter(int(message.body) for message in found) == Counter(range(ROWS))
    assert len({message.queue_id for message in found}) == QUEUES
    assert SPARK_DEDUP_ID not in found[0].properties
    assert {path.name for path in (staging / "w1" / "0").iterdir()} == {"manifest.json", "done"}
    write(numbers(spark), shared, with_queues, **GUARANTEE, stagingLocation=staging, writeId="w1")
    assert stored(shared, with_queues) == ROWS


@pytest.mark.usefixtures("small_batches")
def test_a_task_that_is_tried_again_doubles_nothing(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as pool:
        reached = pool.submit(wait_until, (tmp_path / "reached").exists)
        reached.add_done_callback(lambda _: (tmp_path / "go").touch())
        write(
            stopping_half_way(spark, tmp_path, fail_once=True), shared, with_queues,
            **GUARANTEE, stagingLocation=tmp_path / "staging",
        )  # fmt: skip
        reached.result()
    assert (tmp_path / "attempt 1").exists()
    assert numbers_in(shared, with_queues) == Counter(range(ROWS))


def _begun(frame: DataFrame, cluster: Cluster, topic: str, folder: Path) -> StreamingQuery:
    return (
        frame.writeStream.format("rocketmq")
        .options(nameServer=cluster.namesrv, topic=topic, batchBytes="1024", maxInFlight="2",
                 deliveryTimeout="1s", sendTimeoutMs="500ms", **GUARANTEE)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip


def _rows_of(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("body string").format("json").load(str(folder / "rows"))


def _shuffled(spark: SparkSession, folder: Path) -> DataFrame:
    """The same rows from other partitions in another order, and with a body that is never the same
    but for its number."""
    return (
        _rows_of(spark, folder)
        .repartition(5)
        .withColumn("tags", (functions.rand() * 1e9).cast("int").cast("string"))
    )


def test_a_batch_that_was_half_sent_is_finished_as_it_was_begun(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The broker dies while the driver sends, the query fails; then it starts again with another
    plan."""
    needs_spark("writing a stream", OLDEST_FOR_STREAM_WRITES)
    rows = 20 * ROWS
    numbers(spark, rows, 3).write.json(str(tmp_path / "rows"))
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start_broker("broker-a", defaultTopicQueueNums=QUEUES)
        topic = "Once"
        query = _begun(_rows_of(spark, tmp_path), cluster, topic, tmp_path)
        wait_until(lambda: _stored(cluster, topic) > ROWS)
        cluster.kill_broker("broker-a")
        with pytest.raises(PySparkException, match="deliveryTimeout"):
            query.awaitTermination()
        cluster.start_broker("broker-a", defaultTopicQueueNums=QUEUES)
        wait_until(lambda: _stored(cluster, topic) >= ROWS)
        before = _stored(cluster, topic)
        assert before < rows
        _begun(_shuffled(spark, tmp_path), cluster, topic, tmp_path).awaitTermination()
        found = messages(cluster, topic, rows)
        assert Counter(int(each.body) for each in found) == Counter(range(rows))
        assert {each.tags for each in found} == {None}, "rows of the first attempt, all of them"


def _stored(cluster: Cluster, topic: str) -> int:
    try:
        return stored(cluster, topic)
    except RocketMQError:
        return 0


def test_writes_of_one_id_are_counted(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    """As from ``foreachBatch``: a batch that is done again writes nothing, the next one does."""
    options = {**GUARANTEE, "stagingLocation": tmp_path, "writeId": "w"}
    for batch in (0, 1, 1, 2):
        write(numbers(spark, 100), shared, with_queues, **options, batchId=batch)
    assert numbers_in(shared, with_queues) == Counter(dict.fromkeys(range(100), 3))
    assert [path.name for path in (tmp_path / "w").iterdir()] == ["2"]
    with pytest.raises(PySparkException, match="give that, too"):
        write(
            numbers(spark, 1), shared, with_queues, **GUARANTEE, stagingLocation=tmp_path, batchId=3
        )
