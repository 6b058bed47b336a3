"""``guarantee=exactly_once``: rows are in their topic once, whatever is tried again and whatever
the plan makes of them the second time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
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

from .cluster import PATIENCE_S, Cluster
from .raft_group import RaftGroup
from .spark_once_driver import GUARANTEE, begun, killed_at_the_end, partition_id, rows_of
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

    Plan = Callable[[SparkSession, Path], DataFrame]

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
HALF_SENT = 10 * ROWS
"""Rows of a batch that takes long enough to be caught while it is sent."""


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
    names = {path.name for path in (staging / "w1" / "0").iterdir()}
    assert names == {"manifest.json", "place", "done"}
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
    return begun(frame, cluster.namesrv, topic, folder, deliveryTimeout="1s", sendTimeoutMs="500ms")


def _tagged(frame: DataFrame) -> DataFrame:
    """With a tag that is never the same."""
    return frame.withColumn("tags", (functions.rand() * 1e9).cast("int").cast("string"))


def _shuffled(spark: SparkSession, folder: Path) -> DataFrame:
    """The same rows from other partitions in another order."""
    return _tagged(rows_of(spark, folder).repartition(5))


def _joined(spark: SparkSession, folder: Path, hint: str) -> DataFrame:
    return rows_of(spark, folder).join(numbers(spark, HALF_SENT).hint(hint), "body")


def _merged(spark: SparkSession, folder: Path) -> DataFrame:
    """In the order of what they are joined by."""
    return _joined(spark, folder, "merge")


def _hashed(spark: SparkSession, folder: Path) -> DataFrame:
    """In the order of their files, as when the other side has become small."""
    return _tagged(_joined(spark, folder, "broadcast"))


def _in_partitions(spark: SparkSession, folder: Path, count: int) -> DataFrame:
    """Spark keeps to the number that the checkpoint has, whatever it is told the second time."""
    spark.conf.set(SHUFFLE_PARTITIONS, count)
    return rows_of(spark, folder).repartition("body")


def _mapped(spark: SparkSession, folder: Path) -> DataFrame:
    """By a function in Python."""
    same = functions.udf(lambda body: body, "string")
    return _in_partitions(spark, folder, 2).withColumn("body", same("body"))


def _mapped_anew(spark: SparkSession, folder: Path) -> DataFrame:
    """By one that says itself that it gives something else each time."""

    def any_tag() -> str:
        import uuid

        return uuid.uuid4().hex

    tag = functions.udf(any_tag, "string").asNondeterministic()
    return _in_partitions(spark, folder, 7).withColumn("tags", tag())


@pytest.fixture
def shuffle_partitions(spark: SparkSession) -> Iterator[None]:
    """They are after the test as they were before."""
    before = spark.conf.get(SHUFFLE_PARTITIONS)
    yield
    spark.conf.set(SHUFFLE_PARTITIONS, before)


@pytest.mark.usefixtures("shuffle_partitions")
@pytest.mark.parametrize(
    ("plan", "another"),
    [
        pytest.param(rows_of, _shuffled, id="shuffle"),
        pytest.param(_merged, _hashed, id="join"),
        pytest.param(_mapped, _mapped_anew, id="functions"),
    ],
)
def test_a_batch_that_was_half_sent_is_finished_as_it_was_begun(
    spark: SparkSession, tmp_path: Path, plan: Plan, another: Plan
) -> None:
    """The broker dies while the driver sends, the query fails; then it starts again with another
    plan."""
    needs_spark("writing a stream", OLDEST_FOR_STREAM_WRITES)
    rows = HALF_SENT
    numbers(spark, rows, 3).write.json(str(tmp_path / "rows"))
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start_broker("broker-a", defaultTopicQueueNums=QUEUES)
        topic = "Once"
        query = _begun(plan(spark, tmp_path), cluster, topic, tmp_path)
        wait_until(lambda: _stored(cluster, topic) > ROWS)
        cluster.kill_broker("broker-a")
        with pytest.raises(PySparkException, match="deliveryTimeout"):
            query.awaitTermination()
        cluster.start_broker("broker-a", defaultTopicQueueNums=QUEUES)
        wait_until(lambda: _stored(cluster, topic) >= ROWS)
        before = _stored(cluster, topic)
        assert before < rows
        _begun(another(spark, tmp_path), cluster, topic, tmp_path).awaitTermination()
        found = messages(cluster, topic, rows)
        assert Counter(int(each.body) for each in found) == Counter(range(rows))
        assert {each.tags for each in found} == {None}, "rows of the first attempt, all of them"


def test_a_driver_that_is_killed_goes_on_with_another_number_of_cores(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    """It had one, which read all files as one partition; its processes die while it sends."""
    needs_spark("writing a stream", OLDEST_FOR_STREAM_WRITES)
    numbers(spark, HALF_SENT, 3).write.json(str(tmp_path / "rows"))
    with killed_at_the_end(shared.namesrv, with_queues, tmp_path):
        # Spark's own start, which takes half a minute where others start theirs as well, so far
        wait_until((tmp_path / "checkpoint" / "offsets").exists, 4 * PATIENCE_S)
        wait_until(lambda: stored(shared, with_queues) > ROWS)
    assert ROWS < stored(shared, with_queues) < HALF_SENT
    again = rows_of(spark, tmp_path).withColumn("tags", partition_id())
    begun(again, shared.namesrv, with_queues, tmp_path).awaitTermination()
    found = messages(shared, with_queues)
    assert Counter(int(each.body) for each in found) == Counter(range(HALF_SENT))
    assert {each.tags for each in found} == {"p0"}, "as the first driver has staged them"
    once_more = spark.read.json(str(tmp_path / "rows")).select(partition_id().alias("tags"))
    assert once_more.distinct().count() > 1, "the second one has read them in another way"


def test_another_leader_of_a_group_knows_what_of_a_batch_is_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two of three are killed while the driver sends, so it has to give up. One of them comes back,
    but not the leader, and the whole batch is sent again."""
    with RaftGroup(tmp_path / "group") as group:
        group.start()
        leader = asyncio.run(group.complete())
        asyncio.run(group.create_topic("Once"))
        follower = next(name for name in group.names if name != leader)

        def lose_two() -> None:
            wait_until(lambda: _stored(group, "Once") > ROWS)
            group.kill(leader, follower)

        def write_all(**options: str) -> None:
            write(
                numbers(spark, HALF_SENT), group, "Once", **GUARANTEE, writeId="w", batchBytes=1024,
                stagingLocation=tmp_path / "staging", sendTimeoutMs="500ms", **options,
            )  # fmt: skip

        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(lose_two)
            with pytest.raises(PySparkException, match="deliveryTimeout"):
                write_all(deliveryTimeout="1s")
            lost.result()
        group.start(follower)
        assert asyncio.run(group.leader(leader)) != leader
        assert ROWS < _stored(group, "Once") < HALF_SENT
        write_all()
        assert numbers_in(group, "Once") == Counter(range(HALF_SENT))


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


