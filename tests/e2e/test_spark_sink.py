"""Writing DataFrames to real brokers with real Spark: what arrives, what is refused, what is there
twice and how to tell."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException
from pyspark.sql import functions

from aiorocketmq import MessageQueue
from aiorocketmq.client.producer.queue_choice import choose_by_key
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.spark_connector.session.spark_version import OLDEST_FOR_STREAM_WRITES
from aiorocketmq.spark_connector.sink.dedup import SPARK_DEDUP_ID, drop_spark_duplicates

from .cluster import PATIENCE_S, Cluster, create_topic
from .spark_session import needs_spark
from .spark_writes import (
    QUEUES,
    ROWS,
    ids_of,
    load,
    messages,
    numbers,
    stopping_half_way,
    stored,
    wait_until,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# --- what arrives
# --------------------------------------------------------------------------------------------------


def test_everything_that_a_message_has(
    spark: SparkSession, shared: Cluster, with_queues: str
) -> None:
    schema = (
        "topic string, body binary, keys array<string>, tags string, properties "
        "map<string,string>, queueId int, "
        "brokerName string, flag int, delayLevel int"
    )
    rows = [
        (
            with_queues,
            "Grüße ☃".encode(),
            ["k1", "k2"],
            "tag",
            {"own": "1", "größe": "x\x01y"},
            3,
            "broker-a",
            -5,
            None,
        ),
        (with_queues, b"\x00" * 5000, None, None, None, None, None, None, 0),
        (f"{with_queues}-2", b"late", [], "", {}, None, None, 7, 1),
    ]
    write(spark.createDataFrame(rows, schema), shared, compressThreshold=4096)

    by_body = {message.body: message for message in messages(shared, with_queues)}
    full, long = by_body["Grüße ☃".encode()], by_body[b"\x00" * 5000]
    assert (full.keys, full.tags, full.flag, full.queue_id) == (("k1", "k2"), "tag", -5, 3)
    assert (full.properties["own"], full.properties["größe"]) == ("1", "x\x01y")
    assert len(long.stored_body) < 100
    assert long.sys_flag & MessageSysFlag.COMPRESSED
    assert (long.keys, long.tags, long.flag) == ((), None, 0)
    assert (
        len({*full.properties["UNIQ_KEY"], *long.properties["UNIQ_KEY"]} - set("0123456789ABCDEF"))
        == 0
    )
    (late,) = messages(shared, f"{with_queues}-2", 1)
    assert (late.body, late.flag, late.tags) == (b"late", 7, None)
    assert late.store_timestamp - late.born_timestamp > 800


def test_many_rows_arrive_once_and_in_batches(
    spark: SparkSession, shared: Cluster, with_queues: str
) -> None:
    write(numbers(spark), shared, with_queues, batchBytes="16k")
    found = messages(shared, with_queues)
    assert Counter(int(message.body) for message in found) == Counter(range(ROWS))
    assert Counter(message.queue_id for message in found).keys() == set(range(QUEUES))
    assert len({message.born_timestamp for message in found}) < ROWS / 20
    prefixes = {id_.rpartition("/")[0].rpartition("/") for id_ in ids_of(found)}
    assert {partition for _, _, partition in prefixes} == {"0", "1"}
    assert len({write_id for write_id, _, _ in prefixes}) == 1
    assert len(set(ids_of(found))) == ROWS


def test_rows_of_a_key_are_in_one_queue_and_in_order(
    spark: SparkSession, shared: Cluster, with_queues: str
) -> None:
    frame = spark.range(0, ROWS, 1, 1).selectExpr(
        "cast(id as string) body", "concat('key', id % 13) shardingKey"
    )
    write(frame, shared, with_queues, batchBytes="2k")
    queues = [MessageQueue(with_queues, "broker-a", number) for number in range(QUEUES)]
    order: dict[int, list[int]] = defaultdict(list)
    for message in messages(shared, with_queues):
        assert message.queue_id == choose_by_key(queues, f"key{int(message.body) % 13}").queue_id
        order[message.queue_id].append(int(message.body))
    assert all(rows == sorted(rows) for rows in order.values())
    assert sum(map(len, order.values())) == ROWS


def test_rows_of_a_task_stay_together_when_asked(
    spark: SparkSession, shared: Cluster, with_queues: str
) -> None:
    write(numbers(spark), shared, with_queues, orderly="true", batchBytes="2k", dedupId="false")
    found = messages(shared, with_queues)
    assert [int(message.body) for message in found] == list(range(ROWS))
    assert {message.queue_id for message in found} == {0, 1}
    assert not any(SPARK_DEDUP_ID in message.properties for message in found)


@pytest.mark.parametrize("queues", [3, QUEUES])
def test_what_was_read_is_written_as_it_is(
    spark: SparkSession, shared: Cluster, with_queues: str, queues: int
) -> None:
    frame = numbers(spark, 50, 1).selectExpr(
        "body",
        "'t' tags",
        "'k1 k2' keys",
        "map('own', body) properties",
        "cast(body % 4 as int) queueId",
    )
    write(frame, shared, with_queues)
    copy = f"{with_queues}-{queues}"
    asyncio.run(create_topic(shared.namesrv, copy, queues))
    source = load(spark, shared, with_queues, includeProperties="true").withColumn(
        "total", functions.lit(1.5)
    )
    write(source, shared, copy)
    before, after = messages(shared, with_queues), messages(shared, copy)
    assert len({message.queue_id for message in before}) == QUEUES
    assert Counter(int(message.body) for message in after) == Counter(range(50))
    assert {(message.tags, *message.keys) for message in after} == {("t", "k1", "k2")}
    assert all(message.properties["own"] == message.body.decode() for message in after)
    assert not set(ids_of(before)) & set(ids_of(after))
    for queue_id in range(QUEUES):  # each queue is in one queue, in its order
        bodies = [message.body for message in before if message.queue_id == queue_id]
        copied = [message for message in after if message.body in bodies]
        assert [message.body for message in copied] == bodies
        assert len({message.queue_id for message in copied}) == 1
        assert queues < QUEUES or copied[0].queue_id == queue_id


# --- what is refused
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["overwrite", "error", "ignore"])
def test_a_topic_is_only_appended_to(
    spark: SparkSession, shared: Cluster, topic: str, mode: str
) -> None:
    problem = "cannot be overwritten" if mode == "overwrite" else "cannot be written in the"
    with pytest.raises(PySparkException, match=problem):
        numbers(spark, 1).write.format("rocketmq").mode(mode).options(
            nameServer=shared.namesrv, topic=topic
        ).save()


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        (["'x' value"], {}, r"withColumnRenamed\(.*value.*body"),
        (["'x' body"], {"batchByte": "1m"}, "did you mean batchBytes"),
        (["cast(null as string) body"], {}, "has no body"),
        (["'x' body", "9 queueId"], {}, "has no queue 9 on broker-a"),
        (["'x' body", "1.5 flag"], {}, "flag must be int"),
    ],
)
def test_what_cannot_be_written(
    spark: SparkSession,
    shared: Cluster,
    with_queues: str,
    columns: list[str],
    options: dict[str, str],
    problem: str,
) -> None:
    with pytest.raises(PySparkException, match=problem):
        write(spark.range(1).selectExpr(*columns), shared, with_queues, **options)
    assert stored(shared, with_queues) == 0


# --- streams
# --------------------------------------------------------------------------------------------------


class Stream:
    """A query from text files to a topic, run until all files are written."""

    def __init__(self, spark: SparkSession, cluster: Cluster, topic: str, folder: Path) -> None:
        self.spark, self.cluster, self.topic = spark, cluster, topic
        self.files, self.checkpoint = folder / "files", folder / "checkpoint"
        self.files.mkdir()

    def add(self, name: str, lines: Sequence[int]) -> None:
        partial = self.files / f".{name}"
        partial.write_text("".join(f"{line}\n" for line in lines))
        partial.rename(self.files / name)

    def run(self, **options: str) -> None:
        rows = self.spark.readStream.text(str(self.files)).select(
            functions.col("value").alias("body")
        )
        writer = rows.writeStream.format("rocketmq").options(
            nameServer=self.cluster.namesrv, topic=self.topic, **options
        )
        query = (
            writer.option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(4 * PATIENCE_S)
        assert query.exception() is None

    def forget(self, batch: int) -> None:
        """As after a crash between the end of the batch and its commit."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_a_batch_that_is_replayed_has_the_same_ids(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    needs_spark("writing a stream", OLDEST_FOR_STREAM_WRITES)
    stream = Stream(spark, shared, with_queues, tmp_path)
    stream.add("one", range(100))
    stream.run()
    stream.add("two", range(100, 150))
    stream.run()
    before = messages(shared, with_queues)
    assert Counter(int(message.body) for message in before) == Counter(range(150))
    query_id = json.loads((stream.checkpoint / "metadata").read_text())["id"]
    assert {id_.rpartition("/")[0] for id_ in ids_of(before)} == {
        f"{query_id}/0/0",
        f"{query_id}/1/0",
    }
    stream.forget(1)
    stream.run()
    after = messages(shared, with_queues)
    assert Counter(ids_of(after)) == Counter(ids_of(before)) + Counter(
        id_ for id_ in ids_of(before) if "/1/0/" in id_
    )
    of_id = {(message.properties[SPARK_DEDUP_ID], int(message.body)) for message in after}
    assert len(of_id) == 150
    once = drop_spark_duplicates(load(spark, shared, with_queues, includeProperties="true"))
    assert Counter(int(row.body) for row in once.collect()) == Counter(range(150))


