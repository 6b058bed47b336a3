"""Tables of text (classes KVTable, KVConfigSerializeWrapper)."""

from __future__ import annotations

from msgspec import field

from ..wire import Record


class KVTable(Record, frozen=True, kw_only=True):
    """Names and values: runtime info of a broker, a namespace of the KV config, order config in a
    registration's reply."""

    table: dict[str, str] = field(default_factory=dict)
