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
queueId      int or bigint            write to this queue of ``brokerName`` (or of the topic's only
                                      broker)
brokerName   string                   together with ``queueId``
shardingKey  string, int or bigint    equal keys go to the same queue, the one that a Java producer
                                      chooses
delayLevel   int or bigint            1 to 18: held back by the broker; 0 or null: not
flag         int                      the user's own number
============ ======================== ==============================================================

Everything but ``body`` and ``topic`` may be null.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from ...client.errors import ConfigError

__all__ = ["WRITE_COLUMNS", "check_columns"]

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
        allowed = WRITE_COLUMNS.get(name)
        if allowed is None and name not in not_sent:
            known = _listed(WRITE_COLUMNS)
            raise ConfigError(
                f"the column {name} cannot be written{_perhaps(name)}; the columns are {known}"
            )
        if allowed is not None and kind not in allowed:
            raise ConfigError(f"the column {name} must be {' or '.join(allowed)}, not {kind}")
    if "brokerName" in types and "queueId" not in types:
        raise ConfigError(
            "the column brokerName says which broker a queueId means: give queueId too"
        )


def _perhaps(name: str) -> str:
    near = _column_for(name)
    return f" (did you mean {near}?)" if near else ""


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
