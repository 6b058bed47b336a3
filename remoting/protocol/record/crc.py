"""The CRC of a record's body."""

from __future__ import annotations

from collections.abc import Callable

from ..leaves import crc32

BodyCrc = Callable[[bytes | memoryview], int]
"""Gives the bodyCRC field of a body."""


def body_crc(body: bytes | memoryview) -> int:
    """The bodyCRC field. The original loses the sign bit so that the number is never negative."""
    return crc32(body) & 0x7FFFFFFF
