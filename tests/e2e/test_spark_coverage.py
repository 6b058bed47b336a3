"""Brokers that are killed while Spark looks away, and what its user gets to know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException

from aiorocketmq.spark_connector.lag import lags

from .cluster import PATIENCE_S, Cluster
from .test_source_coverage import BOTH, filled, kill, make_anew, send, start_again
from .test_spark_source import Sink, drain, load, load_stream, start, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("two")) as cluster:
        yield cluster


@pytest.fixture
def pair(two: Cluster) -> Cluster:
    for name in BOTH:
        start_again(two, name)
    return two


def test_a_broker_is_killed_between_two_runs(
    spark: SparkSession, pair: Cluster, topic: str, tmp_path: Path
) -> None:
    """Neither a batch nor what goes on behind a checkpoint is taken for all."""
    filled(pair, topic)
    sink, frame = Sink(), load_stream(spark, pair, topic, startingOffsets="earliest")
    drain(frame, sink, tmp_path)
    assert sink.numbers == list(range(100))
    send(pair, topic, "broker-a", 100, 110)
    send(pair, topic, "broker-b", 110, 120)
    kill(pair, "broker-b")
    with pytest.raises(PySparkException, match="not on the broker broker-b at present"):
        load(spark, pair, topic, expectedBrokers="broker-a,broker-b").count()
    query = start(frame, sink, tmp_path, availableNow=True)
    with pytest.raises(PySparkException, match="the broker broker-b is away, its queues were not"):
        query.awaitTermination(4 * int(PATIENCE_S))
    assert sink.numbers == list(range(110)), "what is there was read"
    start_again(pair, "broker-b")
    drain(frame, sink, tmp_path)
    assert sink.numbers == list(range(120))


def test_a_topic_is_made_anew_between_two_runs(
    spark: SparkSession, pair: Cluster, topic: str, tmp_path: Path
) -> None:
    """What Spark wrote down tells it, and a batch that goes back to the beginning."""
    filled(pair, topic)
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    drain(load_stream(spark, pair, topic), sink, checkpoint)
    assert sink.numbers == [], "it begins at the end"
    make_anew(pair, topic)
    query = start(load_stream(spark, pair, topic), sink, checkpoint, availableNow=True)
    with pytest.raises(PySparkException, match=r"was made anew.* since it was read up to 30"):
        query.awaitTermination(4 * int(PATIENCE_S))
    frame = load_stream(spark, pair, topic, failOnDataLoss="false", maxOffsetsPerTrigger=50)
    query = drain(frame, sink, checkpoint)
    [lag] = lags(json.loads(query.lastProgress.json))
    assert lag.losses == 4, "each queue is another one"
    assert sink.numbers == list(range(1000, 1110))
    assert sum(size > 0 for size in sink.sizes) == 3


@pytest.mark.parametrize("lenient", [False, True])
def test_a_broker_that_is_away_holds_up_its_own_queues_only(
    spark: SparkSession, pair: Cluster, topic: str, tmp_path: Path, lenient: bool
) -> None:
    """While a query runs; how long it may be away is a matter of ``failOnDataLoss``."""
    filled(pair, topic)
    options = {"rocketmqConsumer.pollTimeoutMs": 15_000, "failOnDataLoss": not lenient}
    frame = load_stream(spark, pair, topic, startingOffsets="earliest", **options)
    sink = Sink()
    query = start(frame, sink, tmp_path, processingTime="100 milliseconds")
    wait_until(lambda: sink.numbers == list(range(100)), "all is read")
    kill(pair, "broker-b")
    send(pair, topic, "broker-a", 100, 110)
    wait_until(lambda: sink.numbers == list(range(110)), "the other broker's queues are read")
    if lenient:
        start_again(pair, "broker-b")
        send(pair, topic, "broker-b", 110, 120)
        wait_until(lambda: sink.numbers == list(range(120)), "its queues are read again")
        query.stop()
    else:
        with pytest.raises(PySparkException, match="the broker broker-b is away for"):
            query.awaitTermination(4 * int(PATIENCE_S))
