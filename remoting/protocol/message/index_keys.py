"""What a message is found by, and the number that the index knows it under (consumequeue-index.md
§3.2, §3.3).

The index keeps no keys, only ``abs(hashCode("topic#key"))`` of Java. Of a topic the part in front
of the key is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .properties import find_property, java_string_hash

_MAX_PREFIXES: Final = 10_000


def keys_of(properties: bytes) -> list[bytes]:
    """The unique key, then each of the keys (separated by one space), as they stand in an encoded
    property string.

    The rules are those of ``find_property``.
    """
    unique, keys = find_property(properties, b"UNIQ_KEY"), find_property(properties, b"KEYS")
    found = [unique] if unique else []
    return found + [key for key in keys.split(b" ") if key] if keys else found


def topic_prefix(topic: str) -> int:
    """Java's hash of ``topic#`` without a sign, where the hash of a key goes on."""
    return java_string_hash(topic + "#") & 0xFFFFFFFF


class TopicPrefixes(dict[str, int]):
    """``topic_prefix`` of every topic, remembered."""

    def __missing__(self, topic: str) -> int:
        if len(self) >= _MAX_PREFIXES:
            self.clear()
        prefix = self[topic] = topic_prefix(topic)
        return prefix


def key_hash(topic: str, key: str) -> int:
    """The number of one key, 0 to 2^31 - 1.

    >>> key_hash("a", "b")
    95139
    """
    return _without_sign(java_string_hash(f"{topic}#{key}") & 0xFFFFFFFF)


def hash_keys(prefixes: Sequence[int], keys: Sequence[bytes]) -> list[int]:
    """The numbers of many keys; ``prefixes`` are those of their topics."""
    if not b"".join(keys).isascii():
        return [hash_text(prefix, key) for prefix, key in zip(prefixes, keys, strict=True)]
    unsigned = [
        prefix * _POWERS[len(key)] + _HEADS[key[:-_TAIL]] * _TAIL_POWER + _TAILS[key[-_TAIL:]]
        & 0xFFFFFFFF
        for prefix, key in zip(prefixes, keys, strict=True)
    ]
    return [number if number < 0x80000000 else -number & 0x7FFFFFFF for number in unsigned]


class _Hashes(dict[bytes, int]):
    """Java's hash of ASCII text, remembered: unique keys of one client differ in their last digits
    only."""

    def __init__(self, most: int) -> None:
        self._most = most

    def __missing__(self, text: bytes) -> int:
        hashed = 0
        for unit in text:
            hashed = hashed * 31 + unit & 0xFFFFFFFF
        if len(text) <= _MEMORABLE:
            if len(self) >= self._most:
                self.clear()
            self[text] = hashed
        return hashed


class _Powers(dict[int, int]):
    """31^n modulo 2^32."""

    def __missing__(self, exponent: int) -> int:
        power = self[exponent] = pow(31, exponent, 1 << 32)
        return power


_MEMORABLE: Final = 200
"""Bytes; a key may have 32,767."""
_TAIL: Final = 3
"""So many bytes at the end of a key are looked up apart from the others: 4,096 values when they are
hexadecimal digits."""
_TAIL_POWER: Final = 31**_TAIL
_HEADS: Final = _Hashes(1_000)
_TAILS: Final = _Hashes(10_000)
_POWERS: Final = _Powers()  # no key is longer than 32 KiB


def hash_text(prefix: int, key: bytes) -> int:
    """The number of any key, also of one with other than ASCII characters: Java counts UTF-16
    units."""
    text = key.decode("utf-8", "replace")
    units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    return _without_sign(prefix * pow(31, units, 1 << 32) + java_string_hash(text) & 0xFFFFFFFF)


def _without_sign(unsigned: int) -> int:
    """``Math.abs``, and 0 for the one number that has none."""
    return unsigned if unsigned < 0x80000000 else -unsigned & 0x7FFFFFFF
