"""The CRC of a body: compiled, by zlib, and as the definition has it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.leaves import pure_checksums as pure

from .both import SOURCES, compiled_leaves, outcome

compiled = compiled_leaves()
NOISE = bytes(pure.crc32(number.to_bytes(4, "big")) & 255 for number in range(1024))
POLYNOMIAL = 0x104C11DB7


def test_every_length_and_every_place() -> None:
    """Each step of 64, 16 and 1 bytes, and every end of a buffer (where the sanitizers look on)."""
    for size in range(len(NOISE)):
        piece = NOISE[-size:] if size else b""
        assert compiled.crc32(piece) == pure.crc32(piece), size
        assert compiled.crc32(memoryview(NOISE)[:size]) == pure.crc32(NOISE[:size]), size


@given(st.binary(max_size=600), st.integers(0, 2**32 - 1), st.integers(0, 600))
def test_it_goes_on_from_any_value(data: bytes, value: int, split: int) -> None:
    assert compiled.crc32(data, value) == pure.crc32(data, value)
    assert compiled.crc32(data[split:], compiled.crc32(data[:split], value)) == pure.crc32(
        data, value
    )


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_all_kinds_of_buffers_and_sizes_at_which_others_may_run(kind: type) -> None:
    for size in (0, 1, 65535, 65536, 100_001):
        data = kind(bytes(size))
        assert compiled.crc32(data) == pure.crc32(data)


@pytest.mark.parametrize("wrong", ["text", None, 7, memoryview(bytes(8))[::2]])
def test_what_is_no_buffer_is_refused_in_the_same_words(wrong: object) -> None:
    assert outcome(compiled.crc32, wrong) == outcome(pure.crc32, wrong)


def test_the_constants_are_those_of_the_polynomial() -> None:
    """x^n modulo the polynomial, bits reversed; each with one bit more because a product of
    reversed numbers lacks it."""

    def power(n: int) -> int:
        rest = 1
        for _ in range(n):
            rest <<= 1
            rest ^= POLYNOMIAL if rest >> 32 else 0
        return rest

    def reversed_bits(number: int, width: int) -> int:
        return int(f"{number:0{width}b}"[::-1], 2)

    def inverse() -> int:
        """The quotient of x^64 and the polynomial."""
        rest, quotient = 1 << 64, 0
        for bit in range(32, -1, -1):
            if rest >> (bit + 32) & 1:
                rest ^= POLYNOMIAL << bit
                quotient |= 1 << bit
        return quotient

    text = (SOURCES / "crc32.h").read_text()
    found = re.findall(r"_mm_set_epi64x\((\w+), (\w+)\)", text)
    distances = [
        [reversed_bits(power(8 * size + more), 32) << 1 for more in (-32, 32)] for size in (64, 16)
    ]
    expected = [
        *distances,
        [0, reversed_bits(power(64), 32) << 1],
        [reversed_bits(n, 33) for n in (inverse(), POLYNOMIAL)],
    ]
    assert [[int(number, 0) for number in pair] for pair in found] == expected
