"""Brokers that have one name and id, by mistake, and take turns in the routes. Pure.

A broker may get another address, and a group's master changes; then the one before comes with
another id or not at all. Who comes back for the id that it lost, while the other one still has it,
is the second broker of that name: producers and consumers are sent to one, then to the other, and
offsets of one are taken for those of the other. The original takes both without a word.
"""

from __future__ import annotations

from typing import Final

_MOST_OF_A_NAME: Final = 8


class Rivals:
    """Of one name server."""

    def __init__(self) -> None:
        self._lost: Final[dict[str, dict[str, int]]] = {}
        """Broker name to the addresses that have lost an id to another address, the oldest
        first."""

    def registers(
        self, broker_name: str, broker_id: int, address: str, before: str | None
    ) -> str | None:
        """``before`` has the id until now. The address that ``address`` takes turns with, if it
        does."""
        lost = self._lost.setdefault(broker_name, {})
        comes_back = lost.pop(address, None) == broker_id
        if before is not None and before != address:
            lost[before] = broker_id
            if len(lost) > _MOST_OF_A_NAME:
                del lost[next(iter(lost))]
        if not lost:
            del self._lost[broker_name]
        return before if comes_back and before != address else None

    def gone(self, address: str) -> None:
        """It does not come back; or as a new one."""
        for name in [
            name for name, lost in self._lost.items() if lost.pop(address, None) is not None
        ]:
            if not self._lost[name]:
                del self._lost[name]
