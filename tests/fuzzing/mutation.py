"""Inputs made of known good ones: bytes changed, put in, taken out, doubled, repeated.

The same ``random.Random`` gives the same inputs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

JUNK: Final = b'"\\{}:, nu01.-\0\1\2\x1f\x7f\x80\xc3\xed\xff'
MOST_BYTES: Final = 16 << 10
"""Longest input of a campaign."""
_NUMBERS: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """Of most inputs one place is changed, of others several, so that what is behind a mistake is
    seen, too."""
    data, more = seed, True
    while more:
        bits = chance.getrandbits(64)
        at, change = (bits >> 8) % (len(data) + 1), bits & 7
        if change < 3:
            data = data[:at] + JUNK[(bits >> 40) % len(JUNK) :][:1] + data[at + 1 :]
        elif change == 3:
            data = data[:at] + bytes([bits >> 40 & 255]) + data[at + 1 :]
        elif change == 4:
            data = data[:at] + JUNK[(bits >> 40) % len(JUNK) :][:1] + data[at:]
        elif change == 5:
            data = data[:at] + data[at + (bits >> 40 & 15) + 1 :]
        elif change == 6:
            start = (bits >> 40) % (len(data) + 1)
            data = data[:at] + data[start : start + (bits >> 58)] + data[at:]
        else:
            data = data[:at]
        more = not bits >> 3 & 3
    return data


def blown_up(seed: bytes, chance: random.Random) -> bytes:
    """What ``mutated`` seldom makes: a number of four bytes at its limits, or some bytes over and
    over again, as in nestings and numbers of thousands of digits."""
    at = chance.randrange(len(seed) + 1)
    if chance.random() < 0.5:
        number = chance.choice(_NUMBERS).to_bytes(4, "big")
        return seed[:at] + number + seed[at + 4 :]
    piece = seed[at : at + chance.randrange(1, 8)] or b"9"
    times = chance.choice((16, 70, 300, 5000)) // len(piece) + 1
    return (seed[:at] + piece * times + seed[at:])[:MOST_BYTES]


def inputs(seeds: Sequence[bytes], seed: int, name: str) -> Iterator[bytes]:
    """Without end: the seeds as they are, then what mutation makes of them."""
    chance = random.Random(f"{seed} {name}")
    yield from seeds
    known = list(seeds) or [b""]
    while True:
        data = chance.choice(known)
        made = blown_up(data, chance) if chance.random() < 0.04 else mutated(data, chance)
        yield made[:MOST_BYTES]
