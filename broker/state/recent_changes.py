"""Which keys of a table have changed lately, for somebody who has the rest of it. Pure."""

from __future__ import annotations

from typing import Final

MOST_REMEMBERED: Final = 100_000


class RecentChanges:
    """The number of the last change of each key, of those that changed last."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self.number: int = 0
        """Of the last change."""
        self._most: Final = most
        self._last: dict[str, int] = {}
        """The key that changed last is the last one."""
        self._forgotten = 0
        """Up to this change it is not known any more which keys changed."""

    def changed(self, key: str) -> None:
        """It has another value, or is new."""
        last = self._last
        self.number += 1
        last.pop(key, None)
        last[key] = self.number
        if len(last) > self._most:
            self._forgotten = last.pop(next(iter(last)))

    def forget(self) -> None:
        """Keys may be gone, or be others: who has the table has it no more."""
        self.number += 1
        self._forgotten = self.number
        self._last.clear()

    def since(self, number: int) -> list[str] | None:
        """Keys that have changed after that change; None: nobody knows."""
        if not self._forgotten <= number <= self.number:
            return None
        keys: list[str] = []
        for key, changed in reversed(self._last.items()):
            if changed <= number:
                break
            keys.append(key)
        return keys
