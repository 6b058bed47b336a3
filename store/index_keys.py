"""What a message is found by, and the number that the index knows it under (consumequeue-index.md §3.2, §3.3).

The index keeps no keys, only ``abs(hashCode("topic#key"))`` of Java. Numbers of many keys are computed at once: by numpy
when it can be imported, else in a loop; of a topic the part in front of the key is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..remoting.protocol.properties import find_property, java_string_hash

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["UNIQUE_KEY_AT", "UNIQUE_KEY_FIRST", "hash_keys", "hash_rows", "key_hash", "keys_of", "only_key", "topic_prefix"]

_UNIQ_KEY: Final = b"\x02UNIQ_KEY\x01"
UNIQUE_KEY_FIRST: Final = _UNIQ_KEY[1:]
UNIQUE_KEY_AT: Final = len(UNIQUE_KEY_FIRST)
"""Where its value begins when the unique key is the first property."""
_KEYS: Final = b"\x02KEYS\x01"
_KEYS_FIRST: Final = _KEYS[1:]
_MANY: Final = 16
"""From so many keys on numpy is faster than the loop."""
_VERY_MANY: Final = 1000
"""From so many keys of one length on eight bytes at once are faster than each."""
_WORD: Final = 8
_OCTETS: Final = 0x00FF00FF00FF00FF
"""Every second byte of a word."""
_NOT_ASCII: Final = 0x8080808080808080
_PAIRS: Final = 0x0000FFFF0000FFFF
"""Every second two bytes."""
_EVEN_PAIRS: Final = 31**2 + (31**6 << 32)
_ODD_PAIRS: Final = 1 + (31**4 << 32)
"""What two pairs that lie 32 bits apart are multiplied by: the sum of both is in the upper half, for the lower one is too
small to reach it."""


def only_key(properties: bytes) -> bytes | None:
    """The unique key when it stands first and there is no other key: most messages. ``None``: ``keys_of`` has to look."""
    if properties.startswith(UNIQUE_KEY_FIRST) and properties.find(_KEYS_FIRST) < 0 and properties.rfind(_UNIQ_KEY) < 0:
        end = properties.find(b"\x02")
        return properties[UNIQUE_KEY_AT:end] if end > UNIQUE_KEY_AT else None
    return None


def keys_of(properties: bytes) -> list[bytes]:
    """The unique key, then each of the keys (separated by one space), as they stand in an encoded property string.

    The rules are those of ``find_property``.
    """
    unique = _value(properties, _UNIQ_KEY, UNIQUE_KEY_FIRST)
    keys = _value(properties, _KEYS, _KEYS_FIRST)
    if keys is None:
        return [unique] if unique else []
    found = [unique] if unique else []
    return found + [key for key in keys.split(b" ") if key]


def _value(properties: bytes, pair: bytes, first: bytes) -> bytes | None:
    """The value of the last pair of a name; usually one search and one slice. ``pair`` is the name between its separators,
    ``first`` the same at the beginning of the string."""
    start = properties.rfind(pair)
    if start >= 0:
        start += len(pair)
    elif properties.startswith(first):
        start = len(first)
    else:
        return None
    end = properties.find(b"\x02", start)
    value = properties[start:] if end < 0 else properties[start:end]
    return value or find_property(properties, pair[1:-1])  # an empty one does not count, an earlier one may


def topic_prefix(topic: str) -> int:
    """Java's hash of ``topic#`` without a sign, where the hash of a key goes on."""
    return java_string_hash(topic + "#") & 0xFFFFFFFF


def key_hash(topic: str, key: str) -> int:
    """The number of one key, 0 to 2^31 - 1.

    >>> key_hash("a", "b")
    95139
    """
    return _without_sign(java_string_hash(f"{topic}#{key}") & 0xFFFFFFFF)


def hash_keys(prefixes: Sequence[int], keys: Sequence[bytes]) -> Sequence[int]:
    """The numbers of many keys, as a list or an array of numpy; ``prefixes`` are those of their topics."""
    if numpy is not None and len(keys) >= _MANY:
        hashes: Sequence[int] = _hash_many(prefixes, keys)
        return hashes
    if not b"".join(keys).isascii():
        return [_hash_one(prefix, key) for prefix, key in zip(prefixes, keys, strict=True)]
    unsigned = [
        prefix * _POWERS[len(key)] + _HEADS[key[:-_TAIL]] * _TAIL_POWER + _TAILS[key[-_TAIL:]] & 0xFFFFFFFF
        for prefix, key in zip(prefixes, keys, strict=True)
    ]
    return [number if number < 0x80000000 else -number & 0x7FFFFFFF for number in unsigned]


