"""Filters on records as they lie in the commit log, as a pull hands them to the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from ...remoting.protocol.sys_flag import MessageSysFlag

_SYS_FLAG_AT: Final = 39
_HEAD_SIZE: Final = 88
_V6_EXTRA: Final = 12
_TURN_US: Final = 800
_RECORD_US: Final = 1.2
_STEP_US: Final = 0.45


class RecordFilter(Protocol):
    """What is asked for messages one by one."""

    @property
    def scan_limit(self) -> int:
        """How many messages may be looked at in one turn of the event loop: about a millisecond's work."""

    def accepts(self, data: Any, start: int, stop: int) -> bool:
        """Whether the record ``data[start:stop]`` of a mapped file is wanted."""

    @property
    def size_bytes(self) -> int:
        """About the memory that it alone keeps from being freed."""

    @property
    def accepts_ext(self) -> Callable[[Any], bool] | None:
        """Whether a message may be wanted, from the ``ExtUnit`` of its consume queue alone; ``None``: that does not tell."""


def scan_limit(cost: int) -> int:
    """For a filter of that many steps; measured on a slow machine."""
    return max(1, int(_TURN_US / (_RECORD_US + _STEP_US * cost)))


def record_properties(data: Any, start: int, stop: int) -> bytes:
    """The property string of a record; nothing when its sizes do not add up."""
    flags = data[start + _SYS_FLAG_AT]
    body_at = start + _HEAD_SIZE
    if flags & MessageSysFlag.BORN_HOST_V6:
        body_at += _V6_EXTRA
    if flags & MessageSysFlag.STORE_HOST_V6:
        body_at += _V6_EXTRA
    topic_at = body_at + int.from_bytes(data[body_at - 4 : body_at], "big")
    if topic_at >= stop:
        return b""
    properties: bytes = data[topic_at + 3 + data[topic_at] : stop]
    return properties
