"""What this Spark can do with streams, and what it says where it cannot (``make spark-versions``
runs this with older ones)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException, StreamingQueryException

from aiorocketmq.spark_connector.session.spark_version import (
    OLDEST_FOR_STREAM_READS,
    OLDEST_FOR_STREAM_WRITES,
    problem_with,
)

from .cluster import PATIENCE_S, Cluster
from .spark_writes import QUEUES, numbers, stored, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_to_the_end(stream: DataFrame, folder: Path, sink: str, **options: str) -> None:
    """Raises what ends the query."""
    writer: Any = stream.writeStream.format(sink).trigger(availableNow=True)
    query = writer.options(checkpointLocation=str(folder / "checkpoint"), **options).start()
    assert query.awaitTermination(4 * PATIENCE_S)


def test_streams_are_read_or_refused_in_a_line(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    write(numbers(spark, QUEUES), shared, with_queues)
    where = {"nameServer": shared.namesrv, "topic": with_queues, "startingOffsets": "earliest"}
    stream = spark.readStream.format("rocketmq").options(**where).load()
    if (problem := problem_with("reading a stream", OLDEST_FOR_STREAM_READS)) is None:
        return read_to_the_end(stream, tmp_path, "noop")
    with pytest.raises(StreamingQueryException, match=str(problem)) as told:
        read_to_the_end(stream, tmp_path, "noop")
    assert "UnboundLocalError" not in str(told.value)


def test_what_is_wrong_for_a_stream_alone_is_told(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    where = {"nameServer": shared.namesrv, "topic": with_queues, "endingOffsets": "latest"}
    stream = spark.readStream.format("rocketmq").options(**where).load()
    with pytest.raises(StreamingQueryException, match=r"endingOffsets|reading a stream") as told:
        read_to_the_end(stream, tmp_path, "noop")
    assert "UnboundLocalError" not in str(told.value)


def test_streams_are_written_or_refused_in_a_line(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "one").write_text("a\nb\n")
    stream = spark.readStream.text(str(files)).withColumnRenamed("value", "body")
    where = {"nameServer": shared.namesrv, "topic": with_queues}
    if (problem := problem_with("writing a stream", OLDEST_FOR_STREAM_WRITES)) is None:
        read_to_the_end(stream, tmp_path, "rocketmq", **where)
        assert stored(shared, with_queues) == 2
        return
    with pytest.raises(PySparkException, match=str(problem)):
        read_to_the_end(stream, tmp_path, "rocketmq", **where)