class _Hashes(dict[bytes, int]):
    """Java's hash of ASCII text, remembered: unique keys of one client differ in their last digits only."""

    def __init__(self, most: int) -> None:
        self._most = most

    def __missing__(self, text: bytes) -> int:
        hashed = _polynomial(0, text)
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
"""So many bytes at the end of a key are looked up apart from the others: 4,096 values when they are hexadecimal digits."""
_TAIL_POWER: Final = 31**_TAIL
_HEADS: Final = _Hashes(1_000)
_TAILS: Final = _Hashes(10_000)
_POWERS: Final = _Powers()  # no key is longer than 32 KiB


def _hash_one(prefix: int, key: bytes) -> int:
    return _without_sign(_polynomial(prefix, key)) if key.isascii() else _hash_text(prefix, key)


def _polynomial(start: int, units: bytes) -> int:
    for unit in units:
        start = start * 31 + unit & 0xFFFFFFFF
    return start


def _hash_text(prefix: int, key: bytes) -> int:
    """Java counts UTF-16 units."""
    text = key.decode("utf-8", "replace")
    units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    return _without_sign(prefix * pow(31, units, 1 << 32) + java_string_hash(text) & 0xFFFFFFFF)


def _without_sign(unsigned: int) -> int:
    """``Math.abs``, and 0 for the one number that has none."""
    return unsigned if unsigned < 0x80000000 else -unsigned & 0x7FFFFFFF


_powers: Any = None
"""31^0, 31^1, ... mod 2^32, as far as they were needed."""


def _powers_below(count: int) -> Any:
    global _powers
    if _powers is None or len(_powers) < count:
        table = numpy.full(max(64, 2 * count), 31, numpy.uint32)
        table[0] = 1
        _powers = numpy.multiply.accumulate(table, dtype=numpy.uint32)
    return _powers


def _hash_many(prefixes: Sequence[int], keys: Sequence[bytes]) -> Any:
    """A hash is a polynomial: the sum of unit x 31^(units behind it), plus the prefix x 31^(all units)."""
    joined = b"".join(keys)
    units = numpy.frombuffer(joined, numpy.uint8)
    lengths = numpy.fromiter(map(len, keys), numpy.int64, len(keys))
    longest = int(lengths.max())
    powers = _powers_below(longest + 1)
    if longest * len(keys) == len(joined):  # all of one length: unique keys are
        sums = _row_sums(units.reshape(len(keys), longest))
    else:
        ends = lengths.cumsum()
        behind = numpy.repeat(ends, lengths) - numpy.arange(1, len(joined) + 1)
        sums = numpy.add.reduceat(units * powers[behind], ends - lengths, dtype=numpy.uint32)
    first = prefixes[0]
    same = first if prefixes.count(first) == len(prefixes) else numpy.array(prefixes, numpy.uint32)
    hashes = _without_signs(sums + numpy.uint32(same) * powers[lengths])
    if not joined.isascii():
        for number, key in enumerate(keys):
            if not key.isascii():
                hashes[number] = _hash_text(prefixes[number], key)
    return hashes


def hash_rows(prefixes: Any, rows: Any) -> Any:
    """The numbers of many keys of one length: ``rows`` is an array of their bytes, ``prefixes`` one of those of their
    topics. None when there are others than ASCII characters.
    """
    if not _is_ascii(rows):
        return None
    return _without_signs(_row_sums(rows) + prefixes * _powers_below(rows.shape[1] + 1)[rows.shape[1]])


def _is_ascii(rows: Any) -> bool:
    if rows.shape[1] % _WORD:
        ascii_only: bool = rows.tobytes().isascii()
        return ascii_only
    return not int(numpy.bitwise_or.reduce(rows.view("<u8"), axis=None)) & _NOT_ASCII


def _row_sums(rows: Any) -> Any:
    count, length = rows.shape
    if count >= _VERY_MANY and not length % _WORD:
        return _sums_by_words(rows.view("<u8"))
    return rows.astype(numpy.uint32) @ _powers_below(length + 1)[length - 1 :: -1][:length]


def _sums_by_words(words: Any) -> Any:
    """The same, eight bytes at once; words that all keys begin with (those of one client do) are only looked at once."""
    start, sums = 0, None
    for column in words.T:
        if sums is None and column[0] == column[-1] and (column == column[0]).all():
            start = _polynomial(start, column[:1].tobytes())
            continue
        pairs = column & _OCTETS
        pairs *= 31
        pairs += column >> 8 & _OCTETS
        odd = pairs >> 16
        odd &= _PAIRS
        odd *= _ODD_PAIRS
        pairs &= _PAIRS
        pairs *= _EVEN_PAIRS
        pairs += odd
        pairs >>= 32
        pairs += start * _POWERS[_WORD] & 0xFFFFFFFF if sums is None else sums * _POWERS[_WORD]
        sums = pairs
    return numpy.full(len(words), start, numpy.uint32) if sums is None else sums.astype(numpy.uint32)


def _without_signs(sums: Any) -> Any:
    return numpy.abs(sums.view(numpy.int32)) & 0x7FFFFFFF
