"""The columns that can be written (spark.md §5.2): their names, types, and what is wrong with a
schema. Needs no Spark.

============ ======================== ==============================================================
column       type                     meaning
============ ======================== ==============================================================
body         string or binary         required, never null or empty
topic        string                   required unless the option ``topic`` is given, which wins
keys         string or array<string>  indexed by the broker; a string holds several, separated by
                                      spaces
tags         string                   what consumers filter by
properties   map<string,string>       the user's own
queueId      whole number             write to this queue of ``brokerName`` (or of the topic's only
                                      broker)
brokerName   string                   together with ``queueId``
shardingKey  string or whole number   equal keys go to the same queue, the one that a Java producer
                                      chooses
delayLevel   whole number             1 to 18: held back by the broker; 0 or null: not
flag         whole number             the user's own number
============ ======================== ==============================================================

A whole number is ``int``, ``bigint``, ``smallint`` or ``tinyint``. Everything but ``body`` and
``topic`` may be null. Other columns are not written, as with Kafka's sink, so that what was read
from a topic can be written to another one as it is.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ...client.errors import ConfigError
from ..decode.schema import SOURCE_COLUMNS

__all__ = ["WRITE_COLUMNS", "check_columns", "was_read"]

log: Final = logging.getLogger(__name__)

_TEXT: Final = ("string",)
_NUMBER: Final = ("int", "bigint", "smallint", "tinyint")
WRITE_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "topic": _TEXT,
    "keys": ("string", "array<string>"),
    "tags": _TEXT,
    "properties": ("map<string,string>",),
    "body": ("string", "binary"),
    "queueId": _NUMBER,
    "brokerName": _TEXT,
    "shardingKey": (*_TEXT, *_NUMBER),
    "delayLevel": _NUMBER,
    "flag": _NUMBER,
}
"""Column to the types it may have, as Spark writes them."""
_ONLY_READ: Final = frozenset(SOURCE_COLUMNS) - frozenset(WRITE_COLUMNS)


def check_columns(
    types: Mapping[str, str], *, topic_given: bool, not_sent: Sequence[str] = ()
) -> None:
    """Raise ``ConfigError`` for what cannot be written. ``types``: column to type as in a DDL
    string; ``not_sent``: further columns, which only say what makes a row (``dedupKeyColumns``)."""
    if "body" not in types:
        near = next((name for name in types if _column_for(name) == "body"), "...")
        raise ConfigError(
            f"there is no column body among {_listed(types)}: withColumnRenamed('{near}', 'body')"
        )
    if "topic" not in types and not topic_given:
        raise ConfigError(
            "nothing says where to write to: give the option topic, or a column topic"
        )
    for name in not_sent:
        if name not in types:
            raise ConfigError(
                f"dedupKeyColumns names {name}, which is not among the columns {_listed(types)}"
            )
    for name, kind in types.items():
        if name in WRITE_COLUMNS:
            _check_type(name, kind)
        elif name not in not_sent and name not in _ONLY_READ:
            _tell_ignored(name, types)
    if "brokerName" in types and "queueId" not in types and not was_read(types):
        raise ConfigError(
            "the column brokerName says which broker a queueId means: give queueId too"
        )


def was_read(names: Collection[str]) -> bool:
    """These are columns of messages that were read from a topic: ``queueId`` and ``brokerName`` say
    first of all where they were."""
    return "queueOffset" in names


def _check_type(name: str, kind: str) -> None:
    if kind not in (allowed := WRITE_COLUMNS[name]):
        how = (
            "to_json_body(frame) of aiorocketmq.spark_connector.payload makes one of all columns"
            if name == "body"
            else f"cast({name} as {allowed[0]})"
        )
        raise ConfigError(f"the column {name} must be {' or '.join(allowed)}, not {kind}: {how}")


def _tell_ignored(name: str, types: Mapping[str, str]) -> None:
    """A name that is meant for another column is worth a word, and an error where nothing else can
    be meant."""
    meant = _column_for(name)
    if meant is None or meant in types:
        return
    if meant.lower() == name.lower():
        raise ConfigError(
            f"the column {name} is written as {meant}: withColumnRenamed('{name}', '{meant}')"
        )
    log.warning("the column %s is not written; did you mean %s?", name, meant)


def _column_for(name: str) -> str | None:
    known = {column.lower(): column for column in WRITE_COLUMNS} | {
        "value": "body",
        "key": "keys",
        "partition": "queueId",
    }
    return known.get(name.lower()) or next(
        iter(difflib.get_close_matches(name, WRITE_COLUMNS, 1)), None
    )


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names)
