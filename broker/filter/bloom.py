"""The bloom filter in front of SQL92 filters (classes BloomFilter, BitsArray;
``consumequeue-index.md`` §2.2). Pure.

Every group that filters a topic has ``k`` positions out of ``m`` bits. When a message is stored,
the positions of those groups that want it are set in its bit map; a group whose positions are not
all set does not want it. Bit ``i`` is in byte ``i // 8``, with the value ``1 << (i % 8)``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Final

import msgspec

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class BloomFilter(msgspec.Struct, frozen=True):
    """``hash_count`` positions out of ``bit_count``, a multiple of 8."""

    hash_count: int
    bit_count: int

    @classmethod
    def for_groups(cls, expected_groups: int, error_percent: int) -> BloomFilter:
        """Few enough bits that of ``expected_groups`` at most ``error_percent`` want a message in
        vain.

        Raises ``ValueError`` for numbers that make no filter: the error has to be 1 to 99, the
        groups at least 1.
        """
        if not 1 <= error_percent < 100 or expected_groups < 1:
            raise ValueError(
                f"expectConsumerNumUseFilter={expected_groups} has to be at least 1, "
                f"maxErrorRateOfBloomFilter={error_percent} between 1 and 99"
            )
        rate = error_percent / 100
        hashes = math.ceil(math.log(rate, 0.5))
        bits = math.ceil(expected_groups * math.log2(1 / rate) * math.log2(math.e))
        return cls(hashes, -(-bits // 8) * 8)

    @property
    def size_bytes(self) -> int:
        return self.bit_count // 8

    def positions(self, group: str, topic: str) -> tuple[int, ...]:
        """The bits of a group that filters a topic. Two of them may be the same."""
        value = murmur3_64(f"{group}#{topic}".encode())
        low, high = value & 0xFFFFFFFF, value >> 32
        return tuple(
            self._position(low + number * high) for number in range(1, self.hash_count + 1)
        )

    def _position(self, value: int) -> int:
        """Sums wrap at 32 bits; those that are negative then are complemented."""
        value &= 0xFFFFFFFF
        return (value if value < 1 << 31 else value ^ 0xFFFFFFFF) % self.bit_count


def mask_of(positions: Iterable[int]) -> int:
    """Positions as a number, for ``is_hit``."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def is_hit(mask: int, bit_map: bytes) -> bool:
    """All bits of the mask are set."""
    return int.from_bytes(bit_map, "little") & mask == mask


def murmur3_64(data: bytes) -> int:
    """The first 64 bits of MurmurHash3_x64_128 with seed 0, as a little-endian number."""
    h1 = h2 = 0
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        k1, k2 = struct.unpack_from("<QQ", data, at)
        h1 ^= _rotate(k1 * _C1 & _MASK, 31) * _C2 & _MASK
        h1 = (_rotate(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _rotate(k2 * _C2 & _MASK, 33) * _C1 & _MASK
        h2 = (_rotate(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    k1, k2 = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
    h2 ^= _rotate(k2 * _C2 & _MASK, 33) * _C1 & _MASK
    h1 ^= _rotate(k1 * _C1 & _MASK, 31) * _C2 & _MASK
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _mix(h1) + _mix(h2) & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mix(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
