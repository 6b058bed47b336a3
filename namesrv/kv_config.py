"""Key-value configuration, by namespace (class KVConfigManager; ``namesrv.md`` §5.9). Pure.

The one namespace with a meaning to the system is ``ORDER_TOPIC_CONFIG``: topic to
``broker-a:4;broker-b:4``, the queues of an ordered topic. In a file::

    {"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}
"""

from __future__ import annotations

from collections.abc import Mapping

from ..remoting.protocol.fastjson import reader as fastjson
from ..remoting.protocol.fastjson import writer as fastjson_writer

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"


MAX_BYTES = 4 * 1024 * 1024
"""Of all names, keys and values in JSON: a namespace has to fit into an answer, and every change
writes the whole file."""
ENTRY_BYTES = 200
"""An entry counts as so many more: to write it takes as long as to write so long a text."""
_REFERENCE = "$ref"


class KvConfigError(ValueError):
    """The text is no KV configuration, or there would be too much of it."""


class KvConfig:
    """The table. A namespace stays when its last key goes, as in the original."""

    def __init__(self, table: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._table = {namespace: dict(entries) for namespace, entries in (table or {}).items()}
        self._bytes = sum(
            _bytes_of(namespace, *entries.keys(), *entries.values()) + ENTRY_BYTES * len(entries)
            for namespace, entries in self._table.items()
        )

    @classmethod
    def from_json(cls, text: str) -> KvConfig:
        """Raises ``KvConfigError``. Values of ``null``, which the original lets in, count as
        absent."""
        try:
            document = fastjson.loads(text)
        except ValueError as error:
            raise KvConfigError(f"not JSON: {error}") from None
        table = document.get("configTable") if isinstance(document, dict) else None
        if not isinstance(table, dict) or not all(
            isinstance(entries, dict) for entries in table.values()
        ):
            raise KvConfigError(
                'it must have the form {"configTable":{"<namespace>":{"<key>":"<value>"}}}'
            )
        return cls(
            {
                str(namespace): {
                    str(key): str(value) for key, value in entries.items() if value is not None
                }
                for namespace, entries in table.items()
            }
        )

    def to_json(self) -> str:
        return fastjson_writer.dumps({"configTable": self._table}).decode()

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Raises ``KvConfigError`` for a key that the file could not hold, and when the table would
        hold more than ``MAX_BYTES``."""
        if key == _REFERENCE:
            raise KvConfigError(
                f"{key} cannot be a key: in JSON it is read as a reference to something else"
            )
        entries = self._table.get(namespace)
        old = None if entries is None else entries.get(key)
        added = _bytes_of(value) - (0 if old is None else _bytes_of(old))
        if old is None:
            added += _bytes_of(key) + ENTRY_BYTES
        if entries is None:
            added += _bytes_of(namespace)
        if added > 0 and self._bytes + added > MAX_BYTES:
            raise KvConfigError(
                f"the KV configuration holds {self._bytes} of {MAX_BYTES} bytes (an entry counts "
                f"{ENTRY_BYTES} besides its JSON), {key} does not fit"
            )
        self._bytes += added
        self._table.setdefault(namespace, {})[key] = value

    def delete(self, namespace: str, key: str) -> None:
        old = self._table.get(namespace, {}).pop(key, None)
        if old is not None:
            self._bytes -= _bytes_of(key, old) + ENTRY_BYTES

    def namespaces(self) -> list[str]:
        """The names of all namespaces."""
        return list(self._table)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """All entries of a namespace, ``None`` when there never was one of that name."""
        return self._table.get(namespace)


def _bytes_of(*texts: str) -> int:
    return sum(len(fastjson_writer.dumps(text)) for text in texts)
