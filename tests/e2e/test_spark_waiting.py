"""Brokers that are killed in the middle of a write, and come back or do not: all rows arrive, or an
error says who was waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.access.connection_options import ConnectionOptions
from aiorocketmq.spark_connector.sink.sink import batch_writer

from .cluster import Cluster, create_topic
from .spark_writes import (
    ROWS,
    ids_of,
    messages,
    numbers,
    stopping_half_way,
    stored,
    wait_until,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.usefixtures("small_batches")
def test_a_broker_that_dies_is_got_around(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    for name in ("broker-a", "broker-b"):
        cluster.start_broker(name)
    asyncio.run(create_topic(cluster.namesrv, topic, 2))

    def meanwhile() -> None:
        try:
            wait_until((tmp_path / "reached").exists)
            wait_until(lambda: stored(cluster, topic) > 100)
            cluster.kill_broker("broker-a")
        finally:
            (tmp_path / "go").touch()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(meanwhile)
        write(stopping_half_way(spark, tmp_path, fail_once=False), cluster, topic)
        other.result()
    cluster.start_broker("broker-a")
    found = messages(cluster, topic, ROWS)
    assert {int(message.body) for message in found} == set(range(ROWS))
    assert len(set(ids_of(found))) == ROWS
    assert {message.broker_name for message in found} == {"broker-a", "broker-b"}


@pytest.mark.usefixtures("small_batches")
def test_the_only_broker_may_be_away_for_a_while(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.start_broker()
    asyncio.run(create_topic(cluster.namesrv, topic, 2))

    def meanwhile() -> None:
        try:
            wait_until((tmp_path / "reached").exists)
            wait_until(lambda: stored(cluster, topic) > 100)
            cluster.kill_broker("broker-a")
        finally:
            (tmp_path / "go").touch()
        time.sleep(4)  # longer than any pause, and than a refusal would be tried
        cluster.start_broker("broker-a")

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(meanwhile)
        write(stopping_half_way(spark, tmp_path, fail_once=False), cluster, topic)
        other.result()
    found = messages(cluster, topic, ROWS)
    assert {int(message.body) for message in found} == set(range(ROWS))
    assert len(set(ids_of(found))) == ROWS
    assert not (tmp_path / "attempt 1").exists()
    cluster.kill_broker("broker-a")
    why = f"{topic} waited 1 s .option deliveryTimeout. for a broker of {topic} in vain"
    with pytest.raises(PySparkException, match=why):
        write(numbers(spark, 10), cluster, topic, deliveryTimeout="1s")


@pytest.mark.parametrize("dies_at", [0, 50])
def test_rows_of_a_queue_wait_for_its_broker_and_the_log_says_so(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture, dies_at: int
) -> None:
    """In this process, as a task would write them: the log of a worker goes elsewhere."""
    cluster.start_broker("broker-a")
    cluster.start_broker("broker-b")
    asyncio.run(create_topic(cluster.namesrv, topic, 1))
    schema = (
        StructType().add("body", "string").add("queueId", "integer").add("brokerName", "string")
    )
    access = BrokerAccess(ConnectionOptions((cluster.namesrv,)))
    columns = [("body", "string"), ("queueId", "int32"), ("brokerName", "string")]

    def batches() -> Iterator[pyarrow.RecordBatch]:
        for number in range(100):
            if number == dies_at:
                if dies_at:
                    wait_until(lambda: stored(cluster, topic) >= dies_at - 10)
                cluster.kill_broker("broker-a")
                wait_until(lambda: access.registered_brokers() == {"broker-b"})
            row = {"body": [str(number)], "queueId": [0], "brokerName": ["broker-a"]}
            yield pyarrow.RecordBatch.from_pydict(row, pyarrow.schema(columns))

    def meanwhile() -> None:
        wait_until(lambda: "wait for the broker broker-a" in caplog.text)
        cluster.start_broker("broker-a")

    options = {"nameServer": cluster.namesrv, "topic": topic}
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(meanwhile)
        assert batch_writer(options, schema, False).write(batches()).rows == 100
        other.result()
    found = messages(cluster, topic)
    assert {(message.broker_name, message.queue_id) for message in found} == {("broker-a", 0)}
    bodies = list(dict.fromkeys(int(message.body) for message in found))
    assert bodies == list(range(100))
    said = [each.getMessage() for each in caplog.records if each.name.endswith(".sink.waiting")]
    assert len(said) == 2
    assert "wait for the broker broker-a, for 120 s at most" in said[0]
    assert dies_at == 0 or cluster.brokers["broker-a"].address in said[0]
    assert "go on after" in said[1]
