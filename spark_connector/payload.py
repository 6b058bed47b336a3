"""Bodies that are text: JSON or CSV to columns and back, each in one call.

::

    messages = spark.read.format("rocketmq").load()
    orders = json_columns(messages, "id long, item string, price double")
    columns = "sensor string, at timestamp, celsius double"
    readings = csv_columns(stream, columns, keep=["storeTimestamp"])
    to_json_body(totals, tags="city").write.format("rocketmq")...

A message is one row. What becomes of a body that is no such text, ``malformed`` says: ``"null"``
gives a row of nulls, ``"drop"`` leaves it out, ``"fail"`` ends the query; any other word is the
name of a further column that holds the text of such bodies (null for the good ones). An empty body
is a row of nulls in any case, and of several JSON objects in one body Spark takes the first and
says nothing of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..client.errors import ConfigError
from .session.spark_version import is_older

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

__all__ = ["csv_columns", "infer_json_schema", "json_columns", "to_csv_body", "to_json_body"]

_PARSED: Final = "_parsed"
_MALFORMED: Final = "_malformed"
_MODES: Final = {"null": "PERMISSIVE", "fail": "FAILFAST"}


def json_columns(
    frame: DataFrame,
    schema: str | StructType,
    *,
    body: str = "body",
    keep: Sequence[str] = (),
    malformed: str = "null",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The fields of a JSON object per message as columns, behind the columns to ``keep``.

    ``schema``: ``"id long, item string"`` or a StructType; ``options``: those of Spark's
    ``from_json`` (``timestampFormat``, ...). Raises ``ConfigError`` when a column is not there or
    would come twice.
    """
    from pyspark.sql import functions

    return _columns(frame, schema, functions.from_json, body, keep, malformed, options)


def csv_columns(
    frame: DataFrame,
    schema: str | StructType,
    *,
    body: str = "body",
    keep: Sequence[str] = (),
    malformed: str = "null",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The fields of one CSV line per message as columns, by position, behind the columns to
    ``keep``.

    ``options``: those of Spark's ``from_csv`` (``sep``, ``quote``, ``nullValue``, ...). Raises as
    ``json_columns``.
    """
    from pyspark.sql import functions

    return _columns(frame, schema, functions.from_csv, body, keep, malformed, options)


def to_json_body(frame: DataFrame, **message: str) -> DataFrame:
    """One message per row: all columns as a JSON object in ``body``, and what else a message has,
    by column::

        to_json_body(totals, tags="city", shardingKey="customer")

    A column that is named there is part of the body too. Raises ``ConfigError`` for a column that
    is not there.
    """
    from pyspark.sql import functions

    _check_there(frame, list(message.values()))
    return _with_body(frame, functions.to_json(functions.struct("*")), message)


def to_csv_body(
    frame: DataFrame, *, options: Mapping[str, str] | None = None, **message: str
) -> DataFrame:
    """As ``to_json_body``, with one line of CSV; ``options``: those of Spark's ``to_csv``."""
    from pyspark.sql import functions

    _check_there(frame, list(message.values()))
    return _with_body(frame, functions.to_csv(functions.struct("*"), dict(options or {})), message)


def infer_json_schema(frame: DataFrame, *, body: str = "body", rows: int = 1000) -> StructType:
    """What the first JSON bodies of a batch frame look like; a stream needs the schema of a batch
    read of the same topic."""
    if frame.isStreaming:
        raise ConfigError(
            "a stream cannot be looked at before it runs: infer from a batch read of the same topic"
        )
    texts = frame.selectExpr(f"cast(`{body}` as string) value").limit(rows)
    if is_older(than=(4, 2)):  # it reads RDDs only, which Spark Connect does not have
        return frame.sparkSession.read.json(texts.rdd.map(lambda row: row[0])).schema
    return frame.sparkSession.read.json(texts).schema


def _columns(
    frame: DataFrame,
    schema: str | StructType,
    parse: Any,
    body: str,
    keep: Sequence[str],
    malformed: str,
    options: Mapping[str, str] | None,
) -> DataFrame:
    from pyspark.sql import functions

    ddl = schema if isinstance(schema, str) else _ddl(schema)
    _check_there(frame, [body, *keep])
    settings = {"mode": _MODES.get(malformed, "PERMISSIVE"), **(options or {})}
    corrupt = _corrupt_column(malformed)
    if corrupt is not None:
        ddl = f"{ddl}, {_quoted(corrupt)} string"
        settings["columnNameOfCorruptRecord"] = corrupt
    text = functions.col(body).cast("string")
    parsed = frame.select(*keep, parse(text, ddl, settings).alias(_PARSED)).select(
        *keep, f"{_PARSED}.*"
    )
    names = parsed.columns
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"these columns would come twice: {', '.join(twice)}; leave them out of keep"
        )
    return (
        parsed.where(f"`{_MALFORMED}` is null").drop(_MALFORMED) if malformed == "drop" else parsed
    )


def _corrupt_column(malformed: str) -> str | None:
    """The column that takes the text of bodies that cannot be parsed."""
    if malformed == "drop":
        return _MALFORMED
    return None if malformed in _MODES else malformed


def _with_body(frame: DataFrame, body: Column, message: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions

    return frame.select(
        body.alias("body"), *(functions.col(column).alias(name) for name, column in message.items())
    )


def _check_there(frame: DataFrame, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in frame.columns]:
        raise ConfigError(
            f"there is no column {', '.join(missing)}; the columns are {', '.join(frame.columns)}"
        )


def _ddl(schema: StructType) -> str:
    return ", ".join(
        f"{_quoted(field.name)} {_ddl_of_type(field.dataType)}" for field in schema.fields
    )


def _ddl_of_type(kind: DataType) -> str:
    """As ``simpleString``, with names of fields that may be anything: in JSON they are."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        fields = (f"{_quoted(each.name)}: {_ddl_of_type(each.dataType)}" for each in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_ddl_of_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_ddl_of_type(kind.keyType)}, {_ddl_of_type(kind.valueType)}>"
    text: str = kind.simpleString()
    return text


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
