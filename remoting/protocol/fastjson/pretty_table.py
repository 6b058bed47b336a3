"""Tables that are written again and again, pretty as fastjson does it, when hardly anything in them
has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..wire import Record
from .writer import dumps_pretty, record_members


class PrettyTable:
    """``dumps_pretty`` of a Record whose maps hold Records: the text of an entry is kept while it
    is the same object.

    (Records do not change, and the maps must not either.) With 5,000 topics, one of them new, the
    text takes 0.7 ms, not 40. Not for two threads at once.
    """

    __slots__ = ("_maps",)

    def __init__(self) -> None:
        self._maps: Final[dict[str, _KeptMap]] = {}

    def text(self, record: Record) -> str:
        """The very text of ``dumps_pretty``."""
        members = (
            (name, wire_name, getattr(record, name))
            for name, wire_name in record_members(type(record))
        )
        lines = [
            f'\n\t"{wire_name}":{self._value(name, value)}'
            for name, wire_name, value in members
            if value is not None
        ]
        return "{" + ",".join(lines) + "\n}"

    def _value(self, name: str, value: Any) -> str:
        if isinstance(value, dict) and isinstance(next(iter(value.values()), None), Record):
            return self._maps.setdefault(name, _KeptMap()).text(value)
        return dumps_pretty(value, 1)


class _KeptMap:
    """One map, as it was the last time."""

    __slots__ = ("_entries", "_texts")

    def __init__(self) -> None:
        self._entries: Mapping[str, Record] = {}
        self._texts: dict[str, str] = {}

    def text(self, entries: Mapping[str, Record]) -> str:
        before, texts = self._entries, self._texts
        for key in [key for key, record in entries.items() if before.get(key) is not record]:
            texts[key] = f"\n\t\t{dumps_pretty(key)}:{dumps_pretty(entries[key], 2)}"
        if list(texts) != list(entries):
            self._texts = texts = {key: texts[key] for key in entries}
        self._entries = entries
        return "{" + ",".join(texts.values()) + "\n\t}"
