"""How far a stream is behind, as Spark tells it to a listener."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from aiorocketmq.spark_connector.lag import Lag, lag_listener

from .cluster import Cluster
from .test_spark_source import Sink, drain, load_stream, make, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_batch_is_told_with_what_is_left(
    spark: SparkSession, shared: Cluster, topic: str, tmp_path: Path
) -> None:
    make(shared, topic, 20)
    stream = load_stream(spark, shared, topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    seen: list[Lag] = []
    listener = lag_listener(seen.append)
    spark.streams.addListener(listener)
    drain(stream, Sink(), tmp_path / "checkpoint")
    wait_until(lambda: len(seen) >= 2, "Spark tells of its batches")
    spark.streams.removeListener(listener)
    assert {lag.source for lag in seen} == {f"RocketMQ[Subscribe[{topic}]]"}
    assert [(lag.offsets, lag.rows, lag.losses) for lag in seen[:2]] == [(10, 10, 0)] * 2
    assert [(lag.total, lag.most) for lag in seen[:2]] == [(10, 5), (0, 0)]