def test_in_foreach_batch_a_write_has_the_number_of_its_batch(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    """Or the second one would be taken for the first one, repeated."""
    numbers(spark, 100, 3).write.json(str(tmp_path / "rows"))
    rows = spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).format("json")
    staging = {**GUARANTEE, "writeId": "w", "stagingLocation": tmp_path / "staging"}

    def write_batch(frame: DataFrame, _number: int) -> None:
        write(frame, shared, with_queues, **staging)

    query = rows.load(str(tmp_path / "rows")).writeStream.foreachBatch(write_batch)
    query.trigger(availableNow=True).start().awaitTermination()
    assert numbers_in(shared, with_queues) == Counter(range(100))
    assert [path.name for path in (tmp_path / "staging" / "w").iterdir()] == ["2"]


def test_in_foreach_batch_a_write_is_that_of_its_query(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    """By its checkpoint: with a new one the batches count from 0 again, and are other ones."""
    numbers(spark, 100, 2).write.json(str(tmp_path / "rows"))
    rows = spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).format("json")
    staging = {**GUARANTEE, "writeId": "w", "stagingLocation": tmp_path / "staging"}

    def write_batch(frame: DataFrame, number: int) -> None:
        write(frame, shared, with_queues, **staging, batchId=number)

    def run(checkpoint: str) -> None:
        query = rows.load(str(tmp_path / "rows")).writeStream.foreachBatch(write_batch)
        query = query.option("checkpointLocation", str(tmp_path / checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    run("old")
    (tmp_path / "old" / "commits" / "1").unlink()
    (tmp_path / "old" / "commits" / ".1.crc").unlink(missing_ok=True)
    run("old")
    with pytest.raises(PySparkException, match="counts its batches from 0 again"):
        run("new")
    with pytest.raises(PySparkException, match="this write is of no query"):
        write(numbers(spark, 1), shared, with_queues, **staging)
    assert numbers_in(shared, with_queues) == Counter(range(100))


def test_in_foreach_batch_two_writes_have_two_ids(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    """Or the second one would be taken for the first one, repeated; also when the query, which
    fails, is started again."""
    numbers(spark, 100, 1).write.json(str(tmp_path / "rows"))
    rows = spark.readStream.schema("body string").format("json").load(str(tmp_path / "rows"))
    staging = {**GUARANTEE, "stagingLocation": tmp_path / "staging"}

    def run(second: str) -> None:
        def write_batch(frame: DataFrame, _number: int) -> None:
            write(frame.where("body < 60"), shared, with_queues, **staging, writeId="w")
            write(frame.where("body >= 60"), shared, with_queues, **staging, writeId=second)

        query = rows.writeStream.foreachBatch(write_batch)
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    for _ in range(2):
        with pytest.raises(PySparkException, match="give each write of a foreachBatch an id of"):
            run("w")
        assert numbers_in(shared, with_queues) == Counter(range(60))
    run("second")
    assert numbers_in(shared, with_queues) == Counter(range(100))