def test_messages_of_two_topics_are_no_duplicates(spark: SparkSession) -> None:
    """No sink has marked them, and their places differ by the topic alone."""
    columns = "topic string, brokerName string, queueId int, queueOffset bigint"
    rows: list[tuple[object, ...]] = [("T", "a", 0, 5, {}), ("U", "a", 0, 5, {})]
    frame = spark.createDataFrame(rows, f"{columns}, properties map<string,string>")
    assert drop_spark_duplicates(frame).count() == 2


def test_complete_results_cannot_be_written(
    spark: SparkSession, shared: Cluster, topic: str, tmp_path: Path
) -> None:
    needs_spark("writing a stream", OLDEST_FOR_STREAM_WRITES)
    counts = (
        spark.readStream.format("rate")
        .load()
        .groupBy("value")
        .count()
        .selectExpr("cast(count as string) body")
    )
    writer = (
        counts.writeStream.format("rocketmq")
        .outputMode("complete")
        .options(nameServer=shared.namesrv, topic=topic)
    )
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.start().awaitTermination(4 * PATIENCE_S)


def test_results_of_a_batch_in_a_stream_have_ids_of_the_users_choice(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    """``foreachBatch`` is for results that change; a replay is known by ``dedupPrefix`` and the
    keys of a row."""
    stream = Stream(spark, shared, with_queues, tmp_path)

    def upsert(batch: DataFrame, number: int) -> None:
        counts = batch.groupBy(functions.length("value").alias("digits")).count()
        rows = counts.selectExpr("concat(digits, ':', count) body", "digits")
        write(rows, shared, with_queues, dedupPrefix=f"digits-{number}", dedupKeyColumns="digits")

    def run() -> None:
        lines = spark.readStream.text(str(stream.files))
        query = lines.writeStream.foreachBatch(upsert).option(
            "checkpointLocation", str(stream.checkpoint)
        )
        assert query.trigger(availableNow=True).start().awaitTermination(4 * PATIENCE_S)

    stream.add("one", range(50))
    run()
    stream.forget(0)
    run()
    found = messages(shared, with_queues)
    assert Counter(message.body for message in found) == Counter({b"1:10": 2, b"2:40": 2})
    assert len(set(ids_of(found))) == 2
    assert all(id_.startswith("digits-0/k/") for id_ in ids_of(found))


def test_rows_of_two_batches_have_ids_of_their_own_behind_one_prefix(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    """Rows are numbered from 0 in each: readers would take the second batch for the first one."""
    numbers(spark, 40, 2).write.json(str(tmp_path / "rows"))
    rows = spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).format("json")

    def write_batch(frame: DataFrame, _number: int) -> None:
        write(frame, shared, with_queues, dedupPrefix="mine")

    query = rows.load(str(tmp_path / "rows")).writeStream.foreachBatch(write_batch)
    assert query.trigger(availableNow=True).start().awaitTermination(4 * PATIENCE_S)
    found = messages(shared, with_queues)
    assert len(found) == len(set(ids_of(found))) == 40
    assert {id_.rpartition("/")[0] for id_ in ids_of(found)} == {"mine/0/0", "mine/1/0"}


# --- what is tried again
# --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
def test_a_task_that_is_tried_again_writes_the_same_ids(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    def meanwhile() -> None:
        try:
            wait_until((tmp_path / "reached").exists)
            wait_until(
                lambda: any(int(message.body) < 400 for message in messages(shared, with_queues))
            )
        finally:
            (tmp_path / "go").touch()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(meanwhile)
        write(stopping_half_way(spark, tmp_path, fail_once=True), shared, with_queues)
        other.result()
    found = messages(shared, with_queues)
    assert len(found) > ROWS
    assert {int(message.body) for message in found} == set(range(ROWS))
    assert len(set(ids_of(found))) == ROWS
    body_of = {message.properties[SPARK_DEDUP_ID]: message.body for message in found}
    assert all(body_of[message.properties[SPARK_DEDUP_ID]] == message.body for message in found)
    assert load(spark, shared, with_queues).count() == len(found)
    write(numbers(spark, 4 * ROWS), shared, with_queues)  # so much that it is worth several tasks
    for queue_id in (0, 1):  # one task for each queue would not see it
        bound = numbers(spark, 100).withColumn("queueId", functions.lit(queue_id))
        write(bound, shared, with_queues, dedupPrefix="twice")
    once = load(spark, shared, with_queues, dropSparkDuplicates="true")
    twice = Counter(range(ROWS)) + Counter(range(4 * ROWS)) + Counter(range(100))
    assert Counter(int(row.body) for row in once.collect()) == twice
    assert (
        drop_spark_duplicates(load(spark, shared, with_queues, includeProperties="true")).count()
        == 5 * ROWS + 100
    )
