"""Spark knows both formats by itself, in every session: nothing is registered by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .cluster import Cluster
from .spark_session import REPOSITORY

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
