"""Patterns of peer addresses in ACL files (class RemoteAddressStrategyFactory;
``broker-services.md`` §13).

===============================  ==================================================================
nothing                          no address
``*``, ``*.*.*.*``, ``*:*:...``  every address
``10.0.0.7``, ``fe80::7``        that one
``10.0.0.{7,8}``                 the last part is one of these
``10.0.3-5.*``                   parts may be ranges, or anything
``10.0.0.7,10.0.1.*``            any of these
===============================  ==================================================================

Every part is looked at; the original stops at the first range or ``*`` and takes anything behind
it.

>>> matches = address_pattern("10.0.{1,2}.3-5, fe80::*")
>>> matches("10.0.2.4"), matches("10.0.3.4"), matches("fe80:0::9")
(True, False, True)
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

AddressTest = Callable[[str], bool]
"""Whether an address (without port, an IPv6 one without brackets) is meant."""

_EVERY: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_LIST_OR_COMMA: Final = re.compile(r"\{[^{}]*\}|,")
MAX_LENGTH: Final = 10_000


class AddressPatternError(ValueError):
    """No address can be read out of this text."""


def address_pattern(text: str | None) -> AddressTest:
    """A test for a pattern. Raises ``AddressPatternError``."""
    text = (text or "").strip()
    if not text:
        return lambda _address: False
    if text in _EVERY:
        return lambda _address: True
    if len(text) > MAX_LENGTH:
        raise AddressPatternError(
            f"an address pattern of {len(text)} characters, {MAX_LENGTH} are allowed"
        )
    shapes = [_shape(each.strip()) for each in _patterns(text)]

    def matches(address: str) -> bool:
        parts = address_parts(address)
        return parts is not None and any(shape.matches(parts) for shape in shapes)

    return matches


def _patterns(text: str) -> Iterator[str]:
    """What stands between the commas that are in no list. Looking ahead from each comma to the end
    would take half a second for the longest text."""
    begin = 0
    for found in _LIST_OR_COMMA.finditer(text):
        if found.group() == ",":
            yield text[begin : found.start()]
            begin = found.end()
    yield text[begin:]


@lru_cache(maxsize=4096)
def address_parts(address: str) -> tuple[int, ...] | None:
    """4 or 8 numbers, ``None`` for what is no address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return None
    if found.version == 4:
        return tuple(found.packed)
    packed = found.packed
    return tuple(packed[i] << 8 | packed[i + 1] for i in range(0, 16, 2))


class _Shape(NamedTuple):
    """Per part of the address the ranges it may be in, both ends included."""

    parts: tuple[tuple[tuple[int, int], ...], ...]

    def matches(self, address: tuple[int, ...]) -> bool:
        if len(address) != len(self.parts):
            return False
        return all(
            any(low <= value <= high for low, high in ranges)
            for value, ranges in zip(address, self.parts, strict=True)
        )


def _shape(text: str) -> _Shape:
    """Raises ``AddressPatternError``."""
    if text in _EVERY:
        raise AddressPatternError(f"{text!r} in a list means every address: write it alone")
    if ":" in text:
        parts, base, limit, count = _ipv6_parts(text), 16, 0xFFFF, 8
    else:
        parts, base, limit, count = text.split("."), 10, 255, 4
    if len(parts) != count:
        raise AddressPatternError(
            f"{text!r} is no address: an IPv4 address has 4 parts, an IPv6 address 8"
        )
    return _Shape(tuple(_ranges(part.strip(), base, limit, text) for part in parts))


def _ipv6_parts(text: str) -> list[str]:
    """All eight, the zeros of ``::`` among them."""
    head, double, tail = text.partition("::")
    before = head.split(":") if head else []
    after = tail.split(":") if tail else []
    return before + ["0"] * (8 - len(before) - len(after)) + after if double else before


def _ranges(part: str, base: int, limit: int, text: str) -> tuple[tuple[int, int], ...]:
    if part == "*":
        return ((0, limit),)
    listed = part[1:-1].split(",") if part.startswith("{") and part.endswith("}") else [part]
    return tuple(_range(each.strip(), base, limit, text) for each in listed)


def _range(part: str, base: int, limit: int, text: str) -> tuple[int, int]:
    low, minus, high = part.partition("-")
    try:
        found = _number(low, base), _number(high if minus else low, base)
    except ValueError:
        found = (1, 0)
    if not 0 <= found[0] <= found[1] <= limit:
        raise AddressPatternError(
            f"{part!r} in {text!r} is no part of an address and no range of them"
        )
    return found


def _number(text: str, base: int) -> int:
    """Digits only: ``int`` would take signs, blanks and underscores too."""
    if not text.isalnum() or not text.isascii():
        raise ValueError(text)
    return int(text, base)
