"""The columns of a DataFrame of messages: names, Spark SQL types and the Arrow types Spark insists
on (spark.md §2.3, §5.2).

Spark compares the schema of the first batch of every task with its own translation of the declared
one: same order, same types, everything nullable. Both translations start from the one table here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...client.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = [
    "ARROW_TYPES",
    "DEFAULT_COLUMNS",
    "PROPERTY_TYPES",
    "SOURCE_COLUMNS",
    "arrow_schema",
    "chosen_columns",
    "columns_of",
    "property_types",
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

PROPERTY_TYPES: Final = {
    "string": "string",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "double": "double",
    "boolean": "boolean",
    "timestamp": "timestamp",
}
"""Types of columns of properties, by the names that Spark has for them."""
MOST_PROPERTIES: Final = 200
"""Columns of properties; the limit keeps a mistake in a program from becoming a plan of Spark."""

ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


def property_types(text: str | None) -> dict[str, str]:
    """The option ``propertyColumns``: properties separated by commas, each with its type behind a
    colon; Spark SQL types by name.

    Raises ConfigError for a type that there is not, and for a name that another column has: Spark
    does not tell capital letters from small ones.
    """
    types: dict[str, str] = {}
    taken = {name.lower(): "a column of every message" for name in SOURCE_COLUMNS}
    for part in (text or "").split(","):
        name, colon, kind = (each.strip() for each in part.rpartition(":"))
        if not colon or not name or kind.lower() not in PROPERTY_TYPES:
            if text is None:
                break
            raise ConfigError(
                "option propertyColumns takes names of properties with their types, such as "
                f"city:string,amount:double, not {part.strip()!r}; the types are "
                f"{', '.join(PROPERTY_TYPES)}"
            )
        if (other := taken.get(name.lower())) is not None:
            raise ConfigError(
                f"option propertyColumns: {name} is {other} already, and Spark does not tell "
                "capital letters from small ones: take this property out of the map "
                "(includeProperties=true)"
            )
        taken[name.lower()] = f"the property column {name}"
        types[name] = PROPERTY_TYPES[kind.lower()]
    if len(types) > MOST_PROPERTIES:
        raise ConfigError(
            f"option propertyColumns names {len(types)} properties, more than {MOST_PROPERTIES}: "
            "take them out of the map (includeProperties=true)"
        )
    return types


def chosen_columns(
    text: str | None, include_properties: bool = False, properties: Iterable[str] = ()
) -> tuple[str, ...]:
    """The columns that the options ``columns`` (names separated by commas), ``includeProperties``
    and ``propertyColumns`` ask for, in that order.

    Raises ConfigError for a name that there is not, a name that comes twice and a list without a
    name.
    """
    names = (
        DEFAULT_COLUMNS
        if text is None
        else tuple(name for part in text.split(",") if (name := part.strip()))
    )
    known = (*SOURCE_COLUMNS, *properties)
    spelled = {name.lower(): name for name in known}
    if unknown := [name for name in names if name.lower() not in spelled]:
        raise ConfigError(
            f"option columns: there is no {', '.join(map(repr, unknown))}; the columns are "
            f"{', '.join(known)}, and those that the option propertyColumns names"
        )
    columns = tuple(spelled[name.lower()] for name in names)
    if not columns or len(set(columns)) < len(columns):
        raise ConfigError(
            f"option columns must name at least one column, and each only once, not {text!r}"
        )
    added = (*(("properties",) if include_properties else ()), *properties)
    return (*columns, *(name for name in added if name not in columns))


def columns_of(schema: StructType, properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of the schema that Spark reads with: ours, or one that the user gave
    (``.schema(...)``) to choose some.

    Raises ConfigError for a column that there is not, for another type, and for NOT NULL.
    """
    types = {**SOURCE_COLUMNS, **properties}
    for field in schema.fields:
        expected, given = types.get(field.name), field.dataType.simpleString()
        if expected is None:
            raise ConfigError(
                f"there is no column {field.name!r}; the columns are {', '.join(types)} (in these "
                "capital and small letters), and those that the option propertyColumns names; what "
                "is in a body becomes columns behind load(): json_columns of "
                "aiorocketmq.spark_connector.payload"
            )
        if given != expected:
            raise ConfigError(
                f"the column {field.name} is {expected}, not {given}: leave the schema out, or say "
                f"{expected} there, and cast({field.name} as {given}) behind load()"
            )
        if not field.nullable:
            raise ConfigError(
                f"the column {field.name} may be null: leave NOT NULL out of the schema"
            )
    return tuple(schema.fieldNames())


def spark_schema(columns: Iterable[str], properties: Mapping[str, str] | None = None) -> str:
    """The columns, some of which are ``properties``, as Spark's DDL."""
    own = properties or {}
    return ", ".join(
        f"{_quoted(name)} {own[name].upper()}"
        if name in own
        else f"{name} {SOURCE_COLUMNS[name].upper()}"
        for name in columns
    )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def arrow_schema(columns: Iterable[str], properties: Mapping[str, str] | None = None) -> pa.Schema:
    """The columns as Arrow has them: what Spark's ``to_arrow_schema(schema, timezone="UTC")`` makes
    of ``spark_schema``."""
    return _arrow_schema(tuple(columns), tuple((properties or {}).items()))


@lru_cache(maxsize=64)
def _arrow_schema(columns: tuple[str, ...], properties: tuple[tuple[str, str], ...]) -> pa.Schema:
    types = {**SOURCE_COLUMNS, **dict(properties)}
    return pa.schema([pa.field(name, ARROW_TYPES[types[name]]) for name in columns])
