"""The two message ids and the packed form of a host (message-encoding.md §4.5).

A packed host is the address (4 or 16 bytes) and the port as a 4-byte integer: 8 bytes for IPv4, 20
for IPv6::

    offset message id   hex of  packed store host | physical offset (8)
    unique message id   hex of  address | pid (2) | hash (4) | time (4) | counter (2)

Either has 32 or 56 characters.
The length does not tell the two kinds apart.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

_HOST_SIZES: Final = (8, 20)
_HEX: Final = tuple(f"{number:02X}" for number in range(256))
"""A third of the cost of a format."""


class OffsetMessageId(NamedTuple):
    """Where a message lies: the broker's packed host and the physical offset in its commit log."""

    store_host: bytes
    phy_offset: int


def pack_host(address: str, port: int) -> bytes:
    """``("127.0.0.1", 10911)`` to 8 bytes, an IPv6 address to 20; a port takes four bytes.

    An IPv4 address mapped into IPv6 (``::ffff:1.2.3.4``, what a dual-stack socket reports) is
    packed as IPv4; a scope (``fe80::1%eth0``) is dropped, there is no space for it. Raises
    ValueError for anything else than an address, and for a number that is no port.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if not 0 <= port < 1 << 32:
        raise ValueError(f"{port} is no port")
    return parsed.packed + port.to_bytes(4, "big")


@lru_cache(maxsize=4096)
def unpack_host(packed: bytes) -> tuple[str, int]:
    """The address as text and the port. The port is taken as it is: four bytes of a record prove
    nothing."""
    if len(packed) not in _HOST_SIZES:
        raise ValueError(f"a packed host has 8 or 20 bytes, not {len(packed)}")
    return str(ipaddress.ip_address(packed[:-4])), int.from_bytes(packed[-4:], "big")


def format_host(packed: bytes) -> str:
    """``127.0.0.1:10911`` or ``[::1]:10911``."""
    address, port = unpack_host(packed)
    return f"[{address}]:{port}" if len(packed) == 20 else f"{address}:{port}"


def offset_message_id(store_host: bytes, phy_offset: int) -> str:
    """The id that the broker gives: where the message lies."""
    return f"{store_host.hex().upper()}{phy_offset & 0xFFFF_FFFF_FFFF_FFFF:016X}"


def parse_offset_message_id(text: str) -> OffsetMessageId:
    """The parts of an offset message id, upper or lower case. Raises ValueError when it cannot be
    one."""
    if len(text) not in (32, 56):
        raise ValueError(
            f"message id {text!r} has {len(text)} characters, expected 32 (IPv4) or 56 (IPv6)"
        )
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise ValueError(f"message id {text!r} is not hexadecimal") from error
    if 2 * len(data) != len(text):  # fromhex skips white space
        raise ValueError(f"message id {text!r} is not hexadecimal")
    return OffsetMessageId(data[:-8], int.from_bytes(data[-8:], "big", signed=True))


class UniqIdGenerator:
    """Makes the id that the producer gives (property UNIQ_KEY; MessageClientIDSetter).

    ``month_of(now_ms)`` returns when the month of that instant starts and when the next one does,
    in ms and in local time: the id holds milliseconds since the start of the month. A clock that
    stepped back over the start of the month by less than 1,000 s gives 0, as in the original.
    """

    __slots__ = (
        "_counter",
        "_head",
        "_head_of",
        "_month_end",
        "_month_of",
        "_month_start",
        "_prefix",
    )

    def __init__(
        self, ip: bytes, pid: int, hash_code: int, month_of: Callable[[int], tuple[int, int]]
    ) -> None:
        if len(ip) not in (4, 16):
            raise ValueError(f"an IP address has 4 or 16 bytes, not {len(ip)}")
        self._prefix = f"{ip.hex().upper()}{pid & 0xFFFF:04X}{hash_code & 0xFFFFFFFF:08X}"
        self._month_of = month_of
        self._month_start = 0
        self._month_end = 0
        self._counter = itertools.count().__next__  # so that threads never get the same number
        self._head = ""
        self._head_of = -1

    def next(self, now_ms: int) -> str:
        """A new id. The counter may wrap: it only has to tell the ids of one millisecond apart."""
        if now_ms != self._head_of:
            self._head, self._head_of = self._head_at(now_ms), now_ms
        number = self._counter()
        return f"{self._head}{_HEX[number >> 8 & 0xFF]}{_HEX[number & 0xFF]}"

    def _head_at(self, now_ms: int) -> str:
        """What the ids of one millisecond have in common."""
        if now_ms >= self._month_end:
            self._month_start, self._month_end = self._month_of(now_ms)
        elapsed = now_ms - self._month_start
        if -1_000_000 < elapsed < 0:
            elapsed = 0
        return f"{self._prefix}{elapsed & 0xFFFFFFFF:08X}"
