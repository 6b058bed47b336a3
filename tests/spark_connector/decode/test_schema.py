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
    property_types,
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


def test_properties_as_columns() -> None:
    types = property_types(" city:String, amount:DOUBLE ,a:b:long, n:integer")
    assert types == {"city": "string", "amount": "double", "a:b": "bigint", "n": "int"}
    assert property_types(None) == {}
    assert chosen_columns("body", True, types) == ("body", "properties", *types)
    assert chosen_columns("AMOUNT,body", False, types) == ("amount", "body", "city", "a:b", "n")
    with pytest.raises(ConfigError, match="no 'price'"):
        chosen_columns("body,price", False, types)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("city", "such as city:string,amount:double, not 'city'"),
        (":string", "not ':string'"),
        ("city:text", "the types are string, int"),
        ("city:string,", "not ''"),
        ("Tags:string", "Tags is a column of every message already"),
        ("city:string,City:int", "City is the property column city already"),
        (",".join(f"p{n}:int" for n in range(201)), "201 properties, more than 200"),
    ],
)
def test_properties_that_cannot_be_columns(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"option propertyColumns.*{problem}"):
        property_types(text)


def test_columns_of_properties_are_what_spark_makes_of_them() -> None:
    pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import (
        BooleanType,
        DoubleType,
        IntegerType,
        LongType,
        StringType,
        StructType,
        TimestampType,
    )

    types = {
        "s": ("string", StringType()),
        "i": ("int", IntegerType()),
        "l": ("bigint", LongType()),
        "d": ("double", DoubleType()),
        "b": ("boolean", BooleanType()),
        "t": ("timestamp", TimestampType()),
    }
    own = {name: kind for name, (kind, _) in types.items()}
    declared = StructType()
    for name, (_, of_spark) in types.items():
        declared.add(name, of_spark)
    assert arrow_schema(own, own).equals(to_arrow_schema(declared, timezone="UTC"))
    assert spark_schema(("body", "a`b"), {"a`b": "int"}) == "body BINARY, `a``b` INT"


def test_a_schema_of_the_user() -> None:
    pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")
    from pyspark.sql.types import BinaryType, LongType, StringType, StructType

    own = {"amount": "bigint"}
    chosen = StructType().add("body", BinaryType()).add("queueOffset", LongType())
    assert columns_of(chosen, {}) == ("body", "queueOffset")
    assert columns_of(chosen.add("amount", LongType()), own) == ("body", "queueOffset", "amount")
    with pytest.raises(ConfigError, match="no column 'value'"):
        columns_of(StructType().add("value", BinaryType()), own)
    with pytest.raises(ConfigError, match="queueId is int, not bigint"):
        columns_of(StructType().add("queueId", LongType()), own)
    with pytest.raises(ConfigError, match=r"binary, not string: .* cast\(body as string\) behind"):
        columns_of(StructType().add("body", StringType()), own)
    with pytest.raises(ConfigError, match="leave NOT NULL out"):
        columns_of(StructType().add("body", BinaryType(), nullable=False), own)
