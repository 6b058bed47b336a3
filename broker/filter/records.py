"""Filters on records as they lie in the commit log, as a pull hands them to the store."""

from __future__ import annotations

from typing import Any, Final, Protocol

from ...remoting.protocol.record.verdict import properties_at
from ...store.read.message_reader import RecordFilter as StoreRecordFilter

_TURN_US: Final = 800
_RECORD_US: Final = 1.2
_STEP_US: Final = 0.45


class RecordFilter(StoreRecordFilter, Protocol):
    """What a pull asks for messages one by one."""

    @property
    def size_bytes(self) -> int:
        """About the memory that it alone keeps from being freed."""


def scan_limit(cost: int) -> int:
    """For a filter of that many steps; measured on a slow machine."""
    return max(1, int(_TURN_US / (_RECORD_US + _STEP_US * cost)))


def record_properties(data: Any, start: int, stop: int) -> bytes:
    """The property string of a record; nothing when its sizes do not add up."""
    found = properties_at(data, start, stop)
    properties: bytes = data[found:stop] if found else b""
    return properties
