"""Python twin of ``checksums.pxi``."""

from __future__ import annotations

import zlib


def crc32(data: bytes | bytearray | memoryview, value: int = 0, /) -> int:
    """zlib's CRC-32 of anything bytes-like, going on from ``value`` (0 to 2**32 - 1).

    Compiled: with carry-less multiplication where the processor has it, 2 to 5 times faster than
    zlib.
    """
    return zlib.crc32(data, value)
