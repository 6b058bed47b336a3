"""Tables of Spark's catalog (``CREATE TABLE ... USING rocketmq``, ``saveAsTable``), which no source
that is written in Python can be.

Spark mixes properties of the table into the options when it asks such a source for its columns, and
hands over no options at all when the table is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ...client.errors import ConfigError

__all__ = ["no_catalog_table"]

_PROPERTY_OF_A_TABLE: Final = "provider"


@contextmanager
def no_catalog_table(name: str, options: Mapping[str, str]) -> Iterator[None]:
    """Around what parses the options of the format ``name``. Raises ``ConfigError`` for those of a
    table, and says it of those that are wrong for want of any."""
    hint = (
        f"a table of the catalog (CREATE TABLE, saveAsTable) cannot have the format {name}, as "
        "Spark does not hand over its options: use CREATE TEMPORARY VIEW ... USING "
        f"`{name}` OPTIONS (...), or load() and save()"
    )
    if _PROPERTY_OF_A_TABLE in options:
        raise ConfigError(hint)
    try:
        yield
    except ConfigError as error:
        if options:
            raise
        raise ConfigError(f"{error}. No option has arrived at all; {hint}") from None
