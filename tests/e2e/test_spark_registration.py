"""Spark knows both formats by itself, in every session: nothing is registered by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiorocketmq.spark_connector.registration import register
from aiorocketmq.spark_connector.session.spark_version import OLDEST_FOR_STREAM_READS

from .cluster import Cluster
from .spark_session import REPOSITORY, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.errors", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException


def test_a_session_and_the_next_one_know_the_topics(
    spark: SparkSession, shared: Cluster, topic: str
) -> None:
    for session in (spark, spark.newSession()):
        with pytest.raises(PySparkException, match=topic):
            session.read.format("rocketmq").option("nameServer", shared.namesrv).option(
                "topic", topic
            ).load().count()


def test_a_stream_adds_nothing_to_what_queries_share(
    spark: SparkSession, shared: Cluster, with_queues: str, tmp_path: Path
) -> None:
    """Spark puts variables into the environment of a format, a map that the tasks of all queries
    are written down with: to add one meanwhile spoils a task."""
    needs_spark("reading a stream", OLDEST_FOR_STREAM_READS)
    session = spark.newSession()
    register(session)
    jvm: Any = session._jsparkSession
    manager = jvm.sessionState().dataSourceManager()
    names = manager.lookupDataSource("rocketmq").dataSourceCls().envVars().keySet()
    before = set(names)
    reader = session.readStream.format("rocketmq").option("nameServer", shared.namesrv)
    writer = reader.option("subscribe", with_queues).load().writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert before == set(names)
    assert "SPARK_BUFFER_SIZE" in before
    assert "SPARK_BUFFER_SIZE" not in session.sparkContext.environment


def test_what_is_wrong_with_the_options_is_told(spark: SparkSession) -> None:
    with pytest.raises(
        PySparkException, match="give exactly one of the options subscribe"
    ) as refused:
        spark.read.format("rocketmq").option("nameServer", "ns:9876").load()
    assert str(REPOSITORY / "spark_connector") not in str(refused.value), (
        "this is not the installed copy"
    )


def test_store_directories_have_a_format_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match=str(tmp_path / "nothing")):
        spark.read.format("rocketmq-store").load(str(tmp_path / "nothing")).count()
