"""What the requests of a run look like: lengths, properties, order of header fields, from a seed
that is new each time.

So nothing can be tuned to one request. A row draws the same from the same seed, whatever else is
measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from .play import KEY_HOLE

_NAMES: Final = ("orderId", "traceparent", "region", "customer", "content-type", "attempt")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


class Draw:
    """One row's draws."""

    def __init__(self, seed: int, row: str, orders: int = 1) -> None:
        """``orders``: of header fields, one after the other."""
        self._random = Random(f"{seed} {row}")
        self._orders = [self._random.random() for _ in range(orders)]
        self._next = 0

    def body(self, size: int) -> bytes:
        """Of half to one and a half times that; ``size`` bytes on average."""
        return self._random.randbytes(self._random.randint(size - size // 2, size + size // 2))

    def properties(self, *more: str) -> str:
        """Those of a plain producer, up to two of its own, and keys in every fourth message, in any
        order."""
        found = [
            f"UNIQ_KEY\x017F0000010000000000000000{KEY_HOLE}",
            "WAIT\x01true",
            f"TAGS\x01{self._text(1, 8)}",
            *more,
        ]
        found += (
            f"{name}\x01{self._text(1, 24)}"
            for name in self._random.sample(_NAMES, self._random.randint(0, 2))
        )
        if not self._random.randrange(4):
            found.append(f"KEYS\x01{self._text(6, 16)}")
        self._random.shuffle(found)
        return "\x02".join(found)

    def order(self, names: Iterable[str]) -> list[str]:
        """Of the fields of the next header."""
        found = sorted(names)
        Random(self._orders[self._next % len(self._orders)]).shuffle(found)
        self._next += 1
        return found

    def _text(self, least: int, most: int) -> str:
        return "".join(self._random.choices(_LETTERS, k=self._random.randint(least, most)))
