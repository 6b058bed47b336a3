"""Bodies of text to columns and back, with Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from py4j.protocol import Py4JJavaError
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.payload import (
    csv_columns,
    infer_json_schema,
    json_columns,
    to_csv_body,
    to_json_body,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("item", StringType()),
        StructField("price", DoubleType()),
    ]
)
GOOD = (7, "Grüße", 2.5)


@pytest.fixture(scope="module")
def bodies(spark: SparkSession) -> DataFrame:
    """Five messages."""
    texts = [
        json.dumps(dict(zip(SCHEMA.names, GOOD, strict=True))),
        '{"id": 8}',
        "{broken",
        "",
        '{"id": "x", "item": "y"}',
    ]
    return spark.createDataFrame(
        [(text.encode(), f"tag{number}") for number, text in enumerate(texts)],
        "body binary, tags string",
    )


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


@pytest.mark.parametrize("schema", [SCHEMA, "id long, item string, price double"])
def test_json(bodies: DataFrame, schema: str | StructType) -> None:
    found = json_columns(bodies, schema, keep=["tags"])
    assert found.columns == ["tags", "id", "item", "price"]
    nothing = (None, None, None)
    assert rows(found.orderBy("tags")) == [
        ("tag0", *GOOD), ("tag1", 8, None, None), ("tag2", *nothing), ("tag3", *nothing),
        ("tag4", None, "y", None),
    ]  # fmt: skip


def test_json_that_is_malformed(bodies: DataFrame) -> None:
    assert {row[0] for row in rows(json_columns(bodies, SCHEMA, malformed="drop"))} == {7, 8, None}
    assert json_columns(bodies, SCHEMA, malformed="drop").count() == 3
    kept = json_columns(bodies, SCHEMA, keep=["tags"], malformed="why")
    assert dict(rows(kept.where("why is not null").select("tags", "why"))) == {
        "tag2": "{broken",
        "tag4": '{"id": "x", "item": "y"}',
    }
    with pytest.raises(Py4JJavaError, match="Malformed records are detected"):
        json_columns(bodies, SCHEMA, malformed="fail").collect()


def test_a_column_that_would_come_twice(bodies: DataFrame) -> None:
    with pytest.raises(ConfigError, match="twice: tags"):
        json_columns(bodies, "id long, tags string", keep=["tags"])


def test_csv_and_back(spark: SparkSession) -> None:
    frame = spark.createDataFrame([GOOD, (8, 'a "b", c', None)], SCHEMA)
    written = to_csv_body(frame, keys="item")
    assert written.columns == ["body", "keys"]
    assert rows(csv_columns(written, SCHEMA)) == rows(frame)
    assert rows(
        csv_columns(to_csv_body(frame, options={"sep": ";"}), SCHEMA, options={"sep": ";"})
    ) == rows(frame)


def test_rows_to_json_and_back(spark: SparkSession) -> None:
    frame = spark.createDataFrame([GOOD, (8, None, 0.5)], SCHEMA)
    written = to_json_body(frame, shardingKey="id", tags="item")
    assert written.columns == ["body", "shardingKey", "tags"]
    assert [json.loads(row.body) for row in written.collect()] == [
        {"id": 7, "item": "Grüße", "price": 2.5}, {"id": 8, "price": 0.5},
    ]  # fmt: skip
    assert rows(json_columns(written, infer_json_schema(written))) == rows(frame)


def test_names_of_fields_may_be_anything(spark: SparkSession) -> None:
    text = '{"@id": {"first-name": "x", "a`b": [{"select": 1, "my.f": 2}]}, "c`d": 3}'
    frame = spark.createDataFrame([(text.encode(),)], "body binary")
    found = json_columns(frame, infer_json_schema(frame), malformed="what is wrong")
    [row] = found.collect()
    assert row.asDict(recursive=True) == {**json.loads(text), "what is wrong": None}
    kinds = "m map<string, struct<`x y`: int>>"
    of_map = json_columns(frame, spark.createDataFrame([], kinds).schema)
    assert of_map.schema.simpleString() == "struct<m:map<string,struct<x y:int>>>"
