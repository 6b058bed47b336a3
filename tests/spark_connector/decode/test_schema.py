"""The two translations of the table of columns: Spark's and ours must agree to the letter."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.decode.schema import (
    DEFAULT_COLUMNS,
    SOURCE_COLUMNS,
    arrow_schema,
    chosen_columns,
    columns_of,
    spark_schema,
)


@pytest.mark.parametrize(
    "columns", [tuple(SOURCE_COLUMNS), DEFAULT_COLUMNS, ("body",), ("properties", "body", "topic")]
)
def test_arrow_schema_is_what_spark_makes_of_the_declared_one(columns: tuple[str, ...]) -> None:
    pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import (
        BinaryType,
        IntegerType,
        LongType,
        MapType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    types = {
        "string": StringType(),
        "int": IntegerType(),
        "bigint": LongType(),
        "binary": BinaryType(),
        "timestamp": TimestampType(),
        "map<string,string>": MapType(StringType(), StringType()),
    }
    declared = StructType([StructField(name, types[SOURCE_COLUMNS[name]]) for name in columns])
    assert spark_schema(columns) == ", ".join(
        f"{field.name} {field.dataType.simpleString().upper()}" for field in declared
    )
    theirs = to_arrow_schema(declared, timezone="UTC")
    assert arrow_schema(columns).equals(theirs)
    assert str(arrow_schema(columns)) == str(theirs)


def test_chosen_columns() -> None:
    assert chosen_columns(None) == DEFAULT_COLUMNS
    assert chosen_columns(None, True) == (*DEFAULT_COLUMNS, "properties")
    assert chosen_columns(" Body ,queueoffset") == ("body", "queueOffset")
    assert chosen_columns("properties,body", True) == ("properties", "body")


@pytest.mark.parametrize("text", ["body,value", "", " , ", "body,Body"])
def test_columns_that_cannot_be(text: str) -> None:
    with pytest.raises(ConfigError, match="option columns"):
        chosen_columns(text)


def test_a_schema_of_the_user() -> None:
    pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")
    from pyspark.sql.types import BinaryType, LongType, StructType

    assert columns_of(StructType().add("body", BinaryType()).add("queueOffset", LongType())) == (
        "body",
        "queueOffset",
    )
    with pytest.raises(ConfigError, match="no column 'value'"):
        columns_of(StructType().add("value", BinaryType()))
    with pytest.raises(ConfigError, match="queueId is int, not bigint"):
        columns_of(StructType().add("queueId", LongType()))
