"""The columns of a DataFrame of messages: names, Spark SQL types and the Arrow types Spark insists
on (spark.md §2.3, §5.2).

Spark compares the schema of the first batch of every task with its own translation of the declared
one: same order, same types, everything nullable. Both translations start from the one table here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...client.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = [
    "DEFAULT_COLUMNS",
    "SOURCE_COLUMNS",
    "arrow_schema",
    "chosen_columns",
    "columns_of",
    "spark_schema",
]

SOURCE_COLUMNS: Final[dict[str, str]] = {
    "topic": "string",
    "brokerName": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "msgId": "string",
    "offsetMsgId": "string",
    "keys": "string",
    "tags": "string",
    "properties": "map<string,string>",
    "body": "binary",
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "bornHost": "string",
    "storeHost": "string",
    "flag": "int",
    "sysFlag": "int",
    "reconsumeTimes": "int",
}
"""Every column there is and its Spark SQL type.

``msgId`` is the producer's id (property UNIQ_KEY), without one the broker's; ``offsetMsgId`` the
broker's; ``keys`` the index keys as they were sent, separated by spaces; ``properties`` all
properties, the system's too.
"""

DEFAULT_COLUMNS: Final = (
    "topic", "brokerName", "queueId", "queueOffset", "msgId", "keys", "tags", "body",
    "bornTimestamp", "storeTimestamp",
)  # fmt: skip
"""What a reader gets that asks for nothing in particular. Without the map of properties, the
dearest column."""

_ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


def chosen_columns(text: str | None, include_properties: bool = False) -> tuple[str, ...]:
    """The columns that the options ``columns`` (names separated by commas) and
    ``includeProperties`` ask for, in that order.

    Raises ConfigError for a name that there is not, a name that comes twice and a list without a
    name.
    """
    names = (
        DEFAULT_COLUMNS
        if text is None
        else tuple(name for part in text.split(",") if (name := part.strip()))
    )
    spelled = {name.lower(): name for name in SOURCE_COLUMNS}
    if unknown := [name for name in names if name.lower() not in spelled]:
        raise ConfigError(
            f"option columns: there is no {', '.join(map(repr, unknown))}; the columns are "
            f"{', '.join(SOURCE_COLUMNS)}"
        )
    columns = tuple(spelled[name.lower()] for name in names)
    if not columns or len(set(columns)) < len(columns):
        raise ConfigError(
            f"option columns must name at least one column, and each only once, not {text!r}"
        )
    return (
        (*columns, "properties") if include_properties and "properties" not in columns else columns
    )


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of the schema that Spark reads with: ours, or one that the user gave
    (``.schema(...)``) to choose some.

    Raises ConfigError for a column that there is not, and for another type.
    """
    for field in schema.fields:
        expected, given = SOURCE_COLUMNS.get(field.name), field.dataType.simpleString()
        if expected is None:
            raise ConfigError(
                f"there is no column {field.name!r}; the columns are {', '.join(SOURCE_COLUMNS)}"
            )
        if given != expected:
            raise ConfigError(f"the column {field.name} is {expected}, not {given}")
    return tuple(schema.fieldNames())


def spark_schema(columns: Iterable[str]) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"{name} {SOURCE_COLUMNS[name].upper()}" for name in columns)


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    """The columns as Arrow has them: what Spark's ``to_arrow_schema(schema, timezone="UTC")`` makes
    of ``spark_schema``."""
    return _arrow_schema(tuple(columns))


@lru_cache(maxsize=64)
def _arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, _ARROW_TYPES[SOURCE_COLUMNS[name]]) for name in columns])
