"""SQL92 filters, ready for use (classes SqlFilter, FilterFactory; ``broker-services.md`` §7.2,
§7.3).

>>> wanted = sql_filter("a BETWEEN 0 AND 3 AND region IN ('north', 'south')")
>>> wanted.matches(b"a\\x012\\x02region\\x01north"), wanted.matches(b"a\\x012")
(True, False)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final
from weakref import WeakValueDictionary

from ...remoting.protocol.message.properties import decode_properties, find_property
from ...remoting.protocol.sql92.evaluation import EvaluationError
from ...remoting.protocol.sql92.lexer import MAX_EXPRESSION_LENGTH, FilterError
from ...remoting.protocol.sql92.parser import parse
from .records import record_properties, scan_limit

_BYTES_PER_CHARACTER: Final = 60
_MAX_SEARCHED_NAMES: Final = 4
"""Up to so many properties are searched one by one; for more the whole string is split."""


class SqlFilter:
    """One expression, compiled. It is a ``RecordFilter``; see there for ``scan_limit``."""

    __slots__ = ("__weakref__", "_few", "_run", "scan_limit", "size_bytes", "text")
    accepts_ext = None

    def __init__(self, text: str) -> None:
        """Raises ``FilterError``."""
        parsed = parse(text)
        self.text: str = text
        self.scan_limit: int = scan_limit(parsed.cost)
        self.size_bytes: int = _BYTES_PER_CHARACTER * len(text)
        self._run = parsed.run
        names = sorted(parsed.names)
        self._few = (
            [(name, name.encode()) for name in names] if len(names) <= _MAX_SEARCHED_NAMES else None
        )

    def matches(self, properties: bytes) -> bool:
        """Whether a message with these (encoded) properties is wanted: only if the expression is
        true for it.

        Neither NULL nor what cannot be evaluated is true.
        """
        if self._few is None:
            values = decode_properties(properties)
        else:
            values = {}
            for name, encoded in self._few:
                value = find_property(properties, encoded)
                if value is not None:
                    values[name] = value.decode("utf-8", "replace")
        try:
            return self._run(values.get) is True
        except EvaluationError:
            return False

    def accepts(self, data: Any, start: int, stop: int) -> bool:
        return self.matches(record_properties(data, start, stop))

    def __repr__(self) -> str:
        return f"SqlFilter({self.text!r})"


_in_use: Final[WeakValueDictionary[str, SqlFilter]] = WeakValueDictionary()
"""However many pulls are held with an expression, it is compiled once."""


@lru_cache(maxsize=128)
def _cached(text: str) -> SqlFilter | FilterError:
    found = _in_use.get(text)
    if found is None:
        try:
            found = _in_use[text] = SqlFilter(text)
        except FilterError as error:
            return error
    return found


def sql_filter(text: str) -> SqlFilter:
    """The compiled expression; errors are remembered too, clients repeat them. Raises
    ``FilterError``."""
    if len(text) > MAX_EXPRESSION_LENGTH:
        return SqlFilter(text)  # raises, and is nothing to remember
    found = _cached(text)
    if isinstance(found, FilterError):
        raise FilterError(found.position, found.reason)
    return found
