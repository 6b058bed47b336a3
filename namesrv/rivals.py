"""Brokers that have one name and id, by mistake, and take turns in the routes. Pure.

A broker may get another address, and a group's master changes; then the one before comes with
another id or not at all. Or it comes back: where leadership swings back at once, before who lost it
has said that it follows. But when both have come back for the id that they lost, while the other
one still had it, there are two brokers of that name: producers and consumers are sent to one, then
to the other, and offsets of one are taken for those of the other. The original takes both without
a word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

_MOST_OF_A_NAME: Final = 8


@dataclass(frozen=True, slots=True)
class _Turns:
    """Of one broker name: addresses to the id that it is about, the oldest first."""

    lost: dict[str, int] = field(default_factory=dict)
    """Another address has it now."""
    back: dict[str, int] = field(default_factory=dict)
    """They have come back for it, and with no other id since."""

    def forget(self, address: str) -> None:
        self.lost.pop(address, None)
        self.back.pop(address, None)


class Rivals:
    """Of one name server."""

    def __init__(self) -> None:
        self._turns: Final[dict[str, _Turns]] = {}
        """By broker name; without those of which there is nothing to say."""

    def registers(
        self, broker_name: str, broker_id: int, address: str, before: str | None
    ) -> str | None:
        """``before`` has the id until now. The address that ``address`` takes turns with, if it
        does."""
        turns, rival = self._turns.setdefault(broker_name, _Turns()), None
        if turns.back.get(address) != broker_id:
            turns.back.pop(address, None)
        comes_back = turns.lost.pop(address, None) == broker_id
        if before is not None and before != address:
            _put(turns.lost, before, broker_id)
            if comes_back:
                _put(turns.back, address, broker_id)
                rival = before if turns.back.get(before) == broker_id else None
        self._drop_if_empty(broker_name)
        return rival

    def gone(self, addresses: Collection[str]) -> None:
        """They do not come back; or as new ones."""
        for name, turns in list(self._turns.items()):
            for address in {*turns.lost, *turns.back}.intersection(addresses):
                turns.forget(address)
            self._drop_if_empty(name)

    def _drop_if_empty(self, broker_name: str) -> None:
        turns = self._turns[broker_name]
        if not turns.lost and not turns.back:
            del self._turns[broker_name]


def _put(addresses: dict[str, int], address: str, broker_id: int) -> None:
    addresses[address] = broker_id
    if len(addresses) > _MOST_OF_A_NAME:
        del addresses[next(iter(addresses))]
