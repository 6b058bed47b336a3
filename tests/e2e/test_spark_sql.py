"""Topics in SQL, and over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException

from aiorocketmq.spark_connector.session.spark_version import OLDEST_FOR_STREAM_READS

from .cluster import Cluster
from .spark_session import connect_address, needs_spark
from .spark_writes import messages, numbers, stored, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def view(spark: SparkSession) -> Iterator[str]:
    """The name of a temporary view that a test may make."""
    yield "topic_view"
    spark.catalog.dropTempView("topic_view")


def options(cluster: Cluster, topic: str) -> str:
    return f"OPTIONS (`rocketmq.namesrv.addr` '{cluster.namesrv}', topic '{topic}')"


def test_a_view_is_read_and_written(
    spark: SparkSession, shared: Cluster, with_queues: str, view: str
) -> None:
    needs_spark("INSERT INTO with some of the columns", (4, 1))
    write(numbers(spark, 10), shared, with_queues)
    made = f"TEMPORARY VIEW {view} USING rocketmq {options(shared, with_queues)}"
    spark.sql(f"CREATE {made}")
    total = spark.sql(f"SELECT sum(cast(cast(body AS string) AS int)) FROM {view}").first()
    assert total is not None
    assert total[0] == 45
    spark.sql(f"INSERT INTO {view} (body, tags, keys) VALUES (encode('a', 'utf-8'), 't', 'k1 k2')")
    spark.sql(f"CREATE OR REPLACE {made}")  # to see what is there now
    spark.sql(f"INSERT INTO {view} (body, tags) SELECT body, tags FROM {view} WHERE tags = 't'")
    found = [message for message in messages(shared, with_queues) if message.tags == "t"]
    assert sorted((message.body, message.keys) for message in found) == [
        (b"a", ()),
        (b"a", ("k1", "k2")),
    ]
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        spark.sql(f"INSERT OVERWRITE {view} (body) VALUES (X'41')")


def test_properties_are_columns_of_a_view(
    spark: SparkSession, shared: Cluster, with_queues: str, view: str
) -> None:
    frame = numbers(spark, 10).selectExpr("body", "map('size', cast(body as string)) properties")
    write(frame, shared, with_queues)
    own = options(shared, with_queues).replace(")", ", propertyColumns 'size:int')")
    spark.sql(f"CREATE TEMPORARY VIEW {view} USING rocketmq {own}")
    total = spark.sql(f"SELECT sum(size), typeof(max(size)) FROM {view} WHERE size > 3").first()
    assert total is not None
    assert tuple(total) == (39, "int")


def test_a_view_for_writing_has_columns_of_its_own(
    spark: SparkSession, shared: Cluster, with_queues: str, view: str
) -> None:
    columns = "(body string, shardingKey string)"
    spark.sql(
        f"CREATE TEMPORARY VIEW {view} {columns} USING rocketmq {options(shared, with_queues)}"
    )
    spark.sql(f"INSERT INTO {view} SELECT cast(id AS string), 'same' FROM range(0, 9, 1, 1)")
    found = messages(shared, with_queues)
    assert [message.body for message in found] == [b"%d" % number for number in range(9)]
    assert len({message.queue_id for message in found}) == 1


@pytest.mark.parametrize(
    ("source", "more"),
    [
        ("rocketmq", ""),
        ("rocketmq", "LOCATION '/tmp/somewhere'"),
        ("`rocketmq-store`", ""),
    ],
)
def test_tables_of_the_catalog_are_refused(
    spark: SparkSession, shared: Cluster, topic: str, source: str, more: str
) -> None:
    with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE t USING {source} {options(shared, topic)} {more}")
    assert not spark.catalog.tableExists("t")


def test_tables_that_spark_makes_without_asking_say_it_when_they_are_used(
    spark: SparkSession, shared: Cluster, with_queues: str
) -> None:
    made = f"USING rocketmq {options(shared, with_queues)}"
    why = "No option has arrived at all; .* use CREATE TEMPORARY VIEW"
    with pytest.raises(PySparkException, match=why):
        spark.sql(f"CREATE TABLE t1 {made} AS SELECT 'x' body")
    spark.sql(f"CREATE TABLE t2 (body string) {made}")
    try:
        for statement in ("SELECT * FROM t2", "INSERT INTO t2 VALUES ('x')"):
            with pytest.raises(PySparkException, match=why):
                spark.sql(statement).collect()
    finally:
        spark.sql("DROP TABLE t2")
    assert stored(shared, with_queues) == 0


def test_all_of_it_over_spark_connect(
    spark: SparkSession, shared: Cluster, with_queues: str
) -> None:
    """The server is the session of all tests, the client a process of its own."""
    if (remote := connect_address(spark)) is None:
        pytest.skip("Spark Connect is not installed: pip install 'aiorocketmq[spark-connect]'")
    needs_spark("this test", OLDEST_FOR_STREAM_READS)
    client = Path(__file__).with_name("spark_connect_client.py")
    environment = {name: each for name, each in os.environ.items() if "SPARK" not in name}
    done = subprocess.run(
        [sys.executable, str(client), remote, shared.namesrv, with_queues],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("kind").startswith("pyspark.sql.connect")
    assert found == {
        "schema": "struct<number:bigint>",
        "numbers": list(range(20)),
        "streamed": 20,
        "inserted": ["A"],
    }
