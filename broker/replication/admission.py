"""Who is let in at the port for slaves, without I/O.

Anybody may come, and a slave says nothing for up to five seconds (one of the original), so
connections are limited: in all, and per address. The slaves that belong here get in because others
have to go when the limit is reached: first who has said nothing yet, then, for a slave that the
name servers know, who is at an address where they know none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

MAX_SLAVES: Final = 64


class NotAdmittedError(Exception):
    """The text says why."""


class Visitor(msgspec.Struct, eq=False):
    """A connection from its first moment on."""

    host: str
    end: Callable[[str], None]
    """Called with the reason when it has to go."""
    has_spoken: bool = False
    """It has reported, and proved that it knows the secret if there is one."""


class Admission:
    """``registered``: addresses of the slaves that name servers know."""

    def __init__(self, per_address: int, most: int = MAX_SLAVES) -> None:
        self.registered: frozenset[str] = frozenset()
        self._per_address: Final = per_address
        self._most: Final = most
        self._visitors: dict[Visitor, None] = {}

    def __len__(self) -> int:
        return len(self._visitors)

    @property
    def fills(self) -> bool:
        """Time to ask name servers who is registered."""
        return 2 * len(self._visitors) >= self._most

    def enter(self, visitor: Visitor) -> Visitor | None:
        """Take somebody in; who has to go for that. Raises ``NotAdmittedError``."""
        neighbours = [each for each in self._visitors if each.host == visitor.host]
        gone = None
        if len(neighbours) >= self._per_address:
            gone = next((each for each in neighbours if not each.has_spoken), None)
            if gone is None:
                raise NotAdmittedError(
                    f"{len(neighbours)} are connected from there already "
                    "(haMaxConnectionsPerAddress)"
                )
        elif len(self._visitors) >= self._most:
            gone = self._least_wanted(visitor.host)
            if gone is None:
                raise NotAdmittedError(
                    f"{len(self._visitors)} are connected already, and no name server knows a "
                    "slave there"
                )
        if gone is not None:
            del self._visitors[gone]
        self._visitors[visitor] = None
        return gone

    def _least_wanted(self, host: str) -> Visitor | None:
        strangers = [each for each in self._visitors if each.host not in self.registered]
        silent = next((each for each in strangers if not each.has_spoken), None)
        if silent is not None or host not in self.registered:
            return silent
        return (
            strangers[-1]
            if strangers
            else next((each for each in self._visitors if not each.has_spoken), None)
        )

    def leave(self, visitor: Visitor) -> None:
        self._visitors.pop(visitor, None)
